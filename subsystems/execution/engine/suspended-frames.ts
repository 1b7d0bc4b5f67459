/**
 * Composite queries that wait for their calls.
 *
 * Such a query sees its canister as it was when the query began, plus what the query itself wrote, while the canister
 * goes on. The query holds no instance meanwhile: a frame is data, the content of every page that differs between the
 * query's view and the committed state. A frame starts as the pages that the query wrote. When the canister commits
 * something, the pages that changed join each of its frames as they were before, unless the frame has them already. So
 * the invariant is:
 *
 *     committed state + the frame's pages laid over = the query's view
 *
 * To resume the query, its frame is laid over in a message of its own, which is rolled back like every query.
 *
 * Two things cannot be laid over, and then the query is rejected as one that may be tried again: a heap cannot shrink,
 * so a frame ends when the committed heap has grown past the frame's; and new code ends all frames of its canister. The
 * bytes of all frames of a thread are bounded; a frame that does not fit ends its query, too.
 *
 * Executor thread: one for all engines of the thread; touches a canister's memory only within a message of it.
 */
import { type StableMemory } from '../memory/stable-memory.ts';
import type { Instance } from './instance.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { MemoryBudget } from '../memory/memory-budget.ts';

/** The part of a canister that frames use. */
interface FramedCanister {
  readonly stable: StableMemory;
  frames: Set<SuspendedFrame> | undefined;
}

export interface SuspendedFrame {
  readonly number: number;
  readonly canister: FramedCanister;
  readonly heapBytes: number;
  readonly globals: Uint8Array;
  /** Content by number of the 4 KiB page. */
  readonly pages: Map<number, Uint8Array>;
  readonly stablePages: number;
  /** Content by number of the granule of stable memory. */
  readonly granules: Map<number, Uint8Array>;
  /** Pages that the budget counts for this frame. */
  pagesCounted: number;
}

/** Bytes of a frame besides its pages. */
const FRAME_BYTES = 1024;
/** Frames are numbered with 31 bits: the width that crosses between threads. */
const NUMBER_MAX = 0x7fff_ffff;

export class SuspendedFrames {
  readonly bytesMax: number;
  readonly #frames = new Map<number, SuspendedFrame>();
  #lastNumber = 0;
  #bytes = 0;

  readonly #budget: MemoryBudget;

  constructor(bytesMax: number, budget: MemoryBudget = MemoryBudget.unbounded()) {
    this.bytesMax = bytesMax;
    this.#budget = budget;
  }

  /** Bytes held now. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Keeps the state that the message in progress has made of its canister; must be called before the rollback. Returns
   * the frame's number, or 0 if there is no room for it. `number` is the one that the query had before, 0 if it was not
   * suspended yet.
   */
  save(canister: FramedCanister, instance: Instance, number: number): number {
    const { stable } = canister;
    // Checked before anything is copied: it may be gigabytes.
    if (this.#bytes + leastBytes(stable, instance) > this.bytesMax) return 0;
    const frame: SuspendedFrame = {
      number: number === 0 ? this.#nextNumber() : number,
      canister,
      heapBytes: instance.heapBytes,
      globals: instance.saveGlobals(),
      pages: instance.dirtyContents(),
      stablePages: stable.pages,
      granules: stable.dirtyContents(),
      pagesCounted: 0,
    };
    if (this.#bytes + sizeOf(frame) > this.bytesMax || this.#budget.pagesLeft < pagesOf(frame)) return 0;
    frame.pagesCounted = pagesOf(frame);
    this.putBack(frame);
    return frame.number;
  }

  /** Keeps a frame that `take` has taken out, as it was. */
  putBack(frame: SuspendedFrame): void {
    this.#bytes += sizeOf(frame);
    this.#budget.add(frame.pagesCounted);
    this.#frames.set(frame.number, frame);
    (frame.canister.frames ??= new Set()).add(frame);
  }

  /** Takes a frame out, to lay it over; undefined if it has ended. */
  take(number: number): SuspendedFrame | undefined {
    const frame = this.#frames.get(number);
    if (frame === undefined) return undefined;
    this.#frames.delete(number);
    this.#bytes -= sizeOf(frame);
    this.#budget.free(frame.pagesCounted);
    const { canister } = frame;
    canister.frames?.delete(frame);
    if (canister.frames?.size === 0) canister.frames = undefined;
    return frame;
  }

  /** Ends all frames of a canister. */
  dropAll(canister: FramedCanister): void {
    for (const frame of canister.frames ?? []) this.take(frame.number);
  }

  /**
   * Keeps for the canister's frames the pages that the message in progress is about to change for good; must be called
   * before the commit.
   */
  preserve(canister: FramedCanister, instance: Instance): void {
    const { frames, stable } = canister;
    if (frames === undefined) return;
    if (leastBytes(stable, instance) > this.bytesMax) {
      this.dropAll(canister);
      return;
    }
    const pages = instance.preImages();
    const granules = stable.preImages();
    for (const frame of frames) {
      const before = sizeOf(frame);
      for (const [page, bytes] of pages) if (!frame.pages.has(page)) frame.pages.set(page, bytes);
      for (const [granule, bytes] of granules) if (!frame.granules.has(granule)) frame.granules.set(granule, bytes);
      this.#bytes += sizeOf(frame) - before;
      const more = pagesOf(frame) - frame.pagesCounted;
      const hasRoom = this.#budget.take(more);
      if (hasRoom) frame.pagesCounted += more;
      if (!hasRoom || this.#bytes > this.bytesMax) this.take(frame.number);
    }
  }

  #nextNumber(): number {
    do this.#lastNumber = this.#lastNumber === NUMBER_MAX ? 1 : this.#lastNumber + 1;
    while (this.#frames.has(this.#lastNumber));
    return this.#lastNumber;
  }
}

/** Returns the least size of a frame that has all that the message in progress has touched. */
function leastBytes({ dirtyGranules }: StableMemory, { touchedPages }: Instance): number {
  return (touchedPages + dirtyGranules.length) * PAGE_BYTES;
}

function pagesOf(frame: SuspendedFrame): number {
  return Math.ceil(sizeOf(frame) / PAGE_BYTES);
}

function sizeOf({ globals, pages, granules }: SuspendedFrame): number {
  return FRAME_BYTES + globals.length + pages.size * PAGE_BYTES + granules.size * PAGE_BYTES;
}
