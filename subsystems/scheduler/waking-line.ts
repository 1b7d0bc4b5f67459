/**
 * Canisters that wait to be woken, in the order they came. There are three lanes, by what each of them may have to wait
 * for: whoever waits for something is passed by those that need nothing of it, and by nobody else. So nobody is passed
 * for ever.
 *
 * Main thread; lists.
 */
import { Queue } from './queue.ts';
import type { Lack } from './live-places.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';

/** Small ones do not wait for memory; oversized ones have a place of their own (live-places.ts). */
export const LANES = ['small', 'large', 'oversized'] as const;
export type Lane = (typeof LANES)[number];

interface Waiter {
  readonly canister: ScheduledCanister;
  readonly lane: Lane;
  readonly ticket: number;
  readonly sinceMs: number;
}

/** Who waits for the same, and is not tried where the first of them has to wait. */
export const WAITING_FOR: Readonly<Record<Lack, readonly Lane[]>> = {
  place: LANES,
  bytes: ['small', 'large'],
  oversizedPlace: ['oversized'],
  memory: ['large', 'oversized'],
};

export class WakingLine {
  readonly #lanes: Readonly<Record<Lane, Queue<Waiter>>> = {
    small: new Queue(),
    large: new Queue(),
    oversized: new Queue(),
  };

  /** Who is not here any more is still in the lane until it comes to the front. */
  readonly #waiters = new Map<ScheduledCanister, Waiter>();
  #tickets = 0;

  get size(): number {
    return this.#waiters.size;
  }

  has(canister: ScheduledCanister): boolean {
    return this.#waiters.has(canister);
  }

  add(canister: ScheduledCanister, lane: Lane, sinceMs = 0): void {
    canister.expect('wait to be woken', 'evicted');
    const waiter = { canister, lane, ticket: ++this.#tickets, sinceMs };
    this.#waiters.set(canister, waiter);
    this.#lanes[lane].push(waiter);
  }

  remove(canister: ScheduledCanister): boolean {
    return this.#waiters.delete(canister);
  }

  /** Who came first of those in lanes that are not closed. */
  first(closed: ReadonlySet<Lane>): Waiter | undefined {
    let first: Waiter | undefined;
    for (const lane of LANES) {
      if (closed.has(lane)) continue;
      const head = this.headOf(lane);
      if (head !== undefined && (first === undefined || head.ticket < first.ticket)) first = head;
    }
    return first;
  }

  headOf(lane: Lane): Waiter | undefined {
    const queue = this.#lanes[lane];
    for (let head = queue.peek(); head !== undefined; head = queue.peek()) {
      if (this.#waiters.get(head.canister) === head) return head;
      queue.shift();
    }
    return undefined;
  }
}
