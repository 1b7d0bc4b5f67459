/**
 * The undo journal of the heap.
 *
 * In front of a store:
 *
 *     local.get $base  i32.const 12  i32.shr_u  local.tee $page
 *     i32.load8_u (memory 1)  local.tee $mark  i32.eqz    ;; the map begins at address 0 of the control memory
 *     if (unlikely)  local.get $page  local.get $mark  i32.add  call $touch  end
 *
 * `$mark` is 0 in the cold branch, adding it changes nothing. But it is a second use of the loaded value: with one use
 * only, V8's x64 back end folds the load into the comparison and, since a load may trap, emits it once more apart, two
 * loads for each test (ten kernels 1.237 → 1.206 of raw without, sort 1.41 → 1.18).
 *
 * Tried and left out: keeping the page of a store's last test in a local through innermost loops. It makes fills and
 * sweeps faster (ten kernels 1.33 → 1.25 of raw) and the short loops of big numbers slower (Motoko `busy`, 32-bit 1.68 →
 * 1.82, 64-bit 1.83 → 1.97), which are what actors run.
 *
 * `touch` saves the page and SPILL_BYTES behind it, unless the page was all zeros when the message began (FRESH), marks it
 * in the map and appends it to the list. So afterwards the list is the set of dirty pages, and `undo` takes everything
 * back, latest first: where two pre-images overlap, the earlier one is right.
 *
 * Saving takes memory, and so does a page that was never written: for either `touch` asks the host in time (`svc.room`), and
 * before anything is recorded.
 *
 * A page beyond the end of memory traps in `touch` exactly as the store would, before anything is recorded. Page numbers
 * of 64-bit addresses are cut to 32 bits; one that comes out as another page is harmless, because the store itself traps.
 */
