/**
 * Functions that touch all pages of a range at once: that of a counting loop (loop-ranges.ts), and that of a bulk
 * operation. Module worker.
 */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import {
  type AddressCode,
  HEAP,
  block,
  br,
  brIf,
  call,
  code,
  controlAccess,
  get,
  i32,
  i64,
  ifThen,
  loop,
  memorySize,
  set,
  tee,
} from '../assembler.ts';
import type { AddedFunctions } from '../added-functions.ts';
import { RANGE_STEP_MAX } from './loop-ranges.ts';

const { i32: I32, i64: I64 } = VALUE_TYPE;
const PAGE_SHIFT = Math.log2(PAGE_BYTES);
const WASM_PAGE_SHIFT = Math.log2(WASM_PAGE_BYTES);

/** Limit on the pages touched before a loop: 4 MiB, half a millisecond. */
const RANGE_PAGES_MAX = 1024;

/** Adds the function `touchSteps` (loop-ranges.ts). Pages beyond the memory are ignored. */
export function addTouchSteps(added: AddedFunctions, address: AddressCode, touch: number): number {
  const at = 0;
  const distance = 1;
  const step = 2;
  const mayWrap = 3;
  const end = distance;
  const size = 4;
  const page = 5;
  return added.add(
    [I64, I64, I64, I32],
    [I32],
    [I64, I32],
    code(
      memorySize(HEAP),
      address.toI64,
      i64(WASM_PAGE_SHIFT),
      OP.I64_SHL,
      tee(size),
      get(at),
      OP.I64_LE_U,
      ifThen(i32(0), OP.RETURN),
      get(at),
      get(distance),
      OP.I64_ADD,
      set(end),
      get(mayWrap),
      isOutOfReach(step),
      OP.I32_OR,
      wraps(step, end, address),
      OP.I32_OR,
      ifThen(i32(1), OP.RETURN),
      get(end),
      get(size),
      OP.I64_GT_S,
      ifThen(get(size), set(end)),
      // With steps of at most a page, every page is reached.
      get(step),
      i64(PAGE_BYTES),
      OP.I64_LE_U,
      ifThen(get(at), i64(-PAGE_BYTES), OP.I64_AND, set(at), i64(PAGE_BYTES), set(step)),
      hasManyPages(at, end, step),
      ifThen(i32(1), OP.RETURN),
      touchEach({ at, end, step, page }, touch),
      i32(0),
    ),
  );
}

const isOutOfReach = (step: number): number[] => code(get(step), i64(1), OP.I64_SUB, i64(RANGE_STEP_MAX), OP.I64_GE_U);

/** In 32 bits, steps as long as the space behind the memory could jump over that space. */
const wraps = (step: number, end: number, address: AddressCode): number[] =>
  address.type === I64
    ? i32(0)
    : code(get(step), i64(WASM_PAGE_BYTES), OP.I64_GE_U, get(end), i64(2 ** 32), OP.I64_GT_S, OP.I32_AND);

const hasManyPages = (at: number, end: number, step: number): number[] =>
  code(get(end), get(at), OP.I64_SUB, get(step), i64(RANGE_PAGES_MAX), OP.I64_MUL, OP.I64_GT_S);

/** Returns code that touches the pages of the addresses `at`, `at + step` … below `end`. */
function touchEach(
  { at, end, step, page }: { readonly at: number; readonly end: number; readonly step: number; readonly page: number },
  touch: number,
): number[] {
  return block(
    loop(
      get(at),
      get(end),
      OP.I64_GE_S,
      brIf(1),
      get(at),
      i64(PAGE_SHIFT),
      OP.I64_SHR_U,
      OP.I32_WRAP_I64,
      tee(page),
      controlAccess(OP.I32_LOAD8_U),
      OP.I32_EQZ,
      ifThen(get(page), call(touch)),
      get(at),
      get(step),
      OP.I64_ADD,
      set(at),
      br(0),
    ),
  );
}

export function addTouchRange(added: AddedFunctions, address: AddressCode, touch: number): number {
  const start = 0;
  const length = 1;
  const size = 2;
  const lastPage = 3;
  const page = start;
  return added.add(
    [I64, I64],
    [],
    [I64, I64],
    code(
      memorySize(HEAP),
      address.toI64,
      i64(WASM_PAGE_SHIFT),
      OP.I64_SHL,
      set(size),
      get(length),
      OP.I64_EQZ,
      get(start),
      get(size),
      OP.I64_GT_U,
      OP.I32_OR,
      ifThen(OP.RETURN),
      get(length),
      get(size),
      get(start),
      OP.I64_SUB,
      OP.I64_GT_U,
      ifThen(OP.RETURN),
      get(start),
      get(length),
      OP.I64_ADD,
      i64(1),
      OP.I64_SUB,
      i64(PAGE_SHIFT),
      OP.I64_SHR_U,
      set(lastPage),
      get(start),
      i64(PAGE_SHIFT),
      OP.I64_SHR_U,
      set(page),
      loop(
        get(page),
        OP.I32_WRAP_I64,
        controlAccess(OP.I32_LOAD8_U),
        OP.I32_EQZ,
        ifThen(get(page), OP.I32_WRAP_I64, call(touch)),
        get(page),
        i64(1),
        OP.I64_ADD,
        tee(page),
        get(lastPage),
        OP.I64_LE_U,
        brIf(0),
      ),
    ),
  );
}
