/**
 * Memory that the message in progress takes from the budget of all actors, and the requests that were refused.
 *
 *   memory.grow     takes all pages of the growth, or answers −1. A growth that V8 cannot do counts as refused, too
 *                   (`notGrown`).
 *   touched pages   count for a small heap: a short message need not ask for its first FREE_PAGES; then STEP_PAGES are
 *                   taken at a time, or, if there is no room for so many, one. If there is none, the message traps.
 *   the journal     takes the pages of its growth (control-memory.ts). No room: the message traps.
 *   stable memory   takes the pages that are written (stable-pages.ts); growing takes nothing, but is refused if there
 *                   is no room for the first STABLE_STEP_PAGES of it.
 *
 * While idle canisters are evicted for a request, the message is told to yield and ask again, for WAIT_MS at most.
 * Where the host is below the message on the stack, it cannot yield: then the thread blocks (`takeOrWaitRarely`).
 *
 * A growth also takes the room for the heap's former content, because a memory never gets smaller: a message that grew
 * its heap is undone on a copy, and undoing must not fail. At the end all pages that were not needed are given back.
 *
 * After one refusal everything else is refused until the message ends, so the record needs only one number. When a
 * record is run again, growths that were granted then are granted now, unless there is no room: then the canister
 * cannot be woken here.
 *
 * Executor thread, within a message: touches the budget that all threads share, and the tally of the message's own
 * heap.
 */
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { MemoryBudget } from './memory-budget.ts';
import { HostTrap } from '../engine/fault.ts';
import { type HeapTally, SMALL_HEAP_BYTES_MAX } from './heap-tally.ts';
import { ROOM } from '../../instrument/abi/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import type { Shortage, Shortages } from './shortage.ts';

/** Pages that a message may touch of a small heap before it asks, if the thread has one such message at a time. */
export const FREE_PAGES = 256;
const STEP_PAGES = 64;
/** More pages than any heap has. */
const NO_LIMIT = 2 ** 30;
/**
 * Longest time a request waits until idle canisters are evicted, while other work goes on: their state goes to the
 * disk.
 */
export const WAIT_MS = 60_000;
/**
 * A message leaves memory for PATIENCE_MS to canisters that are to be woken, and is refused after AWAITED_WAIT_MS if
 * one is still asleep, if it has up to this share of all memory, or up to so many times as much as the canister waits
 * for. One with more leaves memory until it is refused, at once when the canister has been tried again in vain: what
 * the message has may be what that lacks.
 */
const MODEST_SHARE = 1 / 64;
const MODEST_FACTOR = 2;
const PATIENCE_MS = 200;
const AWAITED_WAIT_MS = 500;
/** Most questions of one request after which there was not enough. */
export const QUESTIONS_MAX = 4;
export const LOOK_MS = 1;
const STABLE_STEP_PAGES = (16 * 2 ** 20) / PAGE_BYTES;
const PAGES_PER_WASM_PAGE = WASM_PAGE_BYTES / PAGE_BYTES;
const SMALL_PAGES_MAX = SMALL_HEAP_BYTES_MAX / PAGE_BYTES;

/** Growth of a heap in pages of 4 KiB, and the pages taken for it. */
interface Growth {
  readonly pages: number;
  readonly wanted: number;
  readonly forUndo: number;
}

export class MessageMemory {
  readonly budget: MemoryBudget;
  readonly #freePages: number;
  /** The most pages of a large heap that a message may touch. */
  touchedPagesMax = NO_LIMIT;
  // The task.
  #shortages: (Shortage | undefined)[] | undefined;
  #expected: Shortages | undefined;
  #run = -1;
  /** True if the task's record cannot be run again here. */
  lacksRoom = false;
  // The run.
  #tally: HeapTally | undefined;
  /** Present and largest size of the heap, in pages of 4 KiB. */
  #pages = 0;
  #pagesMax = 0;
  #granted = 0;
  #isRefused = false;
  #isStopped = false;
  /** Pages taken for the heap, and for undoing it. */
  #taken = 0;
  #takenForUndo = 0;
  /** Pages that the heap's last growth has taken; undefined: it was not granted, or it is known to have been done. */
  #growth: Growth | undefined;
  #question = 0;
  #questionsInVain = 0;
  /** Moment at which the message began to wait; undefined: it does not. */
  #waitsSinceMs: number | undefined;

