/**
 * Changes of the running message in the heap, as bytes: `delta` compares the touched pages with their pre-images.
 *
 *     entry:  u32 page number · u16 runs · runs × (u16 offset · u16 length · the present bytes)
 *
 * All numbers are little-endian and unaligned. Runs consist of changed 8-byte words; two runs with a single unchanged
 * word between them are joined. So an entry has at most 10 bytes more than were compared: a further run costs 4 bytes
 * and saves at least 16. A page that did not change has no entry. A page that stores reached only across the end of the
 * page before it may have two entries; both are valid: every entry holds the present bytes, so their order does not
 * matter.
 *
 * Entries go to DELTAS, up to 64 KiB for each call, so the journal is not disturbed and no memory grows. DELTA_INDEX
 * and DELTA_SLOT say where to continue:
 *
 *     DELTA_INDEX ← 0, DELTA_SLOT ← 0
 *     do call $delta, take DELTA_ENTRIES entries of DELTA_BYTES bytes while DELTA_INDEX < TOUCHED
 *
 * `compare` looks at blocks of 128 bytes:
 *
 *     loop  if any bit of the block differs
 *             mask ← a bit for each word that differs
 *             if nowhere two neighbours are unchanged: append the block, else append each word whose bit is set
 *           the next block
 *
 * The SPILL_BYTES after a touched page need a separate comparison unless that page is touched and its own comparison
 * finds everything: it was zeros, or it was touched earlier, or later and both pre-images agree. The list is searched
 * for that page, but not far: beyond, and after a real spill, bytes may be in two entries, or in one although they did
 * not change.
 */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { CONTROL, DELTAS_BYTES, SPILL_BYTES } from '../abi/index.ts';
import { ENTRY_HEADER_BYTES, PAGE_BYTES, RUN_HEADER_BYTES, WORD_BYTES } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import type { AddedFunctions } from '../added-functions.ts';
import {
  type AddressCode,
  block,
  br,
  brIf,
  call,
  type Code,
  code,
  controlAccess,
  get,
  HEAP,
  i32,
  ifThen,
  ifThenElse,
  loop,
  memorySize,
  readI32,
  set,
  tee,
  unsigned,
  writeI32,
} from '../assembler.ts';
import { slotAddress } from './journal.ts';

const { i32: I32 } = VALUE_TYPE;
const PAGE_SHIFT = Math.log2(PAGE_BYTES);
const WASM_PAGE_SHIFT = Math.log2(WASM_PAGE_BYTES);

const VECTOR_BYTES = 16;
/** Length of a compared block. Divides PAGE_BYTES and SPILL_BYTES. */
const BLOCK_BYTES = 128;
const BLOCK_WORDS = BLOCK_BYTES / WORD_BYTES;
const entryBytesMax = (bytes: number): number => ENTRY_HEADER_BYTES + RUN_HEADER_BYTES + bytes;

const heapAccess = (opcode: number, offset = 0): number[] => code(opcode, [0], unsigned(offset));
const advance = (local: number, bytes: number): number[] => code(get(local), i32(bytes), OP.I32_ADD, set(local));
/** Distance in the list over which a page is searched, from the page before it. */
const REACH = 16;
/** Offsets of a block's vectors. */
const VECTORS = Array.from({ length: BLOCK_BYTES / VECTOR_BYTES }, (_, k) => k * VECTOR_BYTES);

/** Returns code for the page at place `index` of the list. */
const listed = (index: number): number[] =>
  code(get(index), i32(2), OP.I32_SHL, controlAccess(OP.I32_LOAD, CONTROL.LIST));

/**
 * Adds `delta` (): writes entries of touched pages to DELTAS, from DELTA_INDEX on, until the list ends or another entry
 * might not fit.
 */
