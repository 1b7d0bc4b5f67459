/**
 * What the actors of all executors may have of the machine's memory together: `--memory-bytes` (ADR 28).
 *
 * One table in shared memory, in pages of 4 KiB. Every thread has a view of it and takes what it is about to use; where
 * that does not fit, whoever asked is refused, which an actor sees as growth that fails. Counted are heaps, written stable
 * memory, what messages keep to be undone, spare heaps, what is kept of sleeping canisters, and garbage until it is collected: what each thread has in all is in
 * a place of its own, so that it can be given back when the thread dies.
 *
 * Before a thread is refused it collects its own garbage, and where idle canisters can be put to sleep it may ask the main
 * thread for that (`ask`) and look again when it is answered.
 *
 * All executor threads and the main thread at once: everything shared is touched with `Atomics`.
 */

import { numberAt } from '../../../kernel/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';

/** Part of the bound from which on idle canisters are put to sleep, so that hardly anybody has to wait for that. */
const HIGH_SHARE = 7 / 8;

/** Places in the table. */
const USED = 0;
const BOUND = 1;
const REFUSALS = 2;
const ASKED = 3;
const ANSWERED = 4;
/** Whether anybody answers. */
const IS_ATTENDED = 5;
/** The most pages that anybody wants. */
const WANTED = 6;
const LANES = 8;

/** How long a thread stands still for idle canisters to be put to sleep: relief may need that thread. */
export const BLOCKING_WAIT_MS = 50;

/** What the table can count: 8 TiB. */
const PAGES_MAX = 2 ** 31 - 1;
export const MEMORY_BYTES_MAX = PAGES_MAX * PAGE_BYTES;

/** There is no room for it: nothing has been taken. A RangeError, as V8 throws one where the machine has no memory left. */
export class OutOfMemory extends RangeError {
  override readonly name = 'OutOfMemory';
}

export class MemoryBudget {
  readonly #table: Int32Array<SharedArrayBuffer>;
  readonly #lane: number;
  readonly #pagesMax: number;
  readonly #highPages: number;
  #answer: ((bytesWanted: number) => Promise<void>) | undefined;
  /** Frees what this thread can spare, `pages` of them if it can; whether it has freed anything. */
  reclaim: (pages: number) => boolean = () => false;

  constructor(table: SharedArrayBuffer, lane: number) {
    this.#table = new Int32Array(table);
    this.#lane = LANES + lane;
    this.#pagesMax = numberAt(this.#table, BOUND, 'word of the budget');
    this.#highPages = Math.floor(this.#pagesMax * HIGH_SHARE);
  }

  /** A table for so many threads. */
  static table(bytesMax: number, lanes: number): SharedArrayBuffer {
    const table = new SharedArrayBuffer((LANES + lanes) * Int32Array.BYTES_PER_ELEMENT);
    new Int32Array(table)[BOUND] = Math.min(Math.floor(bytesMax / PAGE_BYTES), PAGES_MAX);
    return table;
  }

  /** For a thread whose memory nobody bounds. */
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

  /** Bytes counted in one thread. */
  bytesOf(lane: number): number {
    return this.#at(LANES + lane) * PAGE_BYTES;
  }

  /** With more in use, idle canisters are put to sleep. */
  get bytesHigh(): number {
    return this.#highPages * PAGE_BYTES;
  }

  /** How often somebody was refused. */
  get refusals(): number {
    return this.#at(REFUSALS);
  }

  /** Pages that can still be taken, about: other threads take and give back at any time. Every message asks. */
  get pagesLeft(): number {
    // `?? 0`: for every message, at a constant place.
    const left = this.#pagesMax - (this.#table[USED] ?? 0);
    return left < 0 ? 0 : left;
  }

  /** Takes pages if there is room for them; what this thread can spare makes room. */
  take(pages: number): boolean {
    if (pages <= 0) return true;
    return this.#takeAtOnce(pages) || (this.reclaim(pages) && this.#takeAtOnce(pages));
  }