  constructor(budget: MemoryBudget, freePages: number) {
    this.budget = budget;
    this.#freePages = freePages;
  }

  // ---- a task

  /**
   * Begins a task. `expected` is what the task was refused when it was first executed; undefined: this is the first
   * time.
   */
  beginTask(expected?: Shortages): void {
    this.#expected = expected;
    this.#shortages = undefined;
    this.#run = -1;
    this.lacksRoom = false;
  }

  /** Refusals of the task; undefined: none. */
  get shortages(): Shortages | undefined {
    return this.#shortages;
  }

  // ---- a run

  /** Begins a run; returns the number of pages that it may touch before it asks (`ROOM.PAGE`). */
  begin(tally: HeapTally, heapPagesMax: number): number {
    this.#run++;
    this.#tally = tally;
    this.#pages = tally.pages;
    this.#pagesMax = heapPagesMax * PAGES_PER_WASM_PAGE;
    this.#granted = 0;
    this.#isRefused = false;
    this.#isStopped = false;
    this.#growth = undefined;
    // Questions of an earlier message that was rolled back do not count for this one.
    this.#endWait();
    if (tally.marks === undefined) return this.touchedPagesMax;
    return this.budget.pagesLeft >= this.#freePages ? this.#freePages : 0;
  }

  /** Continues the run with another instance on the same heap. */
  resume(tally: HeapTally, heapPagesMax: number): void {
    this.#tally = tally;
    this.#pagesMax = heapPagesMax * PAGES_PER_WASM_PAGE;
  }

  /**
   * Number of instructions after which the run was stopped for lack of memory when it was first executed; undefined: it
   * was not stopped.
   */
  get stoppedAfter(): number | undefined {
    const expected = this.#expected?.[this.#run];
    return expected?.kind === 'stopped' ? expected.instructions : undefined;
  }

