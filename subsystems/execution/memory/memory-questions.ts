/**
 * Questions of executor threads for memory, and the main thread's answers. Each question is for a number of pages;
 * those that come while one is answered are answered together, for the most that any of them wants.
 *
 * All threads at once: everything is in shared memory, and touched with `Atomics`. Questions have numbers of 32 bits,
 * which wrap.
 */

/** Places in the table, from `base` on. */
const ASKED = 0;
const ANSWERED = 1;
/** Nonzero if the main thread answers questions. */
const IS_ATTENDED = 2;
/** The most pages that any thread wants. */
const WANTED = 3;
/** The last question after which there was not enough. */
const IN_VAIN = 4;
export const QUESTIONS_WORDS = 5;

/** Has made room for so many pages when it resolves; with true if there was room for all of them. */
type Answer = (pagesWanted: number) => Promise<unknown>;

export class MemoryQuestions {
  readonly #table: Int32Array<SharedArrayBuffer>;
  readonly #base: number;
  #answer: Answer | undefined;

  constructor(table: Int32Array<SharedArrayBuffer>, base: number) {
    this.#table = table;
    this.#base = base;
  }

  /** Asks for room for `pages` pages; returns the question's number, or undefined if nobody would answer. */
  ask(pages: number): number | undefined {
    const table = this.#table;
    if (this.#at(IS_ATTENDED) === 0) return undefined;
    let wanted = this.#at(WANTED);
    while (wanted < pages) {
      const seen = Atomics.compareExchange(table, this.#base + WANTED, wanted, pages);
      if (seen === wanted) break;
      wanted = seen;
    }
    const question = (Atomics.add(table, this.#base + ASKED, 1) + 1) | 0;
    Atomics.notify(table, this.#base + ASKED);
    return question;
  }

  /** Returns true if a question has been answered; waits for that at most `waitMs` milliseconds. */
  isAnswered(question: number, waitMs: number): boolean {
    const answered = this.#at(ANSWERED);
    if (((answered - question) | 0) >= 0) return true;
    Atomics.wait(this.#table, this.#base + ANSWERED, answered, waitMs);
    return ((this.#at(ANSWERED) - question) | 0) >= 0;
  }

  /** Returns true if there was not enough after a question that is answered. */
  wasInVain(question: number): boolean {
    return ((this.#at(IN_VAIN) - question) | 0) >= 0;
  }

  /** Answers questions, in the main thread. */
  attend(answer: Answer): void {
    const isAttended = this.#answer !== undefined;
    this.#answer = answer;
    if (isAttended) return;
    Atomics.store(this.#table, this.#base + IS_ATTENDED, 1);
    void this.#attend();
  }

  async #attend(): Promise<void> {
    const table = this.#table;
    const base = this.#base;
    for (let seen = this.#at(ASKED); ;) {
      const waiting = Atomics.waitAsync(table, base + ASKED, seen);
      if (waiting.async) await waiting.value;
      if (this.#at(IS_ATTENDED) === 0) return;
      seen = this.#at(ASKED);
      const isEnough = await this.#answer?.(Atomics.exchange(table, base + WANTED, 0));
      if (isEnough !== true) Atomics.store(table, base + IN_VAIN, seen);
      Atomics.store(table, base + ANSWERED, seen);
      Atomics.notify(table, base + ANSWERED);
    }
  }

  /** Stops answering: all later requests are refused. */
  unattend(): void {
    const table = this.#table;
    const base = this.#base;
    Atomics.store(table, base + IS_ATTENDED, 0);
    Atomics.add(table, base + ASKED, 1);
    Atomics.notify(table, base + ASKED);
    Atomics.store(table, base + ANSWERED, this.#at(ASKED));
    Atomics.notify(table, base + ANSWERED);
  }

  #at(place: number): number {
    return Atomics.load(this.#table, this.#base + place);
  }
}
