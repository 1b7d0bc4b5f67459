/**
 * Works out what a node does next with its shard processes from what it sees: a pure function, which every node asks
 * for itself, again and again.
 *
 * - A shard without an owner, or that of a node that may be lost, needs a process that waits: the *spares*.
 * - At rest the numbers of shards of two nodes differ by one at most, so none has more than its share,
 *   ceil(shards / nodes). The node with the most hands one over, to a node that has two less and a process that waits;
 *   each such move makes the sum of the squares smaller, so no shard goes to and fro.
 * - One shard moves at a time: only where all shards have owners, and of two nodes with as many the one with the lesser
 *   name.
 */
export interface GroupView {
  /** Name of this node's group. */
  readonly own: string;
  /** Groups of the owners, by shard; undefined: a shard has no owner. */
  readonly owners: readonly (string | undefined)[];
  /** Numbers of processes that wait, by their groups. */
  readonly waiting: ReadonlyMap<string, number>;
  /** Shard processes of this node that own nothing yet and are not ending. */
  readonly spares: number;
  /** Shard processes of this node that own a shard and are not ending. */
  readonly owning: number;
  /** Shard processes of this node that were told to end, and have not. */
  readonly ending: number;
  /** Processes that this node may have, with its first. */
  readonly processesMax: number;
  /** Spares that this node may have. */
  readonly sparesMax: number;
  /** True if owners and waiting processes have been the same for a while. */
  readonly isSettled: boolean;
}

/** `endSpare`: a spare is one too many. `handOver`: one of the shard processes that own a shard is to end. */
export type GroupStep = 'rest' | 'startSpare' | 'endSpare' | 'handOver';

export function planGroup(view: GroupView): GroupStep {
  const { spares, isSettled } = view;
  const wanted = sparesWanted(view);
  if (spares < wanted) return 'startSpare';
  if (!isSettled) return 'rest';
  if (hasToHandOver(view)) return 'handOver';
  return spares > wanted ? 'endSpare' : 'rest';
}

/** Returns the numbers of shards by group; each group that has a process is there. */
export function shardsByGroup({ owners, waiting }: Pick<GroupView, 'owners' | 'waiting'>): Map<string, number> {
  const counts = new Map<string, number>([...waiting.keys()].map((group) => [group, 0]));
  for (const group of owners) if (group !== undefined) counts.set(group, (counts.get(group) ?? 0) + 1);
  return counts;
}

/** Returns the number of spares that this node is to have: enough for its part of the largest other node's shards. */
export function sparesWanted(view: GroupView): number {
  const { own, owners, owning, ending, processesMax, sparesMax } = view;
  const others = [...shardsByGroup(view)].filter(([group]) => group !== own).map(([, count]) => count);
  const ownerless = owners.filter((group) => group === undefined).length;
  const survivors = Math.max(1, others.length);
  const needed = Math.max(ownerless, Math.ceil(Math.max(0, ...others) / survivors));
  const room = processesMax - 1 - owning - ending;
  return Math.max(0, Math.min(needed, sparesMax, room));
}

function hasToHandOver({ own, owners, waiting, owning, ending }: GroupView): boolean {
  if (ending > 0 || owning === 0 || owners.includes(undefined)) return false;
  const counts = shardsByGroup({ owners, waiting });
  const mine = counts.get(own) ?? 0;
  // The store is behind: this node's own processes know better.
  if (mine !== owning + 1) return false;
  let hasTaker = false;
  for (const [group, count] of counts) {
    if (group === own) continue;
    if (count > mine || (count === mine && group < own)) return false;
    hasTaker ||= count <= mine - 2 && (waiting.get(group) ?? 0) > 0;
  }
  return hasTaker;
}
