/**
 * Tables that the main thread and its executor threads share: the common memory budget, the work and memory of each
 * thread, and the canisters whose tasks are recalled. A thread that executes for seconds answers no question, so all of
 * it is shared memory.
 *
 * Main thread; reads what the threads write.
 */
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { ExecutorFigures, MemoryByKind } from '../index.ts';
import { MEMORY_BYTES_MAX, MemoryBudget } from '../memory/memory-budget.ts';
import { ExecutorBook, MEMORY_KINDS, type MemoryKind } from '../wire/executor-book.ts';
import type { ExecutorOptions } from '../wire/port-messages.ts';
import { Recalls } from '../wire/recalls.ts';
import { unfit } from './refusals.ts';

export class ExecutorTables {
  /** Tables as every thread gets them. */
  readonly shared: Pick<ExecutorOptions, 'memory' | 'book' | 'recalls'>;
  readonly budget: MemoryBudget;
  readonly recalls: Recalls;
  readonly #books: readonly ExecutorBook[];

  /** `memoryBytes` is the memory that all canisters may have together. */
  constructor(executors: number, memoryBytes: number = MEMORY_BYTES_MAX) {
    this.shared = {
      memory: MemoryBudget.table(memoryBytes, executors + 1),
      book: ExecutorBook.table(executors),
      recalls: Recalls.table(executors),
    };
    this.budget = new MemoryBudget(this.shared.memory, executors);
    this.recalls = new Recalls(this.shared.recalls);
    this.#books = Array.from(
      { length: executors },
      (_, executorIndex) => new ExecutorBook(this.shared.book, executorIndex),
    );
  }

  holdMemory(bytes: number): () => void {
    const pages = Math.ceil(bytes / PAGE_BYTES);
    const { budget } = this;
    if (!budget.take(pages))
      throw unfit(budget.explain(`there is no room for the ${bytes} bytes of the actor's heap`), true);
    return () => budget.free(pages);
  }

  /** `underWayOf` returns the number of tasks that an executor has been given and has not ended. */
  figuresOf(underWayOf: (executorIndex: number) => number): ExecutorFigures['executors'] {
    return this.#books.map(({ busySeconds, steps, instructions }, executorIndex) => ({
      busySeconds,
      steps,
      instructions,
      underWay: underWayOf(executorIndex),
    }));
  }

  memoryByKind(): MemoryByKind {
    const sum = (kind: MemoryKind): number => this.#books.reduce((bytes, book) => bytes + book.bytesOf(kind), 0);
    const rest = Object.fromEntries(MEMORY_KINDS.map((kind) => [kind, sum(kind)])) as Record<MemoryKind, number>;
    const waking = this.budget.bytesOf(this.#books.length);
    const others = waking + MEMORY_KINDS.reduce((bytes, kind) => bytes + rest[kind], 0);
    // Threads write down their memory a moment after the budget has counted it.
    return { heaps: Math.max(0, this.budget.bytesUsed - others), waking, ...rest };
  }

  /** Forgets the memory of a thread that has died. */
  forget(executorIndex: number): void {
    this.budget.forget(executorIndex);
    this.#books[executorIndex]?.forgetMemory();
  }
}
