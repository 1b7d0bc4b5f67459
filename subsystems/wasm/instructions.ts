/**
 * Function bodies as arrays: one slot an instruction, no object. The buffer is filled again for each function, so that
 * walking a module of a million instructions leaves no garbage.
 */
import { numberAt } from '../../kernel/index.ts';
import { signedLeb } from './bytes.ts';
import type { WasmModule } from './module.ts';
import { isValueType, typeOfFunction } from './module.ts';
import { IMMEDIATE, IMMEDIATES, MISC, OPCODE_COUNT, reasonForRefusal, SIMD } from './opcodes.ts';
import { hex, refusal } from './refusal.ts';
import { describeFunction } from './names.ts';

/** docs/modules.md, "What is checked". */
const INSTRUCTIONS_PER_FUNCTION_MAX = 1_000_000;
/** V8's bound is 50,000, parameters included; the instrumenter needs some of its own. */
const LOCALS_PER_FUNCTION_MAX = 49_900;

/** Block type of a block without parameters and results, and the smallest value of one with a single result. */
export const BLOCK_TYPE_EMPTY = -64;

/** A function body, decoded. Index `i` below `count` is an instruction. */
export class InstructionBuffer {
  count = 0;
  /** Unified opcode, see opcodes.ts. */
  opcode = new Uint16Array(1024);
  /** Offset of its first byte in the module; `at[count]` is the end of the body. */
  at = new Uint32Array(1025);
  /**
   * First immediate: index, label, block type (negative: −64 none, else a value type), offset of a memory access,
   * constant. Exact up to 2^53; of a `br_table` the place of its first label in `labels`.
   */
  first = new Float64Array(1024);
  /** Second immediate: table, memory or number of labels without the default. */
  second = new Uint32Array(1024);
  /** Labels of all `br_table`s, each with its default last. */
  labels = new Uint32Array(256);
  labelCount = 0;
  /** Locals beyond the parameters, as in the binary: pairs of count and type. */
  localGroups: number[] = [];
  localCount = 0;
  localsHaveV128 = false;

  grow(): void {
    const size = this.opcode.length * 2;
    this.opcode = grown(this.opcode, new Uint16Array(size));
    this.at = grown(this.at, new Uint32Array(size + 1));
    this.first = grown(this.first, new Float64Array(size));
    this.second = grown(this.second, new Uint32Array(size));
  }

  addLabel(label: number): void {
    if (this.labelCount === this.labels.length)
      this.labels = grown(this.labels, new Uint32Array(this.labels.length * 2));
    this.labels[this.labelCount++] = label;
  }
}

function grown<T extends Uint16Array | Uint32Array | Float64Array>(from: T, to: T): T {
  to.set(from);
  return to;
}

/** Decodes the body of defined function `body`; refuses opcodes that are not on the list, with their place. */
export function decodeBody(module: WasmModule, body: number, into: InstructionBuffer): void {
  const decoder = new BodyDecoder(module, body);
  decoder.locals(into);
  decoder.instructions(into);
}

/**
 * `?? 0`: reading goes on behind the last byte of the module, and `#tooShort` says so when the instruction has ended.
 */
class BodyDecoder {
  readonly #module: WasmModule;
  readonly #bytes: Uint8Array;
  readonly #body: number;
  readonly #end: number;
  #p: number;

  constructor(module: WasmModule, body: number) {
    this.#module = module;
    this.#bytes = module.bytes;
    this.#body = body;
    this.#p = numberAt(module.bodyStart, body, 'start of body');
    this.#end = numberAt(module.bodyEnd, body, 'end of body');
  }

