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
 * The SPILL_BYTES after a touched page need a separate comparison unless that page is touched and its own comparison
 * finds everything: it was zeros, or it was touched earlier, or later and both pre-images agree. The list is searched
 * for that page, but not far: beyond, and after a real spill, bytes may be in two entries, or in one although they did
 * not change.
 */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { CONTROL, DELTAS_BYTES, SPILL_BYTES } from '../abi/index.ts';
import { ENTRY_HEADER_BYTES, PAGE_BYTES, RUN_HEADER_BYTES } from '../../bytes/index.ts';
import type { AddedFunctions } from '../added-functions.ts';
import {
  type AddressCode,
  advance,
  block,
  br,
  brIf,
  call,
  code,
  controlAccess,
  get,
  i32,
  ifThen,
  ifThenElse,
  loop,
  readI32,
  set,
  tee,
  writeI32,
} from '../assembler.ts';
import { addCompare } from './compare.ts';
import { isBeyondMemory, slotAddress } from './journal.ts';

const { i32: I32 } = VALUE_TYPE;

const VECTOR_BYTES = 16;
const entryBytesMax = (bytes: number): number => ENTRY_HEADER_BYTES + RUN_HEADER_BYTES + bytes;

/** Distance in the list over which a page is searched, from the page before it. */
const REACH = 16;

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
  const entriesOfNextPage = code(
    listed(index),
    set(page),
    advance(index, 1),
    get(page),
    readI32(CONTROL.FRESH),
    OP.I32_LT_U,
    ifThenElse(code(get(slot), slotAddress, set(before), advance(slot, 1)), code(i32(CONTROL.ZEROS), set(before))),
    compareAndCount(PAGE_BYTES),
    advance(page, 1),
    advance(before, PAGE_BYTES),
    // `page` and `before` have moved to the page behind; leaving the block skips it.
    block(
      isBeyondMemory(page, address),
      brIf(0),
      get(page),
      controlAccess(OP.I32_LOAD8_U),
      ifThen(get(page), get(before), get(index), get(slot), call(isCovered), brIf(1)),
      compareAndCount(SPILL_BYTES),
    ),
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
      block(loop(isListAtEnd(index), brIf(1), isFull(out), brIf(1), entriesOfNextPage, br(0))),
      writeI32(CONTROL.DELTA_INDEX, get(index)),
      writeI32(CONTROL.DELTA_SLOT, get(slot)),
      writeI32(CONTROL.DELTA_ENTRIES, get(entries)),
      writeI32(CONTROL.DELTA_BYTES, code(get(out), i32(CONTROL.DELTAS), OP.I32_SUB)),
    ),
  );
}

const isListAtEnd = (index: number): number[] => code(get(index), readI32(CONTROL.TOUCHED), OP.I32_GE_U);

/** Returns code that tells if another page's entries might not fit behind `out`. */
const isFull = (out: number): number[] =>
  code(
    get(out),
    i32(CONTROL.DELTAS + DELTAS_BYTES - entryBytesMax(PAGE_BYTES) - entryBytesMax(SPILL_BYTES)),
    OP.I32_GT_U,
  );

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
