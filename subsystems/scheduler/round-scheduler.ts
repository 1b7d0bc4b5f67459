/**
 * Which message runs next.
 *
 * A canister's messages run in the order they came. Canisters of one lane (executor thread) take turns: when more is
 * waiting than the lane's window holds, each gets one message into the window before any gets its second, so a busy
 * canister cannot starve the others. While the window has room, a message goes straight through, and nothing is queued.
 *
 * The window is how far the main thread runs ahead of an executor: large enough that an executor never waits for the
 * main thread while there is work (a wake-up costs more than a message), small enough that turns stay fair.
 */
import type { CanisterMessage, Execution, Outcome } from '../execution/index.ts';
import type { Scheduler } from './index.ts';
import { Queue } from './queue.ts';

/** Messages handed to one executor and not yet ended. A message of a few µs each: about a millisecond of work ahead. */
const LANE_WINDOW = 128;
/** Messages waiting for one canister; then `unavailable` (decisions.md, "Metering and limits"). */
const QUEUE_MESSAGES_MAX = 10_000;

const SYS_TRANSIENT = 2;

interface Waiting {
  readonly message: CanisterMessage;
  readonly done: (outcome: Outcome) => void;
}

/** One executor thread as the scheduler sees it. */
class Lane {
  executing = 0;
  /** Canisters with waiting messages, in the order of their turns. */
  readonly turns = new Queue<Queue<Waiting>>();
}

const unavailable = (message: string): Outcome => ({
  kind: 'unavailable',
  code: SYS_TRANSIENT,
  message,
  instructions: 0,
  charge: 0,
});

export class RoundScheduler implements Scheduler {
  readonly #execution: Execution;
  readonly #lanes: readonly Lane[];
  readonly #queues = new Map<number, Queue<Waiting>>();
  #executing = 0;
  #isDraining = false;
  #drained: (() => void) | undefined;

  constructor(execution: Execution) {
    this.#execution = execution;
    this.#lanes = Array.from({ length: execution.lanes }, () => new Lane());
  }

  deliver(message: CanisterMessage): Promise<Outcome> {
    return new Promise((resolve) => {
      this.#accept({ message, done: resolve });
    });
  }

  drain(): Promise<void> {
    this.#isDraining = true;
    this.#execution.refuseNew();
    for (const queue of this.#queues.values()) {
      for (let waiting = queue.shift(); waiting !== undefined; waiting = queue.shift()) {
        waiting.done(unavailable('the server is stopping'));
      }
    }
    this.#queues.clear();
    if (this.#executing === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#drained = resolve;
    });
  }

  #accept(waiting: Waiting): void {
    if (this.#isDraining) {
      waiting.done(unavailable('the server is stopping'));
      return;
    }
    const { handle } = waiting.message;
    const lane = this.#laneOf(handle);
    const queue = this.#queues.get(handle);
    if (queue === undefined && lane.executing < LANE_WINDOW && lane.turns.length === 0) {
      this.#start(lane, waiting);
      return;
    }
    if (queue === undefined) {
      const fresh = new Queue<Waiting>();
      fresh.push(waiting);
      this.#queues.set(handle, fresh);
      lane.turns.push(fresh);
      this.#fill(lane);
      return;
    }
    if (queue.length >= QUEUE_MESSAGES_MAX) {
      waiting.done(
        unavailable(`the actor's queue holds ${QUEUE_MESSAGES_MAX} of ${QUEUE_MESSAGES_MAX} messages: try again later`),
      );
      return;
    }
    queue.push(waiting);
  }

  #laneOf(handle: number): Lane {
    const lane = this.#lanes[this.#execution.laneOf(handle)];
    if (lane === undefined) throw new Error(`canister ${handle} has no lane`);
    return lane;
  }

  #start(lane: Lane, waiting: Waiting): void {
    lane.executing++;
    this.#executing++;
    this.#execution.execute(waiting.message, (outcome) => {
      lane.executing--;
      this.#executing--;
      waiting.done(outcome);
      if (lane.turns.length > 0) this.#fill(lane);
      if (this.#executing === 0) this.#drained?.();
    });
  }

  /** Gives out turns while the lane's window has room. */
  #fill(lane: Lane): void {
    while (lane.executing < LANE_WINDOW) {
      const queue = lane.turns.shift();
      if (queue === undefined) return;
      const waiting = queue.shift();
      if (waiting === undefined) continue;
      if (queue.length > 0) lane.turns.push(queue);
      else this.#queues.delete(waiting.message.handle);
      this.#start(lane, waiting);
    }
  }
}