  locals(into: InstructionBuffer): void {
    const params = typeOfFunction(this.#module, this.#module.importedFunctionCount + this.#body).params;
    into.localGroups = [];
    into.localsHaveV128 = params.includes(0x7b);
    into.localCount = params.length;
    for (let groups = this.#unsigned(); groups > 0; groups--) {
      const count = this.#unsigned();
      const type = this.#bytes[this.#p++] ?? 0;
      into.localCount += count;
      if (into.localCount > LOCALS_PER_FUNCTION_MAX) {
        this.#refuse('wasm-limit', `it has more than ${LOCALS_PER_FUNCTION_MAX} locals`, this.#p);
      }
      if (!isValueType(type))
        this.#refuse('wasm-unsupported', `a local has type ${hex(type)}, which is not supported,`, this.#p - 1);
      if (type === 0x7b) into.localsHaveV128 = true;
      into.localGroups.push(count, type);
      if (this.#p > this.#end) this.#tooShort();
    }
  }

  instructions(into: InstructionBuffer): void {
    const bytes = this.#bytes;
    const end = this.#end;
    let { opcode: opcodes, at, first } = into;
    let n = 0;
    into.labelCount = 0;
    while (this.#p < end) {
      if (n === opcodes.length) {
        if (n > INSTRUCTIONS_PER_FUNCTION_MAX)
          this.#refuse('wasm-limit', `it has more than ${INSTRUCTIONS_PER_FUNCTION_MAX} instructions`, this.#p);
        into.grow();
        ({ opcode: opcodes, at, first } = into);
      }
      const start = this.#p++;
      let opcode = bytes[start] ?? 0;
      if (opcode >= 0xfb) opcode = this.#prefixed(opcode, start);
      opcodes[n] = opcode;
      at[n] = start;
      const immediate = IMMEDIATES[opcode] ?? 0;
      if (immediate !== IMMEDIATE.NONE) {
        if (immediate === IMMEDIATE.INDEX) first[n] = this.#unsigned();
        else if (immediate === IMMEDIATE.CONSTANT) first[n] = this.#signed();
        else if (immediate === IMMEDIATE.MEMORY_ARGUMENT) first[n] = this.#memoryArgument();
        else this.#rareImmediate(into, n, immediate, opcode);
      }
      n++;
    }
    if (this.#p > end) this.#tooShort();
    if (n > INSTRUCTIONS_PER_FUNCTION_MAX)
      this.#refuse('wasm-limit', `it has more than ${INSTRUCTIONS_PER_FUNCTION_MAX} instructions`, this.#p);
    at[n] = end;
    into.count = n;
  }

  #prefixed(prefix: number, start: number): number {
    const sub = this.#unsigned();
    const opcode =
      prefix === 0xfc && sub < 0x100 ? MISC + sub : prefix === 0xfd && sub < 0x100 ? SIMD + sub : OPCODE_COUNT;
    if ((IMMEDIATES[opcode] ?? 0) === IMMEDIATE.REFUSED)
      this.#refuse('wasm-unsupported', reasonForRefusal(prefix, sub), start);
    return opcode;
  }

  #rareImmediate(into: InstructionBuffer, n: number, immediate: number, opcode: number): void {
    switch (immediate) {
      case IMMEDIATE.BLOCK_TYPE:
        into.first[n] = this.#blockType();
        return;
      case IMMEDIATE.TWO_INDICES:
        into.first[n] = this.#unsigned();
        into.second[n] = this.#unsigned();
        return;
      case IMMEDIATE.LABELS: {
        const count = this.#unsigned();
        into.first[n] = into.labelCount;
        into.second[n] = count;
        for (let k = 0; k <= count; k++) {
          if (this.#p >= this.#end) this.#tooShort();
          into.addLabel(this.#unsigned());
        }
        return;
      }
      case IMMEDIATE.TYPES: {
        for (let count = this.#unsigned(); count > 0 && this.#p < this.#end; count--) this.#type();
        return;
      }
      case IMMEDIATE.FOUR_BYTES:
        this.#p += 4;
        return;
      case IMMEDIATE.EIGHT_BYTES:
        this.#p += 8;
        return;
      case IMMEDIATE.SIXTEEN_BYTES:
        this.#p += 16;
        return;
      case IMMEDIATE.REFERENCE_TYPE:
        this.#type();
        return;
      case IMMEDIATE.MEMORY_ARGUMENT_LANE:
        into.first[n] = this.#memoryArgument();
        this.#p++;
        return;
      case IMMEDIATE.LANE:
        this.#p++;
        return;
      case IMMEDIATE.MEMORY:
        this.#onlyMemory();
        return;
      case IMMEDIATE.TWO_MEMORIES:
        this.#onlyMemory();
        this.#onlyMemory();
        return;
      case IMMEDIATE.DATA_MEMORY:
        into.first[n] = this.#unsigned();
        this.#onlyMemory();
        return;
      default:
        this.#refuse('wasm-unsupported', reasonForRefusal(opcode, undefined), numberAt(into.at, n, 'instruction'));
    }
  }

  /** The index of a function type, or, below zero, `BLOCK_TYPE_EMPTY` or a value type. */
  #blockType(): number {
    const start = this.#p;
    const type = this.#signed();
    // Other types are references of the garbage collection proposal: V8 knows them, and reads more bytes behind some of
    // them.
    if (type < 0 && type !== BLOCK_TYPE_EMPTY && !isValueType(type + 0x80))
      this.#refuse('wasm-unsupported', `block type ${hex(type + 0x80)} is not supported`, start);
    return type;
  }

  #type(): void {
    const type = this.#bytes[this.#p++] ?? 0;
    if (!isValueType(type)) this.#refuse('wasm-unsupported', `type ${hex(type)} is not supported`, this.#p - 1);
  }

  #onlyMemory(): void {
    if (this.#unsigned() !== 0) this.#refuse('wasm-unsupported', 'a second memory is not supported', this.#p - 1);
  }

  /** The offset of a memory access; alignment is only a hint and is skipped. */
  #memoryArgument(): number {
    const flags = this.#unsigned();
    if (flags >= 0x40) {
      if (flags >= 0x80) this.#refuse('wasm-malformed', 'a memory access has unknown flags', this.#p - 1);
      this.#onlyMemory();
    }
    return this.#unsigned();
  }

  /** Unsigned LEB128; rounded above 2^53, where only its size matters. */
  #unsigned(): number {
    const byte = this.#bytes[this.#p++] ?? 0;
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let scale = 128;
    for (let length = 2; length <= 10; length++) {
      const next = this.#bytes[this.#p++] ?? 0;
      value += (next & 0x7f) * scale;
      if (next < 0x80) return value;
      scale *= 128;
    }
    return this.#refuse('wasm-malformed', 'a number has more than 64 bits', this.#p);
  }

  #signed(): number {
    const start = this.#p;
    const byte = this.#bytes[this.#p++] ?? 0;
    if (byte < 0x80) return (byte & 0x40) !== 0 ? byte - 0x80 : byte;
    for (let length = 2; length <= 10; length++) {
      if ((this.#bytes[this.#p++] ?? 0) < 0x80) return signedLeb(this.#bytes, start, this.#p);
    }
    return this.#refuse('wasm-malformed', 'a number has more than 64 bits', start);
  }

  #tooShort(): never {
    return this.#refuse('wasm-malformed', 'the body ends in the middle of an instruction', this.#end);
  }

  #refuse(code: 'wasm-malformed' | 'wasm-unsupported' | 'wasm-limit', reason: string, at: number): never {
    const where = describeFunction(this.#module, this.#module.importedFunctionCount + this.#body);
    throw refusal(code, `${where}: ${reason} at offset ${hex(at)}`);
  }
}