export function addDelta(added: AddedFunctions, address: AddressCode): number {
  const compare = addCompare(added, address);
  const isCovered = addIsCovered(added);
  const index = 0;
  const slot = 1;
  const out = 2;
  const entries = 3;
  const page = 4;
  const before = 5;
  const end = 6;
  const compareAndCount = (bytes: number): number[] =>
    code(
      get(page),
      get(before),
      i32(bytes),
      get(out),
      call(compare),
      tee(end),
      get(out),
      OP.I32_NE,
      get(entries),
      OP.I32_ADD,
      set(entries),
      get(end),
      set(out),
    );
  // `page` and `before` have moved to the next page; leaving the block skips it.
  const pageBehind = block(
    // Does the page exist?
    get(page),
    address.fromI32,
    memorySize(HEAP),
    address.constant(WASM_PAGE_SHIFT - PAGE_SHIFT),
    address.shl,
    address.ltU,
    OP.I32_EQZ,
    brIf(0),
    get(page),
    controlAccess(OP.I32_LOAD8_U),
    ifThen(get(page), get(before), get(index), get(slot), call(isCovered), brIf(1)),
    compareAndCount(SPILL_BYTES),
  );
  return added.add(
    [],
    [],
    [I32, I32, I32, I32, I32, I32, I32],
    code(
      readI32(CONTROL.DELTA_INDEX),
      set(index),
      readI32(CONTROL.DELTA_SLOT),
      set(slot),
      i32(CONTROL.DELTAS),
      set(out),
      block(
        loop(
          get(index),
          readI32(CONTROL.TOUCHED),
          OP.I32_GE_U,
          brIf(1),
          get(out),
          i32(CONTROL.DELTAS + DELTAS_BYTES - entryBytesMax(PAGE_BYTES) - entryBytesMax(SPILL_BYTES)),
          OP.I32_GT_U,
          brIf(1),
          listed(index),
          set(page),
          advance(index, 1),
          get(page),
          readI32(CONTROL.FRESH),
          OP.I32_LT_U,
          ifThenElse(
            code(get(slot), slotAddress, set(before), advance(slot, 1)),
            code(i32(CONTROL.ZEROS), set(before)),
          ),
          compareAndCount(PAGE_BYTES),
          advance(page, 1),
          advance(before, PAGE_BYTES),
          pageBehind,
          br(0),
        ),
      ),
      writeI32(CONTROL.DELTA_INDEX, get(index)),
      writeI32(CONTROL.DELTA_SLOT, get(slot)),
      writeI32(CONTROL.DELTA_ENTRIES, get(entries)),
      writeI32(CONTROL.DELTA_BYTES, code(get(out), i32(CONTROL.DELTAS), OP.I32_SUB)),
    ),
  );
}

/**
 * Adds (page, before, bytes, out) -> out: compares the first `bytes` of a page with those at `before` in the control
 * memory, and writes an entry at `out` if they differ. Returns the place for the next entry.
 */
function addCompare(added: AddedFunctions, address: AddressCode): number {
  const page = 0;
  const before = 1;
  const end = 2;
  const out = 3;
  const first = 4;
  const cursor = 5;
  const runs = 6;
  /** Place of the current run. */
  const run = 7;
  /** Offset in the page where the current run ends. */
  const runEnd = 8;
  const mask = 9;
  const offset = 10;
  const at = 11;
  const from = 12;

  const copy = (opcodes: readonly [number, number], offsets: readonly number[]): number[] =>
    code(...offsets.map((k) => code(get(cursor), get(from), heapAccess(opcodes[0], k), controlAccess(opcodes[1], k))));
  /**
   * Returns code that adds the bytes at heap address `from`, `offset` in the page, to the current run, or to a new one.
   */
  const append = (bytes: number, copied: Code): number[] =>
    code(
      get(offset),
      get(runEnd),
      OP.I32_SUB,
      i32(WORD_BYTES),
      OP.I32_GT_S,
      ifThenElse(
        code(
          get(cursor),
          tee(run),
          get(offset),
          controlAccess(OP.I32_STORE16),
          advance(cursor, RUN_HEADER_BYTES),
          advance(runs, 1),
        ),
        // Includes the unchanged word between the runs, if there is one; otherwise later bytes overwrite it.
        code(
          get(cursor),
          get(from),
          address.constant(WORD_BYTES),
          address.sub,
          heapAccess(OP.I64_LOAD),
          controlAccess(OP.I64_STORE),
          get(cursor),
          get(offset),
          OP.I32_ADD,
          get(runEnd),
          OP.I32_SUB,
          set(cursor),
        ),
      ),
      copied,
      advance(cursor, bytes),
      get(offset),
      i32(bytes),
      OP.I32_ADD,
      set(runEnd),
      get(run),
      get(cursor),
      get(run),
      OP.I32_SUB,
      i32(RUN_HEADER_BYTES),
      OP.I32_SUB,
      controlAccess(OP.I32_STORE16, 2),
    );
  const both = (k: number): number[] =>
    code(get(at), heapAccess(OP.V128_LOAD, k), get(before), controlAccess(OP.V128_LOAD, k));
  const differs = code(
    ...VECTORS.map((k) => code(both(k), OP.V128_XOR, k === 0 ? [] : code(OP.V128_OR))),
    OP.V128_ANY_TRUE,
  );
  const wordsThatDiffer = code(
    ...VECTORS.map((k) => {
      const bits = code(both(k), OP.I64X2_NE, OP.I64X2_BITMASK);
      return k === 0 ? bits : code(bits, i32(k / WORD_BYTES), OP.I32_SHL, OP.I32_OR);
    }),
  );
  const blockOffset = code(get(before), get(first), OP.I32_SUB);
  const appendBlock = code(
    get(at),
    set(from),
    blockOffset,
    set(offset),
    append(BLOCK_BYTES, copy([OP.V128_LOAD, OP.V128_STORE], VECTORS)),
  );
  const appendWords = loop(
    get(mask),
    OP.I32_CTZ,
    i32(Math.log2(WORD_BYTES)),
    OP.I32_SHL,
    tee(offset),
    address.fromI32,
    get(at),
    address.add,
    set(from),
    get(offset),
    blockOffset,
    OP.I32_ADD,
    set(offset),
    append(WORD_BYTES, copy([OP.I64_LOAD, OP.I64_STORE], [0])),
    get(mask),
    get(mask),
    i32(1),
    OP.I32_SUB,
    OP.I32_AND,
    tee(mask),
    brIf(0),
  );
  return added.add(
    [I32, I32, I32, I32],
    [I32],
    [I32, I32, I32, I32, I32, I32, I32, address.type, address.type],
    code(
      get(page),
      address.fromI32,
      address.constant(PAGE_SHIFT),
      address.shl,
      set(at),
      get(before),
      tee(first),
      get(end),
      OP.I32_ADD,
      set(end),
      get(out),
      i32(ENTRY_HEADER_BYTES),
      OP.I32_ADD,
      set(cursor),
      // More than a word away from any offset.
      i32(-BLOCK_BYTES),
      set(runEnd),
      loop(
        differs,
        ifThen(
          wordsThatDiffer,
          tee(mask),
          i32(2 ** BLOCK_WORDS - 1),
          OP.I32_XOR,
          tee(offset),
          get(offset),
          i32(1),
          OP.I32_SHR_U,
          OP.I32_AND,
          ifThenElse(appendWords, appendBlock),
        ),
        get(at),
        address.constant(BLOCK_BYTES),
        address.add,
        set(at),
        get(before),
        i32(BLOCK_BYTES),
        OP.I32_ADD,
        tee(before),
        get(end),
        OP.I32_LT_U,
        brIf(0),
      ),
      get(runs),
      OP.I32_EQZ,
      ifThen(get(out), OP.RETURN),
      get(out),
      get(page),
      controlAccess(OP.I32_STORE),
      get(out),
      get(runs),
      controlAccess(OP.I32_STORE16, 4),
      get(cursor),
    ),
  );
}

