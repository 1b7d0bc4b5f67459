/**
 * What the message in progress takes of the memory that all actors share, and what it is refused.
 *
 *   memory.grow     takes all that it grows by, or −1. While idle canisters are put to sleep for it, it is told to yield and
 *                   ask again, for WAIT_MS at most. What V8 cannot grow all the same counts as refused, too (`notGrown`).
 *   touched pages   of a small heap, which counts by them: a short message need not ask for its first FREE_PAGES; then
 *                   they are taken by the STEP_PAGES, or, if there is no room for so many, one by one. None: the message
 *                   traps.
 *   the journal     takes what it grows by (control-memory.ts). No room: the message traps.
 *   stable memory   takes what is written (stable-pages.ts); growing takes nothing, but is refused when there is no room
 *                   for the first STABLE_STEP_PAGES of it.
 *
 * A growth also takes the room for what the heap was before, because a memory never gets smaller: a message that grew its
 * heap is undone on a copy, and undoing must not fail. At the end all that was not needed after all is given back.
 *
 * After one refusal everything else is refused, until the message ends: so what is to be recorded is one number. When a
 * record is run again, what was granted then is granted now, unless there is no room: then the canister cannot be woken here.
 *
 * Executor thread, within a message: touches the budget that all threads share, and the tally of the message's own heap.
 */
import { PAGE_BYTES } from '../../bytes/index.ts';
import { BLOCKING_WAIT_MS, type MemoryBudget } from './memory-budget.ts';
import { HostTrap } from '../engine/fault.ts';
import { type HeapTally, SMALL_HEAP_BYTES_MAX } from './heap-tally.ts';
import { ROOM } from '../../instrument/abi/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import type { Shortage, Shortages } from './shortage.ts';

/** Pages that a message may touch of a small heap before it asks, where a thread has one such message at a time. */
export const FREE_PAGES = 256;
const STEP_PAGES = 64;
/** No heap has so many. */
const NO_LIMIT = 2 ** 30;
/** How long a growth waits for idle canisters to be put to sleep, while others go on: what they have goes to the disk. */
const WAIT_MS = 60_000;
/** So often it asks: others may have taken what was freed. */
const QUESTIONS_MAX = 4;
const LOOK_MS = 1;
const STABLE_STEP_PAGES = (16 * 2 ** 20) / PAGE_BYTES;
const PAGES_PER_WASM_PAGE = WASM_PAGE_BYTES / PAGE_BYTES;
const SMALL_PAGES_MAX = SMALL_HEAP_BYTES_MAX / PAGE_BYTES;

/** Pages of 4 KiB by which a heap grows, and what has been taken for that. */
interface Growth {
  readonly pages: number;
  readonly wanted: number;
  readonly forUndo: number;
}

export class MessageMemory {
  readonly budget: MemoryBudget;
  readonly #freePages: number;
  /** Of a large heap. */
  touchedPagesMax = NO_LIMIT;
  // The task.
  #shortages: (Shortage | undefined)[] | undefined;
  #expected: Shortages | undefined;
  #run = -1;
  /** Its record cannot be run again here. */
  lacksRoom = false;
  // The run.
  #tally: HeapTally | undefined;
  /** The heap as it is now, and at most, in pages of 4 KiB. */
  #pages = 0;
  #pagesMax = 0;
  #granted = 0;
  #isRefused = false;
  #isStopped = false;
  /** Taken for the heap, and for undoing it. */
  #taken = 0;
  #takenForUndo = 0;
  /** What the heap's last growth has taken; undefined: it was not granted, or it is known to have been done. */
  #growth: Growth | undefined;
  #question = 0;
  #questions = 0;
  #untilMs = 0;

  constructor(budget: MemoryBudget, freePages: number) {
    this.budget = budget;
    this.#freePages = freePages;
  }

  // ---- a task

  /** `expected`: what was refused when it was first executed; undefined: it is now. */
  beginTask(expected?: Shortages): void {
    this.#expected = expected;
    this.#shortages = undefined;
    this.#run = -1;
    this.lacksRoom = false;
  }

