/**
 * Bulk operations on the heap: replacements of a module's memory.fill, memory.copy and memory.init. Module worker.
 *
 *     (func $copy (param $to $from $size  $fuel i64) (result i64)
 *       fuel = chargeSize($size, fuel)                  ;; all of it
 *       if $size is at most BULK_PIECE_BYTES, or out of bounds: touch the destination, memory.copy
 *       otherwise, from the first piece to the last, or from the last to the first if the destination is behind
 *         touch the piece's destination, memory.copy of the piece, svc.yield
 *       fuel)
 *
 * A gigabyte at once takes a second and more, nearly all of it for pages that the machine has to provide, and the
 * thread would serve nobody else meanwhile. An operation out of bounds traps as before, before it has written anything.
 */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { BULK_PIECE_BYTES } from '../abi/index.ts';
import type { AddedFunctions } from '../added-functions.ts';
import {
  type AddressCode,
  br,
  call,
  type Code,
  code,
  get,
  HEAP,
  i64,
  ifThen,
  ifThenElse,
  loop,
  memorySize,
  set,
  tee,
  unsigned,
} from '../assembler.ts';
import type { HostFunctions } from './growth.ts';

const { i32: I32, i64: I64 } = VALUE_TYPE;

const TO = 0;
const FROM = 1;
const SIZE = 2;
const FUEL = 3;
/** Bytes that are left, initially all of them. */
const REST = 4;
/** Length of the piece. */
const PIECE = 5;
/** Address of the piece. */
const AT = 6;

interface BulkContext {
  readonly added: AddedFunctions;
  readonly address: AddressCode;
  /** (size i64, fuel) -> fuel */
  readonly chargeSize: number;
  /** (address i64, length i64); undefined: without a journal. */
  readonly touchRange: number | undefined;
  readonly host: HostFunctions;
}

/** One of the three operations: the types of its two operands after the destination, and the instruction. */
interface Operation {
  readonly fromType: number;
  readonly sizeType: number;
  readonly opcode: Code;
  /** True if the destination may overlap the source. */
  readonly overlaps?: boolean;
  /** True if the second operand is the same for all pieces. */
  readonly isValue?: boolean;
}

/** Functions (to, from or value, size, fuel) -> fuel; each is added when a body first needs it. */
export class BulkFunctions {
  readonly #context: BulkContext;
  readonly #inits = new Map<number, number>();
  #copy: number | undefined;
  #fill: number | undefined;

  constructor(context: BulkContext) {
    this.#context = context;
  }

  get copy(): number {
    const { type } = this.#context.address;
    const opcode = code(OP.MEMORY_COPY, [HEAP, HEAP]);
    return (this.#copy ??= this.#add({ fromType: type, sizeType: type, opcode, overlaps: true }));
  }

  get fill(): number {
    const { type } = this.#context.address;
    const opcode = code(OP.MEMORY_FILL, [HEAP]);
    return (this.#fill ??= this.#add({ fromType: I32, sizeType: type, opcode, isValue: true }));
  }

  /** Returns the function for memory.init of one data segment. */
  init(segment: number): number {
    const known = this.#inits.get(segment);
    if (known !== undefined) return known;
    const opcode = code(OP.MEMORY_INIT, unsigned(segment), [HEAP]);
    const index = this.#add({ fromType: I32, sizeType: I32, opcode });
    this.#inits.set(segment, index);
    return index;
  }

  #add(operation: Operation): number {
    const { added, address, chargeSize } = this.#context;
    const { fromType, sizeType, opcode, overlaps = false } = operation;
    return added.add(
      [address.type, fromType, sizeType, I64],
      [I64],
      [I64, I64, I64],
      code(
        get(SIZE),
        widened(sizeType),
        tee(REST),
        get(FUEL),
        call(chargeSize),
        set(FUEL),
        get(REST),
        i64(BULK_PIECE_BYTES),
        OP.I64_LE_U,
        this.#isBeyond(TO, address.type),
        OP.I32_OR,
        overlaps ? code(this.#isBeyond(FROM, fromType), OP.I32_OR) : [],
        ifThenElse(
          code(this.#touch(code(get(TO), address.toI64), get(REST)), get(TO), get(FROM), get(SIZE), opcode),
          this.#pieces(operation),
        ),
        get(FUEL),
      ),
    );
  }

  /** Returns code that tests if REST bytes from the address in `local` extend beyond the heap. */
  #isBeyond(local: number, type: number): Code {
    const { toI64 } = this.#context.address;
    const heapBytes = code(memorySize(HEAP), toI64, i64(Math.log2(WASM_PAGE_BYTES)), OP.I64_SHL);
    // Sizes and addresses have 64 bits: their sum may wrap.
    return code(
      get(REST),
      heapBytes,
      OP.I64_GT_U,
      get(local),
      widened(type),
      code(heapBytes, get(REST), OP.I64_SUB),
      OP.I64_GT_U,
      OP.I32_OR,
    );
  }

  #touch(from: Code, length: Code): Code {
    const { touchRange } = this.#context;
    return touchRange === undefined ? [] : code(from, length, call(touchRange));
  }

  #pieces({ fromType, sizeType, opcode, overlaps = false, isValue = false }: Operation): Code {
    const { address, host } = this.#context;
    const operand = (local: number, type: number): Code =>
      code(get(local), get(AT), type === I64 ? [] : OP.I32_WRAP_I64, type === I64 ? OP.I64_ADD : OP.I32_ADD);
    const piece = code(
      this.#touch(code(operand(TO, address.type), address.toI64), get(PIECE)),
      operand(TO, address.type),
      isValue ? get(FROM) : operand(FROM, fromType),
      get(PIECE),
      sizeType === I64 ? [] : OP.I32_WRAP_I64,
      opcode,
    );
    const unlessDone = ifThen(call(host.yield), br(1));
    const isLeft = code(get(REST), OP.I64_EQZ, OP.I32_EQZ);
    const forwards = code(
      i64(0),
      set(AT),
      loop(TAKE_PIECE, piece, get(AT), get(PIECE), OP.I64_ADD, set(AT), isLeft, unlessDone),
    );
    if (!overlaps) return forwards;
    const backwards = loop(TAKE_PIECE, get(REST), set(AT), piece, isLeft, unlessDone);
    const isBehind = code(get(TO), widened(address.type), get(FROM), widened(fromType), OP.I64_GT_U);
    return code(isBehind, ifThenElse(backwards, forwards));
  }
}

const widened = (type: number): Code => (type === I64 ? [] : [OP.I64_EXTEND_I32_U]);

/** Sets PIECE to the length of the next piece, and REST to the bytes after it. */
const TAKE_PIECE = code(
  get(REST),
  i64(BULK_PIECE_BYTES),
  code(get(REST), i64(BULK_PIECE_BYTES), OP.I64_LT_U),
  [OP.SELECT],
  set(PIECE),
  get(REST),
  get(PIECE),
  OP.I64_SUB,
  set(REST),
);
