/**
 * The contract between an instrumented module and its host: a face of its own, because who runs instrumented code does not
 * need the instrumenter, which takes 25 ms of CPU to load in each thread.
 *
 * An instrumented module imports everything that outlives a message and exports only entry points of ours:
 *
 *   import svc.memory    memory 0: the canister's heap (0 pages if the module declares none)
 *   import svc.control   memory 1: the control memory, one for all instances on an engine (layout below)
 *   import svc.yield     called when a slice of fuel is used up: the host may end or suspend the message there
 *   import svc.room      (what i32, amount f64) -> i32: asks for memory, see ROOM
 *   import ic0.*         the system API; how values cross is said in `wasm/ic0-signatures.ts`
 *
 *   export invoke         (entry i32)               runs entry point `layout.entries[entry]`
 *   export callback       (fun f64, env i32 | i64)  runs the function at index `fun` of table 0; env i64 in 64-bit modules
 *   export undo           (pages i32)               takes back the last so many pages that the message wrote to; with none left, globals
 *   export touch_range    (address f64, length f64) the host is about to write these bytes of the heap
 *   export save_globals   (place i32)               mutable globals to the control memory, from `place` on
 *   export load_globals   (place i32)               mutable globals from there
 *   export settle         ()                        after a fault: STOP and FUEL in the control memory become right
 *   export delta          ()                        writes what the message changed to DELTAS, as much as fits (delta.ts)
 *   export get_candid_pointer () -> f64             if the module has it; same preparations as `invoke`
 *
 * Nothing is exported as a global or as a memory: each would be a JavaScript object per instance, and each access to an
 * i64 global a BigInt.
 *
 * The control memory is 32-bit and belongs to the message that runs; between messages its byte map is all zeros.
 *
 *   0             map: a byte for each 4 KiB page of the heap, 1 when the running message has touched it
 *   HEADER        numbers that both sides read and write (FUEL … DELTA_BYTES)
 *   GLOBALS       the mutable globals as they were when the message began, each at its `layout.globals[i].at`
 *   GLOBALS_COPY  the same for the host's own use, between messages and during one
 *   LIST          page numbers in the order they were touched
 *   ZEROS         as many as a slot has bytes, the pre-image of a page that was zeros; nobody writes here
 *   DELTAS        the changed bytes of some touched pages, until the next call of `delta`
 *   PRE_IMAGES    a slot for each touched page below FRESH: its bytes and the first SPILL_BYTES of the next page
 *
 * The map comes first so that the test in front of a store needs no offset: it is the most frequent injected code.
 */

import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { SegmentTraps } from '../../wasm/index.ts';

export { messageStackBytes, threadStackMb } from './stack-bytes.ts';

/** Bumped whenever the output for the same input changes; part of every cache key. */
export const INSTRUMENTER_VERSION = 119;

/** Bytes saved beyond the end of a touched page, so that one test covers stores up to so far behind the tested address. */
export const SPILL_BYTES = 256;
export const SLOT_BYTES = PAGE_BYTES + SPILL_BYTES;

/**
 * 65,535 and not 65,536: an address computed as base + constant must not wrap from the last page of a full 4 GiB to the first.
 * 64-bit heaps are bounded by the IC's 6 GiB.
 */
export const HEAP_PAGES_MAX = { 32: 65535, 64: 98304 } as const;

const HEAP_BYTES_MAX = HEAP_PAGES_MAX[64] * WASM_PAGE_BYTES;
/** Length of the byte map. */
export const MAP_BYTES = HEAP_BYTES_MAX / PAGE_BYTES;

/** Length of DELTAS in the control memory: more than two worst entries, and little enough to stay in the caches. */
export const DELTAS_BYTES = 65536;
const ZEROS = MAP_BYTES + 65536 + MAP_BYTES * 4;
const DELTAS = ZEROS + Math.ceil(SLOT_BYTES / PAGE_BYTES) * PAGE_BYTES;

