/**
 * Comparing a touched page with its pre-image (delta.ts). `compare` looks at blocks of 128 bytes:
 *
 *     loop  if any bit of the block differs
 *             mask ← a bit for each word that differs
 *             if nowhere two neighbours are unchanged: append the block, else append each word whose bit is set
 *           the next block
 */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { ENTRY_HEADER_BYTES, PAGE_BYTES, RUN_HEADER_BYTES, WORD_BYTES } from '../../bytes/index.ts';
import type { AddedFunctions } from '../added-functions.ts';
import {
  type AddressCode,
  advance,
  brIf,
  type Code,
  code,
  controlAccess,
  get,
  i32,
  ifThen,
  ifThenElse,
  loop,
  set,
  tee,
  unsigned,
} from '../assembler.ts';

const { i32: I32 } = VALUE_TYPE;
const PAGE_SHIFT = Math.log2(PAGE_BYTES);

const VECTOR_BYTES = 16;
/** Length of a compared block. Divides PAGE_BYTES and SPILL_BYTES. */
const BLOCK_BYTES = 128;
const BLOCK_WORDS = BLOCK_BYTES / WORD_BYTES;
/** Offsets of a block's vectors. */
const VECTORS = Array.from({ length: BLOCK_BYTES / VECTOR_BYTES }, (_, k) => k * VECTOR_BYTES);

/** Locals of `compare`; the first four are its parameters. */
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

const heapAccess = (opcode: number, k = 0): number[] => code(opcode, [0], unsigned(k));

/**
 * Adds (page, before, bytes, out) -> out: compares the first `bytes` of a page with those at `before` in the control
 * memory, and writes an entry at `out` if they differ. Returns the place for the next entry.
 */
export function addCompare(added: AddedFunctions, address: AddressCode): number {
  return added.add(
    [I32, I32, I32, I32],
    [I32],
    [I32, I32, I32, I32, I32, I32, I32, address.type, address.type],
    code(begin(address), eachBlock(address), entryHeader),
  );
}

/** Returns code that sets the places where the comparison begins and ends, and where the first run goes. */
function begin(address: AddressCode): Code {
  return code(
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
  );
}

/** Returns the loop over the blocks, which appends those that differ, or their words. */
function eachBlock(address: AddressCode): Code {
  return loop(
    blockDiffers,
    ifThen(
      wordsThatDiffer,
      tee(mask),
      // Are two neighbours unchanged?
      i32(2 ** BLOCK_WORDS - 1),
      OP.I32_XOR,
      tee(offset),
      get(offset),
      i32(1),
      OP.I32_SHR_U,
      OP.I32_AND,
      ifThenElse(appendWords(address), appendBlock(address)),
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
  );
}

/** Completes the entry, if there are runs, and leaves the place for the next one. */
const entryHeader = code(
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
);

/** Loads a vector of the block, and the one that was there before. */
const bothVectors = (k: number): number[] =>
  code(get(at), heapAccess(OP.V128_LOAD, k), get(before), controlAccess(OP.V128_LOAD, k));

const blockDiffers = code(
  ...VECTORS.map((k) => code(bothVectors(k), OP.V128_XOR, k === 0 ? [] : code(OP.V128_OR))),
  OP.V128_ANY_TRUE,
);

/** Computes a bit for each word of the block. */
const wordsThatDiffer = code(
  ...VECTORS.map((k) => {
    const bits = code(bothVectors(k), OP.I64X2_NE, OP.I64X2_BITMASK);
    return k === 0 ? bits : code(bits, i32(k / WORD_BYTES), OP.I32_SHL, OP.I32_OR);
  }),
);

const blockOffset = code(get(before), get(first), OP.I32_SUB);

function appendBlock(address: AddressCode): Code {
  return code(
    get(at),
    set(from),
    blockOffset,
    set(offset),
    append(address, BLOCK_BYTES, copy([OP.V128_LOAD, OP.V128_STORE], VECTORS)),
  );
}

/** Returns code that appends each word of the block whose bit is set in `mask`. */
function appendWords(address: AddressCode): Code {
  return loop(
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
    append(address, WORD_BYTES, copy([OP.I64_LOAD, OP.I64_STORE], [0])),
    get(mask),
    get(mask),
    i32(1),
    OP.I32_SUB,
    OP.I32_AND,
    tee(mask),
    brIf(0),
  );
}

/**
 * Returns code that adds the bytes at heap address `from`, `offset` in the page, to the current run, or to a new one.
 */
function append(address: AddressCode, bytes: number, copied: Code): Code {
  return code(
    get(offset),
    get(runEnd),
    OP.I32_SUB,
    i32(WORD_BYTES),
    OP.I32_GT_S,
    ifThenElse(beginRun, bridgeGap(address)),
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
}

const beginRun = code(
  get(cursor),
  tee(run),
  get(offset),
  controlAccess(OP.I32_STORE16),
  advance(cursor, RUN_HEADER_BYTES),
  advance(runs, 1),
);

/** Includes the unchanged word between the runs, if there is one; otherwise later bytes overwrite it. */
function bridgeGap(address: AddressCode): Code {
  return code(
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
  );
}

/** Returns code that copies from `from` to `cursor`, at each of the offsets. */
function copy([load, store]: readonly [number, number], offsets: readonly number[]): Code {
  return code(...offsets.map((k) => code(get(cursor), get(from), heapAccess(load, k), controlAccess(store, k))));
}