  /** What the task was refused; undefined: nothing. */
  get shortages(): Shortages | undefined {
    return this.#shortages;
  }

  // ---- a run

  /** How many pages it may touch before it asks (`ROOM.PAGE`). */
  begin(tally: HeapTally, heapPagesMax: number): number {
    this.#run++;
    this.#tally = tally;
    this.#pages = tally.pages;
    this.#pagesMax = heapPagesMax * PAGES_PER_WASM_PAGE;
    this.#granted = 0;
    this.#isRefused = false;
    this.#isStopped = false;
    this.#growth = undefined;
    // What the message before it asked for, and was rolled back, does not count for this one.
    this.#question = this.#questions = 0;
    if (tally.marks === undefined) return this.touchedPagesMax;
    return this.budget.pagesLeft >= this.#freePages ? this.#freePages : 0;
  }

  /** Another instance goes on with it, on the same heap. */
  goOn(tally: HeapTally, heapPagesMax: number): void {
    this.#tally = tally;
    this.#pagesMax = heapPagesMax * PAGES_PER_WASM_PAGE;
  }

  /** It was stopped for lack of memory when it was first executed, after so many instructions; undefined: it was not. */
  get stoppedAfter(): number | undefined {
    const expected = this.#expected?.[this.#run];
    return expected?.kind === 'stopped' ? expected.instructions : undefined;
  }

