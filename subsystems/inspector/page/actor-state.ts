import type { ListedActor } from './api.ts';

/**
 * Returns the actor's state. `dry`: running, but with too few cycles for a message; `asleep`: running, but not in
 * memory.
 */
export function stateOf({ status, live, dry }: Pick<ListedActor, 'status' | 'live' | 'dry'>): string {
  if (status !== 'running') return status;
  return dry ? 'dry' : live ? 'running' : 'asleep';
}
