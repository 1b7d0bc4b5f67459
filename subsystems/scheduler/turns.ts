/**
 * The time that a canister which has been woken keeps its place from those that wait for one. A busy canister has
 * 100 ms. One whose load took long has an eighth of that, idle or busy: so a client that asks again a moment after its
 * answer gets more than one answer for such a load, and whoever waits waits an eighth longer.
 *
 * Main thread; touches nodes of canisters that are awake.
 */
import type { Clock } from '../../kernel/index.ts';
import { lruNodeOf } from './lru-list.ts';
import { needOfAll } from './need.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';

/**
 * The time that a canister waits for a place before a busy one gives way, and that the busy one has had its own place
 * at least.
 */
export const PATIENCE_MS = 100;
/** A shorter load gives no turn, so that two small canisters that call each other do not wait for turns to end. */
const LONG_LOAD_MS = 800;
const SHARE_OF_LOAD = 8;
const IDLE_TURN_MS_MAX = 1_000;

export class Turns {
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes that a canister has been loaded since then; heartbeats and timers alone have no turns. */
  begin(canister: ScheduledCanister, loadedSinceMs: number): void {
    const node = lruNodeOf(canister);
    const nowMs = this.#clock.nowMs();
    const loadMs = nowMs - loadedSinceMs;
    node.isUsed = !isFree(canister);
    node.sinceMs = nowMs;
    const { workIfAny: work } = canister;
    if (loadMs >= LONG_LOAD_MS && work !== undefined && needOfAll(work) !== 'tick')
      node.turnEndMs = nowMs + Math.min(loadMs / SHARE_OF_LOAD, IDLE_TURN_MS_MAX);
  }

  /** Tells whether a canister has nothing to do, and no turn that goes on. */
  isIdle(canister: ScheduledCanister): boolean {
    return canister.isIdle && (canister.lruNode?.turnEndMs ?? 0) <= this.#clock.nowMs();
  }

  /** Tells whether a canister that may be busy has had its turn. */
  isOver({ lruNode }: ScheduledCanister): boolean {
    if (lruNode === undefined) return true;
    return Math.max(lruNode.sinceMs + PATIENCE_MS, lruNode.turnEndMs) <= this.#clock.nowMs();
  }
}

/** Nobody needs it to stay awake; `isSoon`: nobody will, when the composite queries that have begun have ended. */
export function isFree({ workIfAny: work }: ScheduledCanister, isSoon = false): boolean {
  return work === undefined || (work.changes === 0 && work.pins === 0 && (isSoon || work.frames === 0));
}