  /** It has ended with a fault after so many instructions; what is to be added to the reason, if anything. */
  faulted(instructions: number): string {
    if (this.#isStopped) this.#note({ kind: 'stopped', instructions });
    return this.#isRefused && !this.#isStopped
      ? ` (${this.budget.explain('the message was refused more memory')})`
      : '';
  }

  /** The heap is to grow by so many pages of 64 KiB: one of ROOM's answers. */
  grow(wasmPages: number, mayWaitLong = true): number {
    // It will fail by itself.
    const pages = wasmPages * PAGES_PER_WASM_PAGE;
    const size = this.#pages + pages;
    const tally = this.#tally;
    this.#growth = undefined;
    if (tally === undefined || size > this.#pagesMax) return ROOM.GRANTED;
    const held = tally.counted + this.#taken;
    const wanted = size > SMALL_PAGES_MAX ? Math.max(0, size - held) : pages;
    const forUndo = Math.max(0, tally.counted - this.#takenForUndo);
    const answer = this.#attempt(wanted + forUndo, mayWaitLong);
    if (answer === ROOM.GRANTED) {
      this.#pages = size;
      this.#taken += wanted;
      this.#takenForUndo += forUndo;
      this.#growth = { pages, wanted, forUndo };
    }
    return answer;
  }

  /** V8 has not grown the heap as it was granted last: it is as if that had been refused. Throws HostTrap where a record is run again. */
  notGrown(): void {
    const { budget } = this;
    const growth = this.#growth;
    // It was beyond the module's own maximum.
    if (growth === undefined) return;
    this.#growth = undefined;
    this.#pages -= growth.pages;
    this.#taken -= growth.wanted;
    this.#takenForUndo -= growth.forUndo;
    budget.giveBack(growth.wanted + growth.forUndo);
    this.#granted--;
    if (this.#expected !== undefined)
      throw this.stop("running the actor's log again takes a larger heap than the machine can provide");
    this.#refuse();
  }

  /** The same for the host, which cannot yield: the thread stands still meanwhile, and relief needs it. */
  growBy(wasmPages: number): boolean {
    let answer = this.grow(wasmPages, false);
    while (answer === ROOM.LATER) answer = this.grow(wasmPages, false);
    return answer === ROOM.GRANTED;
  }

  /** Whether stable memory may grow by so many bytes, where there is room for some that has been taken already. */
  growStable(bytes: number, roomBytes: number): boolean {
    if (bytes === 0) return true;
    const pages = Math.max(0, Math.min(bytes / PAGE_BYTES, STABLE_STEP_PAGES) - roomBytes / PAGE_BYTES);
    let answer = this.#attempt(pages, false);
    while (answer === ROOM.LATER) answer = this.#attempt(pages, false);
    if (answer === ROOM.GRANTED) this.budget.giveBack(pages);
    return answer === ROOM.GRANTED;
  }

  #attempt(pages: number, mayWaitLong: boolean): number {
    const { budget } = this;
    if (this.#isRefused) return ROOM.REFUSED;
    const expected = this.#expected?.[this.#run];
    if (expected?.kind === 'refused' && this.#granted >= expected.granted) return this.#refuse();
    const isAnswered = this.#question !== 0 && this.#isAnswered();
    // To look for room makes the thread collect its garbage: not for what there can be none for.
    if (!this.#canNeverHave(pages) && budget.take(pages)) {
      this.#question = this.#questions = 0;
      this.#granted++;
      return ROOM.GRANTED;
    }
    if (isAnswered) this.#question = 0;
    if (this.#ask(pages, mayWaitLong ? WAIT_MS : BLOCKING_WAIT_MS)) return ROOM.LATER;
    this.#question = this.#questions = 0;
    if (this.#expected !== undefined)
      throw this.stop(budget.explain("running the actor's log again takes more memory than there is"));
    return this.#refuse();
  }

  /** Whether it is worth to ask again later. */
  #ask(pages: number, waitMs: number): boolean {
    const { budget } = this;
    const nowMs = performance.now();
    if (this.#questions === 0) this.#untilMs = nowMs + waitMs;
    else if (nowMs > this.#untilMs) return false;
    if (this.#question !== 0) return true;
    if (this.#questions++ === QUESTIONS_MAX || this.#canNeverHave(pages)) return false;
    this.#question = budget.ask(pages);
    return this.#question !== 0;
  }

  /** What the message's own heap has, nobody can free for it. */
  #canNeverHave(pages: number): boolean {
    const own = (this.#tally?.counted ?? 0) + this.#taken + this.#takenForUndo;
    return (own + pages) * PAGE_BYTES > this.budget.bytesMax;
  }

  #isAnswered(): boolean {
    return this.budget.isAnswered(this.#question, LOOK_MS);
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
   * The message is about to touch a page of its heap, the first after as many as it may touch unasked; how many more it may.
   * Throws HostTrap.
   */
  touch(page: number): number {
    const tally = this.#tally;
    if (tally?.marks === undefined) throw this.stop(`the message touches more than ${this.touchedPagesMax} pages`);
    const rest = Math.max(0, this.#pages - tally.counted - this.#taken);
    // Each of them may spill into the page behind it.
    const ahead = Math.min(rest, 2 * STEP_PAGES);
    if (ahead <= this.budget.pagesLeft && this.budget.take(ahead)) {
      this.#taken += ahead;
      return ahead === rest ? NO_LIMIT : STEP_PAGES;
    }
    const cost = tally.costOf(page);
    this.take(cost, 'the message cannot use more of its heap');
    this.#taken += cost;
    return 1;
  }

  /** Takes pages for what the message needs, or throws the HostTrap that ends it. */
  take(pages: number, what: string): void {
    if (!this.budget.takeOrWait(pages)) throw this.stop(this.budget.explain(what));
  }

  /** What ends the message, because there is no memory for what it does. */
  stop(reason: string): HostTrap {
    this.#isStopped = true;
    if (this.#expected === undefined) this.budget.refused();
    else this.lacksRoom = true;
    return new HostTrap(reason);
  }

  // ---- the end of a message

  /**
   * What was taken for the heap counts with it, as far as it came to be used. What was taken for undoing it is free, unless that
   * is about to be done on a copy (`keepsUndo`): then it is the copy's (`takeUndo`).
   */
  settle(tally: HeapTally, keepsUndo = false): void {
    if (this.#taken === 0 && this.#takenForUndo === 0 && tally.isSettled) return;
    if (!keepsUndo) this.budget.giveBack(this.takeUndo());
    tally.settle(this.budget, this.#taken);
    this.#taken = 0;
  }

  /** The pages that were taken for undoing: the caller's from now on. */
  takeUndo(): number {
    const pages = this.#takenForUndo;
    this.#takenForUndo = 0;
    return pages;
  }
}
