/**
 * Tells how much a task that waits for a sleeping canister needs that canister. Main thread; reads what waits.
 */
import type { PendingWork, QueuedTask } from './scheduled-canister.ts';

export type Need =
  /** Not even a place may be waited for: whoever waits for this keeps a place meanwhile. */
  | 'now'
  /** Somebody waits for it, in line with others. */
  | 'turn'
  /** Nobody waits for it: heartbeats and timers, and the calls that they have made. */
  | 'tick';

/**
 * A composite query of another canister waits for what is urgent, and keeps its place among the live ones meanwhile.
 * Responses, too: a query one of whose callbacks has trapped keeps none, and ends only when the rest of its calls have
 * been answered.
 */
export function needOf(waiting: QueuedTask): Need {
  switch (waiting.kind) {
    case 'start':
    case 'inspect':
    case 'system':
      return needIn(waiting.context);
    case 'response':
      return needIn(waiting.call.context);
    case 'dropFrame':
    case 'credit':
      return 'turn';
  }
}

function needIn({ evaluation, isOfTick }: { evaluation: { depth: number } | undefined; isOfTick: boolean }): Need {
  if (evaluation !== undefined && evaluation.depth > 0) return 'now';
  return isOfTick ? 'tick' : 'turn';
}

/** The greatest need of all that waits. */
export function needOfAll({ system, input, queries, interrupted }: PendingWork): Need {
  if (queries.some((waiting) => needOf(waiting) === 'now')) return 'now';
  const isOther = (waiting: QueuedTask): boolean => needOf(waiting) !== 'tick';
  const isTick = !interrupted.some(isOther) && ![input, queries, system].some((queue) => queue.some(isOther));
  return isTick ? 'tick' : 'turn';
}
