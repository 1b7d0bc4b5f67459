/**
 * The undo journal of the heap: `touch` is here, the tests before stores are in page-tests.ts, touching of ranges in
 * touch-ranges.ts, undoing in undo.ts. Module worker.
 *
 * Before a store:
 *
 *     local.get $base  i32.const 12  i32.shr_u  local.tee $page
 *     i32.load8_u (memory 1)  local.tee $mark  i32.eqz    ;; the map begins at address 0 of the control memory
 *     if (unlikely)  local.get $page  local.get $mark  i32.add  call $touch  end
 *
 * `$mark` is 0 in the cold branch, so adding it changes nothing. But it is a second use of the loaded value: if there
 * is only one, V8's x64 back end folds the load into the comparison and, since a load may trap, emits it once more
 * separately, two loads for each test (without the second load ten kernels 1.237 → 1.206 of raw, sort 1.41 → 1.18).
 *
 * Tried and left out: keeping the page of a store's last test in a local through innermost loops. It makes fills and
 * sweeps faster (ten kernels 1.33 → 1.25 of raw) but the short loops of big numbers slower (Motoko `busy`, 32-bit 1.68
 * → 1.82, 64-bit 1.83 → 1.97), and those are what actors run.
 *
 * `touch` saves the page and SPILL_BYTES after it, unless the page was all zeros when the message began (FRESH), marks
 * it in the map and appends it to the list. So the list is the set of dirty pages, and `undo` undoes everything, latest
 * first: where two pre-images overlap, the earlier one is right.
 *
 * Saving takes memory, and so does a page that was never written: in both cases `touch` asks the host (`svc.room`)
 * before anything is recorded.
 *
 * A message that touches many pages has used much of the thread's time, whatever it was charged: at TOUCH_LIMIT the
 * host may tell `touch` to yield (`ROOM.PAGE`).
 *
 * A page beyond the end of memory traps in `touch` exactly as the store would, before anything is recorded. Page
 * numbers of 64-bit addresses are cut to 32 bits; a number that becomes that of another page is harmless, because the
 * store itself traps.
 */
import { OP, VALUE_TYPE } from '../../wasm/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import {
  type AddressCode,
  CONTROL_MEMORY,
  HEAP,
  br,
  call,
  code,
  controlAccess,
  f64,
  get,
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
import type { AddedFunctions } from '../added-functions.ts';
import type { FuelGlobals } from '../metering/fuel.ts';
import { CONTROL, ROOM, SLOT_BYTES, STOP } from '../abi/index.ts';
import type { HostFunctions } from './growth.ts';
import { addTouchRange, addTouchSteps } from './touch-ranges.ts';

const { i32: I32, f64: F64 } = VALUE_TYPE;
const PAGE_SHIFT = Math.log2(PAGE_BYTES);
const WASM_PAGE_SHIFT = Math.log2(WASM_PAGE_BYTES);
export interface JournalFunctions {
  /** (page i32) */
  readonly touch: number;
  /** (page i32): touches the page if it exists and is not touched yet. */
  readonly prepare: number;
  /**
   * (first i64, distance i64, step i64, mayWrap i32) -> i32: touches the pages that stores at `first`, `first + step` …
   * below `first + distance` change; or returns 1 if the counter may wrap or the range is too long: each store then has
   * to test for itself.
   */
  readonly touchSteps: number;
  /** (address i64, length i64): touches all pages of a range; the operation itself handles a range out of bounds. */
  readonly touchRange: number;
  /** (address f64, length f64): the same for the host. */
  readonly touchRangeExport: number;
}