/**
 * Adds (page, before, index, slot) -> i32: 1 if the comparison of a touched page finds every change that `before`
 * shows. `before` holds the bytes of this page that the page before it saved. `index` and `slot` are the places after
 * that page in the list and among the pre-images.
 */
function addIsCovered(added: AddedFunctions): number {
  const isSame = addIsSame(added);
  const page = 0;
  const before = 1;
  const index = 2;
  const slot = 3;
  const first = 4;
  const end = 5;
  const other = 6;
  return added.add(
    [I32, I32, I32, I32],
    [I32],
    [I32, I32, I32],
    code(
      get(page),
      readI32(CONTROL.FRESH),
      OP.I32_GE_U,
      ifThen(i32(1), OP.RETURN),
      // first … index: REACH places before; index … end: as many after
      get(index),
      i32(REACH),
      OP.I32_GT_U,
      ifThen(get(index), i32(REACH), OP.I32_SUB, set(first)),
      readI32(CONTROL.TOUCHED),
      tee(end),
      get(index),
      i32(REACH),
      OP.I32_ADD,
      OP.I32_GT_U,
      ifThen(get(index), i32(REACH), OP.I32_ADD, set(end)),
      loop(
        listed(first),
        get(page),
        OP.I32_EQ,
        ifThen(i32(1), OP.RETURN),
        advance(first, 1),
        get(first),
        get(index),
        OP.I32_LT_U,
        brIf(0),
      ),
      block(
        loop(
          get(index),
          get(end),
          OP.I32_GE_U,
          brIf(1),
          listed(index),
          tee(other),
          get(page),
          OP.I32_EQ,
          ifThen(get(before), get(slot), slotAddress, call(isSame), OP.RETURN),
          get(slot),
          get(other),
          readI32(CONTROL.FRESH),
          OP.I32_LT_U,
          OP.I32_ADD,
          set(slot),
          advance(index, 1),
          br(0),
        ),
      ),
      i32(0),
    ),
  );
}

/** Adds (one, other) -> i32: 1 if SPILL_BYTES at two places of the control memory are the same. */
function addIsSame(added: AddedFunctions): number {
  const one = 0;
  const other = 1;
  const end = 2;
  return added.add(
    [I32, I32],
    [I32],
    [I32],
    code(
      get(one),
      i32(SPILL_BYTES),
      OP.I32_ADD,
      set(end),
      loop(
        get(one),
        controlAccess(OP.V128_LOAD),
        get(other),
        controlAccess(OP.V128_LOAD),
        OP.V128_XOR,
        OP.V128_ANY_TRUE,
        ifThen(i32(0), OP.RETURN),
        advance(other, VECTOR_BYTES),
        get(one),
        i32(VECTOR_BYTES),
        OP.I32_ADD,
        tee(one),
        get(end),
        OP.I32_LT_U,
        brIf(0),
      ),
      i32(1),
    ),
  );
}
