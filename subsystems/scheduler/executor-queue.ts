/**
 * The canister whose turn it is, for each queue (executor thread).
 *
 * The window is how far the main thread runs ahead of an executor: large enough that an executor never waits for the
 * main thread while there is work (a wake-up costs more than a message), small enough that turns stay fair.
 *
 * Main thread; counts and lists.
 */
import type { ScheduledCanister, QueuedTask } from './scheduled-canister.ts';
import { at } from '../../kernel/index.ts';
import { Queue } from './queue.ts';
import type { ScheduledExecution } from './scheduled-execution.ts';

/** Tasks handed to one executor and not yet ended. A task of a few µs each: about a millisecond of work ahead. */
const EXECUTOR_WINDOW = 128;

interface Starter {
  /** Hands a task to its executor. */
  start(canister: ScheduledCanister, queue: ExecutorQueue, waiting: QueuedTask): void;
}

/** One executor thread as the scheduler sees it. */
export class ExecutorQueue {
  executing = 0;
  /** Canisters with something to do, in the order of their turns. */
  readonly #turns = new Queue<ScheduledCanister>();
  readonly #starter: Starter;

  constructor(starter: Starter) {
    this.#starter = starter;
  }

  giveTurn(canister: ScheduledCanister): void {
    if (!canister.hasWork || canister.work.hasTurn) return;
    canister.work.hasTurn = true;
    this.#turns.push(canister);
  }

  /** Gives out turns while the window has room. */
  fill(): void {
    while (this.executing < EXECUTOR_WINDOW) {
      const canister = this.#turns.shift();
      if (canister === undefined) return;
      canister.work.hasTurn = false;
      const waiting = canister.take();
      // Undefined: what comes first waits for an execution that is under way; its end gives the next turn.
      if (waiting === undefined) continue;
      this.#starter.start(canister, this, waiting);
      this.giveTurn(canister);
    }
  }
}

/** Queues of all executors, in the order of their numbers. */
export class ExecutorQueues {
  readonly #execution: Pick<ScheduledExecution, 'executorOf'>;
  readonly #queues: readonly ExecutorQueue[];

  constructor(execution: Pick<ScheduledExecution, 'executorOf' | 'executorCount'>, starter: Starter) {
    this.#execution = execution;
    this.#queues = Array.from({ length: execution.executorCount }, () => new ExecutorQueue(starter));
  }

  of({ handle }: ScheduledCanister): ExecutorQueue {
    return at(this.#queues, this.#execution.executorOf(handle), 'queue');
  }
}