import { type ByteWriter, OP, VALUE_TYPE } from '../../wasm/index.ts';
import { CONTROL, ROOM, SLOT_BYTES, STOP } from '../abi/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import type { AddedFunctions } from '../added-functions.ts';
import type { FuelGlobals } from '../metering/fuel.ts';
import { RANGE_STEP_MAX } from './loop-ranges.ts';
import {
  type AddressCode,
  block,
  br,
  brIf,
  call,
  code,
  CONTROL_MEMORY,
  controlAccess,
  get,
  HEAP,
  i32,
  i64,
  f64,
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

const { i32: I32, i64: I64, f64: F64 } = VALUE_TYPE;
const PAGE_SHIFT = Math.log2(PAGE_BYTES);
const WASM_PAGE_SHIFT = Math.log2(WASM_PAGE_BYTES);
export interface JournalFunctions {
  /** (page i32) */
  readonly touch: number;
  /** (page i32): touches the page if it exists and is not touched yet. */
  readonly prepare: number;
  /**
   * (first i64, distance i64, step i64, mayWrap i32) -> i32: touches what stores at `first`, `first + step` … below
   * `first + distance` change; or 1 if the counter may wrap or the range is too long, and the stores have to test for themselves.
   */
  readonly touchSteps: number;
  /** (address i64, length i64): touches all pages of a range; a range out of bounds is left to the operation itself. */
  readonly touchRange: number;
  /** (address f64, length f64): the same for the host. */
  readonly touchRangeExport: number;
}

export function addJournalFunctions(
  added: AddedFunctions,
  address: AddressCode,
  fuel: FuelGlobals,
  roomIndex: number,
): JournalFunctions {
  const touch = addTouch(added, address, fuel, roomIndex);
  const prepare = addPrepare(added, address, touch);
  const touchRange = addTouchRange(added, address, touch);
  const touchRangeExport = added.add(
    [F64, F64],
    [],
    [],
    code(get(0), OP.I64_TRUNC_SAT_F64_U, get(1), OP.I64_TRUNC_SAT_F64_U, call(touchRange)),
  );
  return { touch, prepare, touchSteps: addTouchSteps(added, address, touch), touchRange, touchRangeExport };
}

const increment = (field: number): number[] => writeI32(field, code(readI32(field), i32(1), OP.I32_ADD));
/** Address of slot number `index` (on the stack) of the pre-images. */
export const slotAddress = code(i32(SLOT_BYTES), OP.I32_MUL, i32(CONTROL.PRE_IMAGES), OP.I32_ADD);

function addTouch(added: AddedFunctions, address: AddressCode, fuel: FuelGlobals, roomIndex: number): number {
  const page = 0;
  const slot = 1;
  const length = 2;
  const trapLikeTheStore = code(
    address.constant(-1),
    [OP.I32_LOAD8_U, 0, ...unsigned(0xffffffff)],
    OP.DROP,
    OP.UNREACHABLE,
  );
  const pageAddress = code(get(page), address.fromI32, address.constant(PAGE_SHIFT), address.shl);
  const nextSlot = code(readI32(CONTROL.SAVED), slotAddress);
  const growJournal = code(
    i32(ROOM.JOURNAL),
    f64(0),
    call(roomIndex),
    OP.I32_EQZ,
    ifThen(fuel.stopBecause(STOP.JOURNAL_FULL)),
    // The host may have taken what is saved somewhere else.
    nextSlot,
    set(slot),
  );
  const savePage = code(
    nextSlot,
    tee(slot),
    i32(SLOT_BYTES),
    OP.I32_ADD,
    memorySize(CONTROL_MEMORY),
    i32(WASM_PAGE_SHIFT),
    OP.I32_SHL,
    OP.I32_GT_U,
    ifThen(growJournal),
    // length = bytes from the page to the end of memory, or a slot if that is less
    memorySize(HEAP),
    address.constant(WASM_PAGE_SHIFT),
    address.shl,
    pageAddress,
    address.sub,
    tee(length),
    address.constant(SLOT_BYTES),
    address.ltU,
    ifThenElse(
      // The memory ends inside of the slot. If it grows, what follows was zeros: not the bytes of an older message.
      code(
        get(slot),
        get(length),
        address.toI32,
        OP.I32_ADD,
        i32(0),
        i32(SLOT_BYTES),
        get(length),
        address.toI32,
        OP.I32_SUB,
        OP.MEMORY_FILL,
        [CONTROL_MEMORY],
      ),
      code(address.constant(SLOT_BYTES), set(length)),
    ),
    get(slot),
    pageAddress,
    get(length),
    address.toI32,
    OP.MEMORY_COPY,
    [CONTROL_MEMORY, HEAP],
    increment(CONTROL.SAVED),
  );
  return added.add(
    [I32],
    [],
    [I32, address.type],
    code(
      get(page),
      address.fromI32,
      memorySize(HEAP),
      address.constant(WASM_PAGE_SHIFT - PAGE_SHIFT),
      address.shl,
      address.ltU,
      OP.I32_EQZ,
      ifThen(trapLikeTheStore),
      readI32(CONTROL.TOUCHED),
      readI32(CONTROL.TOUCH_LIMIT),
      OP.I32_GE_U,
      ifThen(i32(ROOM.PAGE), get(page), OP.F64_CONVERT_I32_U, call(roomIndex), OP.DROP),
      get(page),
      readI32(CONTROL.FRESH),
      OP.I32_LT_U,
      ifThen(savePage),
      get(page),
      i32(1),
      controlAccess(OP.I32_STORE8),
      readI32(CONTROL.TOUCHED),
      i32(2),
      OP.I32_SHL,
      get(page),
      controlAccess(OP.I32_STORE, CONTROL.LIST),
      increment(CONTROL.TOUCHED),
    ),
  );
}

function addPrepare(added: AddedFunctions, address: AddressCode, touch: number): number {
  const page = 0;
  return added.add(
    [I32],
    [],
    [],
    code(
      get(page),
      address.fromI32,
      memorySize(HEAP),
      address.constant(WASM_PAGE_SHIFT - PAGE_SHIFT),
      address.shl,
      address.ltU,
      ifThen(get(page), controlAccess(OP.I32_LOAD8_U), OP.I32_EQZ, ifThen(get(page), call(touch))),
    ),
  );
}

/** So many pages are touched in front of a loop at most: 4 MiB, half a millisecond. */
const RANGE_PAGES_MAX = 1024;

/** See loop-ranges.ts. Pages beyond the memory are left alone. */
function addTouchSteps(added: AddedFunctions, address: AddressCode, touch: number): number {
  const at = 0;
  const distance = 1;
  const step = 2;
  const mayWrap = 3;
  const end = distance;
  const size = 4;
  const page = 5;
  const isOutOfReach = code(get(step), i64(1), OP.I64_SUB, i64(RANGE_STEP_MAX), OP.I64_GE_U);
  // In 32 bits steps as long as the space behind the memory could pass over it.
  const wraps =
    address.type === I64
      ? i32(0)
      : code(get(step), i64(WASM_PAGE_BYTES), OP.I64_GE_U, get(end), i64(2 ** 32), OP.I64_GT_S, OP.I32_AND);
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
      isOutOfReach,
      OP.I32_OR,
      wraps,
      OP.I32_OR,
      ifThen(i32(1), OP.RETURN),
      get(end),
      get(size),
      OP.I64_GT_S,
      ifThen(get(size), set(end)),
      // Up to a page at a time, each page is reached.
      get(step),
      i64(PAGE_BYTES),
      OP.I64_LE_U,
      ifThen(get(at), i64(-PAGE_BYTES), OP.I64_AND, set(at), i64(PAGE_BYTES), set(step)),
      get(end),
      get(at),
      OP.I64_SUB,
      get(step),
      i64(RANGE_PAGES_MAX),
      OP.I64_MUL,
      OP.I64_GT_S,
      ifThen(i32(1), OP.RETURN),
      block(
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
      ),
      i32(0),
    ),
  );
}