  /** The same; for a moment it waits that idle canisters are put to sleep for it. */
  takeOrWait(pages: number): boolean {
    if (this.take(pages)) return true;
    if (pages > this.#pagesMax) return false;
    const question = this.ask(pages);
    if (question === 0) return false;
    this.isAnswered(question, BLOCKING_WAIT_MS);
    return this.take(pages);
  }

  /** As `take`; throws OutOfMemory, which says for `what`, when there is no room. */
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

  /** Counts what has come to be used without being asked for: little at a time. */
  add(pages: number): void {
    if (pages === 0) return;
    const table = this.#table;
    Atomics.add(table, USED, pages);
    table[this.#lane] = numberAt(table, this.#lane, 'row of the budget') + pages;
  }

  giveBack(pages: number): void {
    this.add(-pages);
  }

  /** Somebody was told that there is no room. */
  refused(): void {
    Atomics.add(this.#table, REFUSALS, 1);
  }

  /** Why there is no room for something. */
  explain(what: string): string {
    return `${what}: ${this.bytesUsed} of the ${this.bytesMax} bytes that all actors may have together (--memory-bytes) are in use`;
  }

  /** Everything that a thread had is free: it has died. */
  forget(lane: number): void {
    const table = this.#table;
    Atomics.sub(table, USED, Atomics.exchange(table, LANES + lane, 0));
  }

  #at(place: number): number {
    return Atomics.load(this.#table, place);
  }

  // ---- asking the main thread to put idle canisters to sleep

  /** Asks for room for so many pages; the number of the question, or 0: nobody would answer. */
  ask(pages: number): number {
    const table = this.#table;
    if (this.#at(IS_ATTENDED) === 0) return 0;
    let wanted = this.#at(WANTED);
    while (wanted < pages) {
      const seen = Atomics.compareExchange(table, WANTED, wanted, pages);
      if (seen === wanted) break;
      wanted = seen;
    }
    const question = Atomics.add(table, ASKED, 1) + 1;
    Atomics.notify(table, ASKED);
    return question;
  }

  /** Whether a question has been answered: what could be done is done. Waits for that, at most so many milliseconds. */
  isAnswered(question: number, waitMs: number): boolean {
    const answered = this.#at(ANSWERED);
    // Numbers of 32 bits that go round.
    if (((answered - question) | 0) >= 0) return true;
    Atomics.wait(this.#table, ANSWERED, answered, waitMs);
    return ((this.#at(ANSWERED) - question) | 0) >= 0;
  }

  /** The main thread's side: `answer` is called with the bytes wanted whenever somebody asks, and has done so when it resolves. */
  attend(answer: (bytesWanted: number) => Promise<void>): void {
    const isAttended = this.#answer !== undefined;
    this.#answer = answer;
    if (isAttended) return;
    Atomics.store(this.#table, IS_ATTENDED, 1);
    void this.#attend();
  }

  async #attend(): Promise<void> {
    const table = this.#table;
    for (let seen = this.#at(ASKED); ;) {
      const waiting = Atomics.waitAsync(table, ASKED, seen);
      if (waiting.async) await waiting.value;
      if (this.#at(IS_ATTENDED) === 0) return;
      seen = this.#at(ASKED);
      await this.#answer?.(Atomics.exchange(table, WANTED, 0) * PAGE_BYTES);
      Atomics.store(table, ANSWERED, seen);
      Atomics.notify(table, ANSWERED);
    }
  }

  /** Nobody answers any more: everybody who asks is refused. */
  unattend(): void {
    const table = this.#table;
    Atomics.store(table, IS_ATTENDED, 0);
    Atomics.add(table, ASKED, 1);
    Atomics.notify(table, ASKED);
    Atomics.store(table, ANSWERED, this.#at(ASKED));
    Atomics.notify(table, ANSWERED);
  }
}