export function addJournalFunctions(
  added: AddedFunctions,
  address: AddressCode,
  fuel: FuelGlobals,
  host: HostFunctions,
): JournalFunctions {
  const touch = addTouch(added, address, fuel, host);
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
/** Returns the address of slot number `index` (on the stack) of the pre-images. */
export const slotAddress = code(i32(SLOT_BYTES), OP.I32_MUL, i32(CONTROL.PRE_IMAGES), OP.I32_ADD);

/** Returns code that tells if a page does not exist. */
export const isBeyondMemory = (page: number, address: AddressCode): number[] =>
  code(isInMemory(page, address), OP.I32_EQZ);
const isInMemory = (page: number, address: AddressCode): number[] =>
  code(
    get(page),
    address.fromI32,
    memorySize(HEAP),
    address.constant(WASM_PAGE_SHIFT - PAGE_SHIFT),
    address.shl,
    address.ltU,
  );

function addTouch(added: AddedFunctions, address: AddressCode, fuel: FuelGlobals, host: HostFunctions): number {
  const page = 0;
  const trapLikeTheStore = code(
    address.constant(-1),
    [OP.I32_LOAD8_U, 0, ...unsigned(0xffffffff)],
    OP.DROP,
    OP.UNREACHABLE,
  );
  return added.add(
    [I32],
    [],
    [I32, address.type],
    code(
      isBeyondMemory(page, address),
      ifThen(trapLikeTheStore),
      readI32(CONTROL.TOUCHED),
      readI32(CONTROL.TOUCH_LIMIT),
      OP.I32_GE_U,
      ifThen(
        loop(
          i32(ROOM.PAGE),
          get(page),
          OP.F64_CONVERT_I32_U,
          call(host.room),
          i32(ROOM.LATER),
          OP.I32_EQ,
          ifThen(call(host.yield), br(1)),
        ),
      ),
      get(page),
      readI32(CONTROL.FRESH),
      OP.I32_LT_U,
      ifThen(savePage({ page, slot: 1, length: 2 }, address, fuel, host)),
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

/** Locals of `touch`. */
interface TouchLocals {
  readonly page: number;
  /** Address of the slot that the page is saved in. */
  readonly slot: number;
  readonly length: number;
}

/** Returns code that saves the page and the bytes after it in the next slot of the pre-images. */
function savePage(locals: TouchLocals, address: AddressCode, fuel: FuelGlobals, host: HostFunctions): number[] {
  const { page, slot, length } = locals;
  const pageAddress = code(get(page), address.fromI32, address.constant(PAGE_SHIFT), address.shl);
  return code(
    nextSlot,
    tee(slot),
    i32(SLOT_BYTES),
    OP.I32_ADD,
    memorySize(CONTROL_MEMORY),
    i32(WASM_PAGE_SHIFT),
    OP.I32_SHL,
    OP.I32_GT_U,
    ifThen(growJournal(slot, fuel, host)),
    // length = bytes from the page to the end of memory, or a slot if that is less
    memorySize(HEAP),
    address.constant(WASM_PAGE_SHIFT),
    address.shl,
    pageAddress,
    address.sub,
    tee(length),
    address.constant(SLOT_BYTES),
    address.ltU,
    ifThenElse(zeroSlotBehind(locals, address), code(address.constant(SLOT_BYTES), set(length))),
    get(slot),
    pageAddress,
    get(length),
    address.toI32,
    OP.MEMORY_COPY,
    [CONTROL_MEMORY, HEAP],
    increment(CONTROL.SAVED),
  );
}

const nextSlot = code(readI32(CONTROL.SAVED), slotAddress);

/** Returns code that asks the host for room in the journal, or stops; the host may have moved saved pages elsewhere. */
function growJournal(slot: number, fuel: FuelGlobals, host: HostFunctions): number[] {
  return code(
    loop(
      i32(ROOM.JOURNAL),
      f64(0),
      call(host.room),
      tee(slot),
      i32(ROOM.LATER),
      OP.I32_EQ,
      ifThen(call(host.yield), br(1)),
    ),
    get(slot),
    OP.I32_EQZ,
    ifThen(fuel.stopBecause(STOP.JOURNAL_FULL)),
    nextSlot,
    set(slot),
  );
}

/**
 * Returns code for a memory that ends inside the slot. If it grows, the bytes after the end were zeros, not those of an
 * older message.
 */
function zeroSlotBehind({ slot, length }: TouchLocals, address: AddressCode): number[] {
  return code(
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
  );
}

function addPrepare(added: AddedFunctions, address: AddressCode, touch: number): number {
  const page = 0;
  return added.add(
    [I32],
    [],
    [],
    code(
      isInMemory(page, address),
      ifThen(get(page), controlAccess(OP.I32_LOAD8_U), OP.I32_EQZ, ifThen(get(page), call(touch))),
    ),
  );
}