  /** Notes that the run has ended with a fault after `instructions`; returns text to add to the reason, or ''. */
  faulted(instructions: number): string {
    if (this.#isStopped) this.#note({ kind: 'stopped', instructions });
    return this.#isRefused && !this.#isStopped
      ? ` (${this.budget.explain('the message was refused more memory')})`
      : '';
  }

  /** Asks for a growth of the heap by `wasmPages` pages of 64 KiB; returns one of ROOM's answers. */
  grow(wasmPages: number): number {
    // A growth beyond the maximum is granted here: it will fail by itself.
    const pages = wasmPages * PAGES_PER_WASM_PAGE;
    const size = this.#pages + pages;
    const tally = this.#tally;
    this.#growth = undefined;
    if (tally === undefined || size > this.#pagesMax) return ROOM.GRANTED;
    const held = tally.counted + this.#taken;
    const wanted = size > SMALL_PAGES_MAX ? Math.max(0, size - held) : pages;
    const forUndo = Math.max(0, tally.counted - this.#takenForUndo);
    const answer = this.#attempt(wanted + forUndo);
    if (answer === ROOM.GRANTED) {
      this.#pages = size;
      this.#taken += wanted;
      this.#takenForUndo += forUndo;
      this.#growth = { pages, wanted, forUndo };
    }
    return answer;
  }

  /**
   * Treats the last granted growth as refused, because V8 could not grow the heap. Throws HostTrap if a record is run
   * again.
   */
  notGrown(): void {
    const { budget } = this;
    const growth = this.#growth;
    // The growth was beyond the module's own maximum.
    if (growth === undefined) return;
    this.#growth = undefined;
    this.#pages -= growth.pages;
    this.#taken -= growth.wanted;
    this.#takenForUndo -= growth.forUndo;
    budget.free(growth.wanted + growth.forUndo);
    this.#granted--;
    if (this.#expected !== undefined)
      throw this.stop("running the actor's log again takes a larger heap than the machine can provide");
    this.#refuse();
  }

  /** Does the same as `grow` for the host, which pauses while there is no answer. Returns true if granted. */
  *growing(wasmPages: number): Generator<void, boolean, void> {
    let answer = this.grow(wasmPages);
    while (answer === ROOM.LATER) {
      yield;
      answer = this.grow(wasmPages);
    }
    return answer === ROOM.GRANTED;
  }

  /**
   * Asks for a growth of stable memory by `bytes`, of which `roomBytes` are taken already; returns one of ROOM's
   * answers.
   */
  growStable(bytes: number, roomBytes: number): number {
    if (bytes === 0) return ROOM.GRANTED;
    const pages = Math.max(0, Math.min(bytes / PAGE_BYTES, STABLE_STEP_PAGES) - roomBytes / PAGE_BYTES);
    const answer = this.#attempt(pages);
    if (answer === ROOM.GRANTED) this.budget.free(pages);
    return answer;
  }

  #attempt(pages: number): number {
    if (this.#isRefused) return ROOM.REFUSED;
    const expected = this.#expected?.[this.#run];
    if (expected?.kind === 'refused' && this.#granted >= expected.granted) return this.#refuse();
    const answer = this.#seek(pages);
    if (answer === ROOM.GRANTED) this.#granted++;
    if (answer !== ROOM.REFUSED) return answer;
    if (this.#expected !== undefined)
      throw this.stop(this.budget.explain("running the actor's log again takes more memory than there is"));
    return this.#refuse();
  }

  /** Takes pages, or asks for them; returns one of ROOM's answers. */
  #seek(pages: number): number {
    const { budget } = this;
    if (budget.pagesLeft < pages && budget.givePieceBack()) return ROOM.LATER;
    const isAnswered = this.#question !== 0 && this.budget.isAnswered(this.#question, LOOK_MS);
    // Looking for room makes the thread collect its garbage, so requests that can never fit do not look.
    if (!this.#canNeverHave(pages) && this.#mayTake(pages) && budget.take(pages)) {
      this.#endWait();
      return ROOM.GRANTED;
    }
    if (isAnswered) {
      if (budget.wasInVain(this.#question)) this.#questionsInVain++;
      this.#question = 0;
    }
    if (this.#ask(pages)) return ROOM.LATER;
    this.#endWait();
    return ROOM.REFUSED;
  }

  /** True while a request of the message waits until idle canisters are evicted for it. */
  get isWaiting(): boolean {
    return this.#waitsSinceMs !== undefined;
  }

  #endWait(): void {
    this.#question = this.#questionsInVain = 0;
    this.#waitsSinceMs = undefined;
  }

  get #waitedMs(): number {
    return this.#waitsSinceMs === undefined ? 0 : performance.now() - this.#waitsSinceMs;
  }

  #mayTake(pages: number): boolean {
    return this.budget.mayTake(pages) || (this.#waitedMs > PATIENCE_MS && this.#isModest(pages));
  }

  /** Returns true if it is worth asking again later. */
  #ask(pages: number): boolean {
    const { budget } = this;
    this.#waitsSinceMs ??= performance.now();
    if (this.#canNeverHave(pages)) return false;
    if (this.#waitedMs > WAIT_MS) return false;
    if (budget.isAwaited && (this.#waitedMs > AWAITED_WAIT_MS || !this.#isModest(pages))) return false;
    // There is room, which is kept for somebody else.
    if (this.#question !== 0 || budget.pagesLeft >= pages) return true;
    if (this.#questionsInVain === QUESTIONS_MAX) return false;
    this.#question = budget.ask(pages);
    return this.#question !== 0;
  }

  /** Returns true if the pages cannot fit beside the message's own heap, whose pages nobody can free. */
  #canNeverHave(pages: number): boolean {
    return (this.#own + pages) * PAGE_BYTES > this.budget.bytesMax;
  }

  #isModest(pages: number): boolean {
    const { budget } = this;
    const modestPages = Math.max((budget.bytesMax / PAGE_BYTES) * MODEST_SHARE, budget.awaitedPages * MODEST_FACTOR);
    return this.#own + pages <= modestPages;
  }

  get #own(): number {
    return (this.#tally?.counted ?? 0) + this.#taken + this.#takenForUndo;
  }

  #refuse(): number {
    this.#isRefused = true;
    if (this.#expected === undefined) this.budget.refused();
    this.#note({ kind: 'refused', granted: this.#granted });
    return ROOM.REFUSED;
  }

  #note(shortage: Shortage): void {
    if (this.#run < 0) return;
    this.#shortages ??= [];
    this.#shortages[this.#run] = shortage;
  }

  /**
   * Takes pages for the first page of the heap beyond those that the message may touch unasked; returns how many more
   * it may touch, 0: yield, and ask again. Throws HostTrap.
   */
  touch(page: number, mayYield: boolean): number {
    const tally = this.#tally;
    if (tally?.marks === undefined) throw this.stop(`the message touches more than ${this.touchedPagesMax} pages`);
    const rest = Math.max(0, this.#pages - tally.counted - this.#taken);
    // Each of them may spill into the page behind it.
    const ahead = Math.min(rest, 2 * STEP_PAGES);
    if (ahead <= this.budget.pagesLeft && this.budget.mayTake(ahead) && this.budget.take(ahead)) {
      this.#endWait();
      this.#taken += ahead;
      return ahead === rest ? NO_LIMIT : STEP_PAGES;
    }
    const cost = tally.costOf(page);
    if (this.take(cost, 'the message cannot use more of its heap', mayYield) === ROOM.LATER) return 0;
    this.#taken += cost;
    return 1;
  }

  /**
   * Takes pages that the message needs, or throws the HostTrap that ends it; returns ROOM's GRANTED, or LATER if the
   * message may yield.
   */
  take(pages: number, what: string, mayYield: boolean): number {
    const answer = mayYield ? this.#seek(pages) : Number(this.budget.takeOrWaitRarely(pages));
    if (answer === ROOM.REFUSED) throw this.stop(this.budget.explain(what));
    return answer;
  }

  /**
   * Looks for room for pages that the host is about to take for the message, which cannot yield meanwhile. Returns
   * false if it is to yield before, and ask again; true: they can be taken, or nobody can give so many.
   */
  hasRoom(pages: number): boolean {
    const answer = this.#seek(pages);
    if (answer === ROOM.GRANTED) this.budget.free(pages);
    return answer !== ROOM.LATER;
  }

  /** Returns the trap that ends the message, because there is no memory for its work. */
  stop(reason: string): HostTrap {
    this.#isStopped = true;
    if (this.#expected === undefined) this.budget.refused();
    else this.lacksRoom = true;
    return new HostTrap(reason);
  }

  // ---- the end of a message

  /**
   * Settles the pages at the end of a message. Pages taken for the heap count with it, as far as they were used. Pages
   * taken for undoing are given back, unless the heap is about to be undone on a copy (`keepsUndo`): then they are the
   * copy's (`takeUndo`).
   */
  settle(tally: HeapTally, keepsUndo = false): void {
    if (this.#taken === 0 && this.#takenForUndo === 0 && tally.isSettled) return;
    if (!keepsUndo) this.budget.free(this.takeUndo());
    tally.settle(this.budget, this.#taken);
    this.#taken = 0;
  }

  /** Hands the pages that were taken for undoing over to the caller. */
  takeUndo(): number {
    const pages = this.#takenForUndo;
    this.#takenForUndo = 0;
    return pages;
  }
}