function addTouchRange(added: AddedFunctions, address: AddressCode, touch: number): number {
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

/** Takes back the heap and, if the message saved them, the mutable globals; afterwards no page is touched. */
export function addUndo(added: AddedFunctions, address: AddressCode, loadGlobals: number): number {
  const count = 0;
  const saved = 1;
  const page = 2;
  const start = 3;
  const length = 4;
  const undoPage = code(
    get(count),
    i32(1),
    OP.I32_SUB,
    tee(count),
    i32(2),
    OP.I32_SHL,
    controlAccess(OP.I32_LOAD, CONTROL.LIST),
    tee(page),
    i32(0),
    controlAccess(OP.I32_STORE8),
    get(page),
    address.fromI32,
    address.constant(PAGE_SHIFT),
    address.shl,
    set(start),
    memorySize(HEAP),
    address.constant(WASM_PAGE_SHIFT),
    address.shl,
    get(start),
    address.sub,
    tee(length),
    address.constant(SLOT_BYTES),
    address.ltU,
    OP.I32_EQZ,
    ifThen(address.constant(SLOT_BYTES), set(length)),
    get(page),
    readI32(CONTROL.FRESH),
    OP.I32_LT_U,
    ifThenElse(
      code(
        get(saved),
        i32(1),
        OP.I32_SUB,
        set(saved),
        get(start),
        get(saved),
        slotAddress,
        get(length),
        address.toI32,
        OP.MEMORY_COPY,
        [HEAP, CONTROL_MEMORY],
      ),
      code(get(start), i32(0), get(length), OP.MEMORY_FILL, [HEAP]),
    ),
  );
  return added.add(
    [],
    [],
    [I32, I32, I32, address.type, address.type],
    code(
      readI32(CONTROL.TOUCHED),
      set(count),
      readI32(CONTROL.SAVED),
      set(saved),
      get(count),
      ifThen(loop(undoPage, get(count), brIf(0))),
      writeI32(CONTROL.TOUCHED, i32(0)),
      writeI32(CONTROL.SAVED, i32(0)),
      readI32(CONTROL.GLOBALS_SAVED),
      ifThen(i32(CONTROL.GLOBALS), call(loadGlobals), writeI32(CONTROL.GLOBALS_SAVED, i32(0))),
    ),
  );
}

/** Adds `offset` to the address on the stack. */
export function emitSum(out: ByteWriter, is64: boolean, offset: number): void {
  if (offset === 0) return;
  out.byte(is64 ? OP.I64_CONST : OP.I32_CONST);
  out.signed(is64 ? offset : offset | 0);
  out.byte(is64 ? OP.I64_ADD : OP.I32_ADD);
}

/** Turns the address on the stack, plus `offset`, into a page number. */
export function emitPageOf(out: ByteWriter, is64: boolean, offset: number): void {
  emitSum(out, is64, offset);
  out.byte(is64 ? OP.I64_CONST : OP.I32_CONST);
  out.byte(PAGE_SHIFT);
  if (is64) {
    out.byte(OP.I64_SHR_U);
    out.byte(OP.I32_WRAP_I64);
  } else {
    out.byte(OP.I32_SHR_U);
  }
}

/**
 * The condition of a test in front of a loop, where the page need not exist: in a 64-bit module its number is cut to what
 * the control memory certainly has. The page number stays in local `page`.
 */
export function emitIsUntouchedOrBeyond(out: ByteWriter, is64: boolean, page: number, mark: number): void {
  if (!is64) return emitIsUntouched(out, page, mark);
  out.put(code(tee(page), i32(2 ** 21 - 1), OP.I32_AND, controlAccess(OP.I32_LOAD8_U), tee(mark), OP.I32_EQZ));
}

/**
 * Whether the address on the stack, plus `offset`, came to another page when it moved by a step: the constant, or what
 * local `place` holds if that is not −1.
 */
export function emitIsOnNewPage(out: ByteWriter, is64: boolean, offset: number, constant: number, place: number): void {
  const add = (value: number, opcode: number): void => {
    out.byte(is64 ? OP.I64_CONST : OP.I32_CONST);
    out.signed(is64 ? value : value | 0);
    out.byte(opcode);
  };
  if (offset !== 0) add(offset, is64 ? OP.I64_ADD : OP.I32_ADD);
  add(PAGE_BYTES - 1, is64 ? OP.I64_AND : OP.I32_AND);
  const isLess = is64 ? OP.I64_LT_U : OP.I32_LT_U;
  if (place !== -1) {
    out.byte(OP.LOCAL_GET);
    out.unsigned(place);
    out.byte(isLess);
  } else if (constant > 0) add(constant, isLess);
  else add(PAGE_BYTES - 1 + constant, is64 ? OP.I64_GT_U : OP.I32_GT_U);
}

/**
 * The condition of a page test for the page number on the stack, which goes to local `page`; an unlikely `if` follows.
 * The mark goes to a local that the cold branch reads: see the top of the file.
 */
export function emitIsUntouched(out: ByteWriter, page: number, mark: number): void {
  out.byte(OP.LOCAL_TEE);
  out.unsigned(page);
  out.byte(OP.I32_LOAD8_U);
  out.byte(0x40);
  out.byte(CONTROL_MEMORY);
  out.byte(0);
  out.byte(OP.LOCAL_TEE);
  out.unsigned(mark);
  out.byte(OP.I32_EQZ);
}
