/**
 * The contract between an instrumented module and its host. It has its own face, because code that only runs
 * instrumented modules should not load the instrumenter, which takes 25 ms of CPU time in each thread.
 *
 * An instrumented module imports everything that outlives a message and exports only entry points added by us:
 *
 *   import svc.memory    memory 0: the canister's heap (0 pages if the module declares none)
 *   import svc.control   memory 1: the control memory, one for all instances on an engine (layout below)
 *   import svc.yield     called when a slice of fuel is used up: the host may end or suspend the message there
 *   import svc.room      (what i32, amount f64) -> i32: asks for memory, see ROOM
 *   import ic0.*         the system API; `wasm/ic0-signatures.ts` says how values cross
 *
 *   export invoke         (entry i32)               runs entry point `layout.entries[entry]`
 *   export callback       (fun f64, env i32 | i64)  runs function `fun` of table 0; env i64 in 64-bit modules
 *   export undo           (pages i32)               undoes this many last touched pages; when none is left, the globals
 *   export touch_range    (address f64, length f64) the host is about to write these bytes of the heap
 *   export save_globals   (place i32)               copies mutable globals to the control memory, from `place` on
 *   export load_globals   (place i32)               sets mutable globals from there
 *   export settle         ()                        after a fault: makes STOP and FUEL in the control memory correct
 *   export delta          ()                        writes changes of the message to DELTAS, as much as fits (delta.ts)
 *   export get_candid_pointer () -> f64             if the module has it; same preparations as `invoke`
 *
 * No global and no memory is exported: each would be a JavaScript object per instance, and each access to an i64 global
 * a BigInt.
 *
 * The control memory is 32-bit and belongs to the message that runs; between messages its byte map is all zeros.
 *
 *   0             map: a byte for each 4 KiB page of the heap, 1 if the running message has touched it
 *   HEADER        numbers that both sides read and write (FUEL … DELTA_BYTES)
 *   GLOBALS       the mutable globals as they were when the message began, each at its `layout.globals[i].at`
 *   GLOBALS_COPY  the same for the host's own use, between messages and during one
 *   LIST          page numbers in the order they were touched
 *   ZEROS         a slot's worth of zeros, the pre-image of a page that was zeros; never written
 *   DELTAS        the changed bytes of some touched pages, until the next call of `delta`
 *   PRE_IMAGES    a slot for each touched page below FRESH: its bytes and the first SPILL_BYTES of the next page
 *
 * The map comes first so that the test before a store needs no offset: this test is the most frequent injected code.
 */

import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { SegmentTraps } from '../../wasm/index.ts';

export { messageStackBytes, threadStackMb } from './stack-bytes.ts';

/** Increased whenever the output for the same input changes; part of every cache key. */
export const INSTRUMENTER_VERSION = 121;

/**
 * Bytes saved beyond the end of a touched page, so that one test covers stores up to this distance after the tested
 * address.
 */
export const SPILL_BYTES = 256;
export const SLOT_BYTES = PAGE_BYTES + SPILL_BYTES;

/**
 * Largest heaps in pages of 64 KiB. For 32 bits 65,535 and not 65,536: an address computed as base + constant must not
 * wrap from the last page of a full 4 GiB to the first. For 64 bits the IC's limit of 6 GiB.
 */
export const HEAP_PAGES_MAX = { 32: 65535, 64: 98304 } as const;

const HEAP_BYTES_MAX = HEAP_PAGES_MAX[64] * WASM_PAGE_BYTES;
/** Length of the byte map. */
export const MAP_BYTES = HEAP_BYTES_MAX / PAGE_BYTES;

/**
 * Length of DELTAS in the control memory: more than two entries of the largest size, and small enough to stay in the
 * caches.
 */
export const DELTAS_BYTES = 65536;
const ZEROS = MAP_BYTES + 65536 + MAP_BYTES * 4;
const DELTAS = ZEROS + Math.ceil(SLOT_BYTES / PAGE_BYTES) * PAGE_BYTES;

/** Byte offsets in the control memory. */
export const CONTROL = {
  /** f64: instructions left; exact while a system call runs and after a normal return; may be negative. */
  FUEL: MAP_BYTES,
  /** i32: bytes of stack that a message may use. */
  STACK_BYTES: MAP_BYTES + 8,
  /** i32: reason why the code stopped itself, one of STOP; valid after `settle`. */
  STOP: MAP_BYTES + 12,
  /** i32: number of touched pages, the length of the list. */
  TOUCHED: MAP_BYTES + 16,
  /** i32: number of touched pages that have a pre-image. */
  SAVED: MAP_BYTES + 20,
  /** i32: first 4 KiB page of the part of the heap that was all zeros when the message began. */
  FRESH: MAP_BYTES + 24,
  /** i32: 1 if something happened that only a fresh instance undoes (data.drop). */
  NEEDS_FRESH_INSTANCE: MAP_BYTES + 28,
  /** i32: 1 if the globals have been saved since the message began. */
  GLOBALS_SAVED: MAP_BYTES + 32,
  /** i32: index in the list where `delta` continues; the host sets it to 0 before the first call. */
  DELTA_INDEX: MAP_BYTES + 36,
  /** i32: number of pre-images that belong to the list up to DELTA_INDEX; also set to 0 by the host. */
  DELTA_SLOT: MAP_BYTES + 40,
  /** i32: entries that the last call of `delta` wrote. */
  DELTA_ENTRIES: MAP_BYTES + 44,
  /** i32: bytes of these entries. */
  DELTA_BYTES: MAP_BYTES + 48,
  /** i32: number of touched pages at which `svc.room` is asked before the next page is touched. */
  TOUCH_LIMIT: MAP_BYTES + 52,
  /** i32: 1 if the last system call has left work that `svc.room` does in pieces (`ROOM.REST`). */
  REST: MAP_BYTES + 56,
  GLOBALS: MAP_BYTES + 256,
  GLOBALS_COPY: MAP_BYTES + 32768,
  LIST: MAP_BYTES + 65536,
  ZEROS,
  DELTAS,
  PRE_IMAGES: DELTAS + DELTAS_BYTES,
} as const;

