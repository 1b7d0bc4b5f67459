import { numberAt } from '../../../kernel/index.ts';
/**
 * Work that executor threads have done so far, and the shared memory that they have, for operators.
 *
 * Shared memory, so that no thread has to be asked: a thread that executes for seconds answers no question, and its
 * numbers are wanted most then. Each number is one 64-bit float in a row of the thread's own, written by that thread
 * alone; 64-bit machines write one in one piece. Numbers of one row are not of the very same moment.
 *
 * Both sides: an executor thread writes its row, the main thread reads all of them.
 */

/** Places in a row. Counts first; a thread that takes the place of a dead one continues them. */
const BUSY_MS = 0;
const STEPS = 1;
const INSTRUCTIONS = 2;
const MEMORY = 3;
/** Two cache lines, so that threads do not write to the same one. */
const ROW_NUMBERS = 16;

/** Kinds of memory that a thread has besides its heaps, in the order of a row. */
export const MEMORY_KINDS = ['stable', 'journals', 'queries', 'spare', 'garbage'] as const;
export type MemoryKind = (typeof MEMORY_KINDS)[number];

export class ExecutorBook {
  readonly #numbers: Float64Array<SharedArrayBuffer>;

  constructor(table: SharedArrayBuffer, executorIndex: number) {
    const bytes = ROW_NUMBERS * Float64Array.BYTES_PER_ELEMENT;
    this.#numbers = new Float64Array(table, executorIndex * bytes, ROW_NUMBERS);
  }

  /** Makes a table for this many threads. */
  static table(lanes: number): SharedArrayBuffer {
    return new SharedArrayBuffer(lanes * ROW_NUMBERS * Float64Array.BYTES_PER_ELEMENT);
  }

  // ---- the thread's side

  /** Adds the milliseconds that the thread has worked since the last call. */
  wasBusy(ms: number): void {
    this.#add(BUSY_MS, ms);
  }

  /** Counts a step that has ended. */
  ended(instructions: number): void {
    this.#add(STEPS, 1);
    this.#add(INSTRUCTIONS, instructions);
  }

  /** Sets the present bytes of one kind of memory. */
  has(kind: number, bytes: number): void {
    this.#numbers[MEMORY + kind] = bytes;
  }

  #add(place: number, amount: number): void {
    this.#numbers[place] = numberAt(this.#numbers, place, 'number of the row') + amount;
  }

  // ---- the main thread's side

  get busySeconds(): number {
    return numberAt(this.#numbers, BUSY_MS, 'number of the row') / 1000;
  }

  get steps(): number {
    return numberAt(this.#numbers, STEPS, 'number of the row');
  }

  get instructions(): number {
    return numberAt(this.#numbers, INSTRUCTIONS, 'number of the row');
  }

  bytesOf(kind: MemoryKind): number {
    return numberAt(this.#numbers, MEMORY + MEMORY_KINDS.indexOf(kind), 'number of the row');
  }

  /** Clears the memory of a thread that has died. */
  forgetMemory(): void {
    this.#numbers.fill(0, MEMORY);
  }
}
