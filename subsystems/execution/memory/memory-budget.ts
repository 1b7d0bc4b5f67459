/**
 * Bound on the machine's memory that the actors of all executors may have together: `--memory-bytes` (ADR 28).
 *
 * One table in shared memory, in pages of 4 KiB. Every thread has a view of it and takes pages before it uses them. If
 * they do not fit, the request is refused, which an actor sees as growth that fails. Counted are heaps, written stable
 * memory, journals of messages, spare heaps, packed memories of sleeping canisters, and garbage until it is collected.
 * Each thread's total is in a place of its own, so that it can be given back when the thread dies.
 *
 * Before a thread is refused, it collects its own garbage; if idle canisters can be evicted, it may ask the main thread
 * to do so (`ask`) and try again after the answer.
 *
 * All executor threads and the main thread at once: everything shared is touched with `Atomics`.
 */

import { numberAt } from '../../../kernel/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { LARGE_HEAP_BYTES } from '../../ic/index.ts';
import { MemoryQuestions, QUESTIONS_WORDS } from './memory-questions.ts';
import type { Pieces } from './pieces.ts';

/** Share of the bound from which on idle canisters are evicted, so that hardly any thread has to wait for that. */
const HIGH_SHARE = 7 / 8;

/** Places in the table. */
const USED = 0;
const BOUND = 1;
const REFUSALS = 2;
/** Pages that messages leave to a canister that is to be woken, and the moment from which on. */
const RESERVED = 3;
const RESERVED_AT = 4;
/** Questions for less than LARGE_HEAP_BYTES, and others: those for little do not wait for the answers of the others. */
const LITTLE_QUESTIONS = 5;
const LARGE_QUESTIONS = LITTLE_QUESTIONS + QUESTIONS_WORDS;
const LANES = LARGE_QUESTIONS + QUESTIONS_WORDS;

/** Longest time a thread blocks while idle canisters are evicted: the eviction may need that thread. */
const BLOCKING_WAIT_MS = 50;
/**
 * Time for which messages leave memory to a canister that could not be woken: it is tried again within a twentieth of
 * that. If it is still asleep then, they leave none to anybody for UNRESERVED_MS. Only small canisters have this, up to
 * a share of all memory: others may need for long what a large one lacks.
 */
const RESERVED_MS = 1_000;
const UNRESERVED_MS = 10_000;
const RESERVED_SHARE = 1 / 16;
/** Time after which a canister that is still to be woken has been tried again in vain. */
const AWAITED_MS = 50;
/** A message that has blocked its thread in vain lets no other do so for so many times as long. */
const REST_FACTOR = 9;
const LOOK_MS = 1;

/** The most pages that the table can count: 8 TiB. */
const PAGES_MAX = 2 ** 31 - 1;
export const MEMORY_BYTES_MAX = PAGES_MAX * PAGE_BYTES;

/**
 * Thrown if there is no room: nothing has been taken. A RangeError, since V8 throws one if the machine has no memory
 * left.
 */
export class OutOfMemory extends RangeError {
  override readonly name = 'OutOfMemory';
}

/** Returns the time by a clock that all threads share, and nobody sets, in 32 bits: it wraps after 49 days. */
function sharedNowMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return (seconds * 1_000 + nanoseconds / 1_000_000) | 0;
}

export class MemoryBudget {
  readonly #table: Int32Array<SharedArrayBuffer>;
  readonly #lane: number;
  readonly #pagesMax: number;
  readonly #highPages: number;
  readonly #little: MemoryQuestions;
  readonly #large: MemoryQuestions;
  /** Moment until which messages do not block this thread. */
  #restsUntilMs = 0;
  /** Frees `pages` pages of this thread's spare memory, or as many as it can; returns true if it has freed anything. */
  reclaim: (pages: number) => boolean = () => false;
  /** Gives a piece of this thread's unused memory back to the machine; returns false if no such memory waits. */
  givePieceBack: () => boolean = () => false;

  constructor(table: SharedArrayBuffer, executorIndex: number) {
    this.#table = new Int32Array(table);
    this.#lane = LANES + executorIndex;
    this.#pagesMax = numberAt(this.#table, BOUND, 'word of the budget');
    this.#highPages = Math.floor(this.#pagesMax * HIGH_SHARE);
    this.#little = new MemoryQuestions(this.#table, LITTLE_QUESTIONS);
    this.#large = new MemoryQuestions(this.#table, LARGE_QUESTIONS);
  }

