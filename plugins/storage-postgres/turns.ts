/**
 * Which of the processes that wait takes which free shard. All of them see nearly the same, so each works out for all
 * who goes first: the shards go one after the other to a process of the group that has the fewest. So the survivors
 * of a lost node take its shards over side by side, and a shard that a node hands over goes to one that has less.
 *
 * Nobody relies on it: who comes second at a shard finds it taken, and one whose turn was left out takes it a little
 * later.
 */
import type { WaitingProcess } from '../api/storage.ts';

interface Turns {
  /** Groups of the shards' owners, one for each shard that is owned. */
  readonly groups: readonly string[];
  readonly waiting: readonly WaitingProcess[];
}

/** Returns the place, among the free shards, of the one that a process is to take; undefined: others go first. */
export function turnOf(process: string, freeCount: number, { groups, waiting }: Turns): number | undefined {
  const counts = new Map<string, number>();
  for (const group of groups) counts.set(group, (counts.get(group) ?? 0) + 1);
  const left = waiting.toSorted(inOrder);
  for (let place = 0; place < freeCount; place++) {
    const next = left.reduce<WaitingProcess | undefined>((best, each) => {
      const isFewer = best === undefined || (counts.get(each.group) ?? 0) < (counts.get(best.group) ?? 0);
      return isFewer ? each : best;
    }, undefined);
    if (next === undefined) return undefined;
    if (next.process === process) return place;
    left.splice(left.indexOf(next), 1);
    counts.set(next.group, (counts.get(next.group) ?? 0) + 1);
  }
  return undefined;
}

/** A node's first process comes before those that it has started: a node without a shard serves nobody. */
function inOrder(a: WaitingProcess, b: WaitingProcess): number {
  const first = Number(a.process !== a.group) - Number(b.process !== b.group);
  return first === 0 ? Number(a.process > b.process) - Number(a.process < b.process) : first;
}