/** Byte offsets in the control memory. */
export const CONTROL = {
  /** f64: instructions left; exact while a system call runs and after a normal return; may be negative. */
  FUEL: MAP_BYTES,
  /** i32: bytes of stack a message may use. */
  STACK_BYTES: MAP_BYTES + 8,
  /** i32: why wasm stopped itself, one of STOP; known after `settle`. */
  STOP: MAP_BYTES + 12,
  /** i32: touched pages, the length of the list. */
  TOUCHED: MAP_BYTES + 16,
  /** i32: how many of them have a pre-image. */
  SAVED: MAP_BYTES + 20,
  /** i32: from this 4 KiB page on, the heap was all zeros when the message began. */
  FRESH: MAP_BYTES + 24,
  /** i32: 1 when something happened that only a fresh instance takes back (data.drop). */
  NEEDS_FRESH_INSTANCE: MAP_BYTES + 28,
  /** i32: 1 when the globals have been saved since the message began. */
  GLOBALS_SAVED: MAP_BYTES + 32,
  /** i32: where in the list `delta` goes on; the host sets it to 0 before the first call. */
  DELTA_INDEX: MAP_BYTES + 36,
  /** i32: how many pre-images belong to the list up to there; likewise. */
  DELTA_SLOT: MAP_BYTES + 40,
  /** i32: entries that the last call of `delta` wrote. */
  DELTA_ENTRIES: MAP_BYTES + 44,
  /** i32: bytes that they take. */
  DELTA_BYTES: MAP_BYTES + 48,
  /** i32: with so many pages touched, `svc.room` is asked before the next one. */
  TOUCH_LIMIT: MAP_BYTES + 52,
  GLOBALS: MAP_BYTES + 256,
  GLOBALS_COPY: MAP_BYTES + 32768,
  LIST: MAP_BYTES + 65536,
  ZEROS,
  DELTAS,
  PRE_IMAGES: DELTAS + DELTAS_BYTES,
} as const;

/** Fuel is handed out in slices, so that the register that holds it is compared with 0 and nothing else; a power of two. */
export const FUEL_SLICE = 2 ** 20;

/**
 * The most bytes that are copied or filled at once: more goes in pieces, with a yield between them. The size is that of
 * a slice, so that a message whose copy is split has used up one: such a copy never runs where yielding ends the
 * message.
 */
export const BULK_PIECE_BYTES = FUEL_SLICE;

/** More pages than a message can touch: `undo` takes back everything. */
export const ALL_PAGES = 2 ** 30;

/** Most instructions a message can be given: sums with a slice must be exact as doubles. */
export const FUEL_MAX = 2 ** 52;

/** What `svc.room` is asked for, and what it answers. */
export const ROOM = {
  /** The heap is to grow by `amount` pages of 64 KiB: REFUSED, GRANTED, or LATER: yield, and ask again. */
  HEAP: 0,
  /** The control memory ends: with GRANTED there is room for one more slot at least, at the place that SAVED says now. */
  JOURNAL: 1,
  /** Page `amount` of the heap is the first one beyond TOUCH_LIMIT; the host raises that, or throws. LATER: yield, then go on. */
  PAGE: 2,
  /** What was GRANTED last for HEAP has not come about: V8 has no room for `amount` pages more. */
  NOT_GROWN: 3,
  /** A system call with more than BULK_PIECE_BYTES to copy does the next piece; LATER: there are more, yield before them. */
  REST: 4,
  REFUSED: 0,
  GRANTED: 1,
  LATER: 2,
} as const;

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

/** The exports of an instrumented module as JavaScript sees them. */
export interface InstrumentedExports {
  readonly invoke: (entry: number) => void;
  /** Absent when the module has no table of functions. */
  readonly callback?: (fun: number, env: number | bigint) => void;
  readonly undo: (pages: number) => void;
  readonly touch_range: (address: number, length: number) => void;
  readonly save_globals: (place: number) => void;
  readonly load_globals: (place: number) => void;
  readonly settle: () => void;
  readonly delta: () => void;
  readonly get_candid_pointer?: () => number;
}

/** Active data, taken out of the module: the host places it when a heap is created from scratch. */
export interface DataSegment {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** A mutable global's place in the control memory. */
export interface SavedGlobal {
  readonly type: 'i32' | 'i64' | 'f32' | 'f64' | 'v128';
  /** Byte offset from the place where the globals are. */
  readonly at: number;
}

/** What the host must know of an instrumented module. Plain data: crosses threads with the compiled module. */
export interface ModuleLayout {
  readonly pointerWidth: 32 | 64;
  /** Export names that `invoke` dispatches on, such as `canister_update inc`; `start` is the former start function. */
  readonly entries: readonly string[];
  readonly heapPagesInitial: number;
  /** The module's own maximum or the host's, whichever is smaller. */
  readonly heapPagesMax: number;
  /** Entries of table 0, which never grows; 0: the module has no table of functions. */
  readonly tableLength: number;
  readonly hasCandidPointer: boolean;
  readonly data: readonly DataSegment[];
  /** Why instantiating the module traps, if it does: the host has to say so, nothing else will. */
  readonly segmentTraps: SegmentTraps;
  readonly globals: readonly SavedGlobal[];
  /** Bytes that all of them take. */
  readonly globalsBytes: number;
}

/** The name of the former start function among `layout.entries`. */
export const START_ENTRY = 'start';