  /** Makes a table for this many threads. */
  static table(bytesMax: number, lanes: number): SharedArrayBuffer {
    const table = new SharedArrayBuffer((LANES + lanes) * Int32Array.BYTES_PER_ELEMENT);
    new Int32Array(table)[BOUND] = Math.min(Math.floor(bytesMax / PAGE_BYTES), PAGES_MAX);
    return table;
  }

  /** Makes a budget for a thread without a bound. */
  static unbounded(): MemoryBudget {
    return new MemoryBudget(MemoryBudget.table(MEMORY_BYTES_MAX, 1), 0);
  }

  get bytesMax(): number {
    return this.#pagesMax * PAGE_BYTES;
  }

  /** Bytes counted in all threads. */
  get bytesUsed(): number {
    return this.#at(USED) * PAGE_BYTES;
  }

  /** Returns the bytes counted in one thread. */
  bytesOf(executorIndex: number): number {
    return this.#at(LANES + executorIndex) * PAGE_BYTES;
  }

  /** Number of bytes in use above which idle canisters are evicted. */
  get bytesHigh(): number {
    return this.#highPages * PAGE_BYTES;
  }

  /** Number of requests refused so far. */
  get refusals(): number {
    return this.#at(REFUSALS);
  }

  /**
   * Approximate number of pages that can still be taken: other threads take and give back at any time. Read by every
   * message.
   */
  get pagesLeft(): number {
    // `?? 0`: read for every message, at a constant place.
    const left = this.#pagesMax - (this.#table[USED] ?? 0);
    return left < 0 ? 0 : left;
  }