/**
 * Size of the slices in which fuel is handed out, so that the register that holds fuel is only compared with 0; a power
 * of two.
 */
export const FUEL_SLICE = 2 ** 20;

/**
 * Largest number of bytes that are copied or filled at once: larger operations are done in pieces, with a yield between
 * them. A piece has the size of a slice, so a message whose copy is split has used up at least one slice: such a copy
 * never runs where yielding ends the message.
 */
export const BULK_PIECE_BYTES = FUEL_SLICE;

/** More pages than a message can touch: makes `undo` undo everything. */
export const ALL_PAGES = 2 ** 30;

/** Largest number of instructions for a message: sums with a slice must be exact as doubles. */
export const FUEL_MAX = 2 ** 52;

/** Requests to `svc.room`, and its answers. */
export const ROOM = {
  /** The heap is to grow by `amount` pages of 64 KiB: REFUSED, GRANTED, or LATER: yield, and ask again. */
  HEAP: 0,
  /**
   * The control memory is full: GRANTED means room for at least one more slot, at the place that SAVED says now. LATER:
   * yield, and ask again.
   */
  JOURNAL: 1,
  /**
   * Page `amount` of the heap is the first one beyond TOUCH_LIMIT; the host raises the limit, or throws. LATER: yield,
   * and ask again.
   */
  PAGE: 2,
  /** The growth that was GRANTED last for HEAP failed: V8 has no room for `amount` more pages. */
  NOT_GROWN: 3,
  /** A system call that has left work (CONTROL.REST) does its next piece; LATER: more follow, yield before them. */
  REST: 4,
  REFUSED: 0,
  GRANTED: 1,
  LATER: 2,
} as const;

/** Result of a growth of stable memory that has no answer yet: yield, and make the system call again. */
export const GROW_AGAIN = -2;

/** Values of CONTROL.STOP. */
export const STOP = { NONE: 0, OUT_OF_INSTRUCTIONS: 1, STACK_OVERFLOW: 2, JOURNAL_FULL: 3 } as const;

export const IMPORT_MODULE = 'svc';
export const IMPORT = { MEMORY: 'memory', CONTROL: 'control', YIELD: 'yield', ROOM: 'room' } as const;
export const EXPORT = {
  INVOKE: 'invoke',
  CALLBACK: 'callback',
  UNDO: 'undo',
  TOUCH_RANGE: 'touch_range',
  SAVE_GLOBALS: 'save_globals',
  LOAD_GLOBALS: 'load_globals',
  SETTLE: 'settle',
  DELTA: 'delta',
  CANDID_POINTER: 'get_candid_pointer',
} as const;

/** The exports of an instrumented module, as JavaScript sees them. */
export interface InstrumentedExports {
  readonly invoke: (entry: number) => void;
  /** Absent if the module has no table of functions. */
  readonly callback?: (fun: number, env: number | bigint) => void;
  readonly undo: (pages: number) => void;
  readonly touch_range: (address: number, length: number) => void;
  readonly save_globals: (place: number) => void;
  readonly load_globals: (place: number) => void;
  readonly settle: () => void;
  readonly delta: () => void;
  readonly get_candid_pointer?: () => number;
}

/** An active data segment, removed from the module: the host copies it when a heap is created from scratch. */
interface DataSegment {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** A mutable global's place in the control memory. */
export interface SavedGlobal {
  readonly type: 'i32' | 'i64' | 'f32' | 'f64' | 'v128';
  /** Byte offset from the beginning of the globals. */
  readonly at: number;
}

/**
 * Facts about an instrumented module that the host needs. Plain data, which crosses threads with the compiled module.
 */
export interface ModuleLayout {
  readonly pointerWidth: 32 | 64;
  /** Export names for `invoke`, such as `canister_update inc`; `start` is the former start function. */
  readonly entries: readonly string[];
  readonly heapPagesInitial: number;
  /** The module's own maximum or the host's, whichever is smaller. */
  readonly heapPagesMax: number;
  /** Entries of table 0, which never grows; 0 if the module has no table of functions. */
  readonly tableLength: number;
  readonly hasCandidPointer: boolean;
  readonly data: readonly DataSegment[];
  /**
   * Reason why instantiating the module traps, if it does. The host has to raise the trap, since the instrumented
   * module does not.
   */
  readonly segmentTraps: SegmentTraps;
  readonly globals: readonly SavedGlobal[];
  /** Total bytes of these globals. */
  readonly globalsBytes: number;
}

/** Name of the former start function in `layout.entries`. */
export const START_ENTRY = 'start';