  /**
   * Gives memory back for a canister that is woken, as `givingBack` does. If there is no room for a small one, messages
   * leave so many pages free for a second: the main thread has idle canisters evicted, and tries again.
   */
  *makingRoomToWake(pages: number): Pieces {
    yield* this.givingBack(pages);
    const table = this.#table;
    if (this.hasRoom(pages)) {
      if (this.#at(RESERVED) === pages) Atomics.store(table, RESERVED, 0);
      return;
    }
    if (pages > this.#pagesMax * RESERVED_SHARE) return;
    if (this.#at(RESERVED) !== 0 && this.#reservedForMs < RESERVED_MS + UNRESERVED_MS) return;
    Atomics.store(table, RESERVED_AT, sharedNowMs());
    Atomics.store(table, RESERVED, pages);
  }

  /** Returns true if a message may take so many pages, as far as those go that are kept for others. */
  mayTake(pages: number): boolean {
    return pages === 0 || !this.#isReserved || this.pagesLeft - pages >= this.#at(RESERVED);
  }

  /** True if a canister waits for memory that nobody idle has. */
  get isAwaited(): boolean {
    return this.#isReserved && this.#reservedForMs >= AWAITED_MS;
  }

  /** Pages that a canister waits for, or waited for last. */
  get awaitedPages(): number {
    return this.#at(RESERVED);
  }

  get #isReserved(): boolean {
    return this.#at(RESERVED) !== 0 && this.#reservedForMs < RESERVED_MS;
  }

  /** Time since pages were reserved. */
  get #reservedForMs(): number {
    const ms = (sharedNowMs() - this.#at(RESERVED_AT)) | 0;
    return ms < 0 ? Number.POSITIVE_INFINITY : ms;
  }

  /** Takes pages if there is room for them, or if this thread can free enough; returns true if they were taken. */
  take(pages: number): boolean {
    if (pages <= 0) return true;
    return this.#takeAtOnce(pages) || (this.reclaim(pages) && this.#takeAtOnce(pages));
  }

  /**
   * Gives pieces of this thread's unused memory back until there is room for `pages` pages, or none is left. Whoever
   * can pause calls it before taking much: `take` does all of that work at once.
   */
  *givingBack(pages: number): Pieces {
    while (this.pagesLeft < pages && this.givePieceBack()) yield;
  }

  /** Returns true if there is room for pages, or if this thread can free enough: it does so. */
  hasRoom(pages: number): boolean {
    const hasRoom = this.take(pages);
    if (hasRoom) this.free(pages);
    return hasRoom;
  }

  /** Does the same as `take`, and waits for a moment until idle canisters are evicted for it. */
  takeOrWait(pages: number): boolean {
    if (this.take(pages)) return true;
    if (pages > this.#pagesMax) return false;
    const question = this.ask(pages);
    if (question === 0) return false;
    // Others give memory back all the time, and the answer may need this very thread.
    const untilMs = performance.now() + BLOCKING_WAIT_MS;
    do if (this.#takeAtOnce(pages)) return true;
    while (!this.isAnswered(question, LOOK_MS) && performance.now() < untilMs);
    return this.take(pages);
  }

  /**
   * Does the same for a message that cannot yield now. Such requests may be many, so that the thread blocks for a tenth
   * of its time at most: those that would be beyond are refused at once.
   */
  takeOrWaitRarely(pages: number): boolean {
    if (this.take(pages)) return true;
    const beganMs = performance.now();
    if (beganMs < this.#restsUntilMs) {
      this.ask(pages);
      return false;
    }
    if (this.takeOrWait(pages)) return true;
    const endedMs = performance.now();
    this.#restsUntilMs = endedMs + REST_FACTOR * (endedMs - beganMs);
    return false;
  }

  /** Does the same as `take`; throws OutOfMemory with `what` in its message if there is no room. */
  demand(pages: number, what: string): void {
    if (this.take(pages)) return;
    this.refused();
    throw new OutOfMemory(this.explain(what));
  }

  #takeAtOnce(pages: number): boolean {
    const table = this.#table;
    for (;;) {
      const used = Atomics.load(table, USED);
      // Bounded by PAGES_MAX, so that the sum stays a number of 32 bits.
      if (pages > this.#pagesMax - used) return false;
      if (Atomics.compareExchange(table, USED, used, used + pages) === used) {
        table[this.#lane] = numberAt(table, this.#lane, 'row of the budget') + pages;
        if (used < this.#highPages && used + pages >= this.#highPages) this.ask(0);
        return true;
      }
    }
  }

  /** Counts pages that were used without asking; only ever a few at a time. */
  add(pages: number): void {
    if (pages === 0) return;
    const table = this.#table;
    Atomics.add(table, USED, pages);
    table[this.#lane] = numberAt(table, this.#lane, 'row of the budget') + pages;
  }

  free(pages: number): void {
    this.add(-pages);
  }

  /** Counts a refusal. */
  refused(): void {
    Atomics.add(this.#table, REFUSALS, 1);
  }

  /** Returns the reason why there is no room for something. */
  explain(what: string): string {
    return `${what}: ${this.bytesUsed} of the ${this.bytesMax} bytes that all actors may have together (--memory-bytes) are in use`;
  }

  /** Frees everything that a thread had, after it has died. */
  forget(executorIndex: number): void {
    const table = this.#table;
    Atomics.sub(table, USED, Atomics.exchange(table, LANES + executorIndex, 0));
  }

  #at(place: number): number {
    return Atomics.load(this.#table, place);
  }

  // ---- asking the main thread to put idle canisters to sleep

  /** Asks for room for `pages` pages; returns the question's number, or 0 if nobody would answer. */
  ask(pages: number): number {
    const isLittle = pages > 0 && pages * PAGE_BYTES < LARGE_HEAP_BYTES;
    const asked = (isLittle ? this.#little : this.#large).ask(pages);
    // Never 0, which stands for no question.
    return asked === undefined ? 0 : 4 * asked + (isLittle ? IS_LITTLE : IS_LARGE);
  }

  /**
   * Returns true if a question has been answered: all that could be freed is free. Waits for the answer at most
   * `waitMs` milliseconds.
   */
  isAnswered(question: number, waitMs: number): boolean {
    return this.#questionsOf(question).isAnswered(numberOf(question), waitMs);
  }

  /** Returns true if there was not enough after a question that is answered. */
  wasInVain(question: number): boolean {
    return this.#questionsOf(question).wasInVain(numberOf(question));
  }

  #questionsOf(question: number): MemoryQuestions {
    return (question & 3) === IS_LITTLE ? this.#little : this.#large;
  }

  /**
   * Answers questions, in the main thread: `answer` is called with the bytes wanted for each question, and has freed
   * them when it resolves. It resolves with true if it is worth asking again: there was room for them. While a question
   * for much is answered, it may be called for one for little.
   */
  attend(answer: (bytesWanted: number) => Promise<unknown>): void {
    for (const each of [this.#little, this.#large]) each.attend((pages) => answer(pages * PAGE_BYTES));
  }

  /** Stops answering: all later requests are refused. */
  unattend(): void {
    for (const each of [this.#little, this.#large]) each.unattend();
  }
}

/** Kind of a question, in the lowest bits of its number. */
const IS_LITTLE = 1;
const IS_LARGE = 2;

function numberOf(question: number): number {
  return Math.floor(question / 4);
}
