import { type MovedActor, MovedActors, type ServiceStore, type ShardOwner } from '../../subsystems/cluster/index.ts';

/** Facts that servers of one service share, in memory: each server has a store of its own over it. */
export class MemoryService {
  readonly shards: number;
  readonly #owners: (ShardOwner | undefined)[];
  readonly names = new Map<string, Uint8Array>();
  readonly #secrets = new Map<string, Uint8Array>();
  /** Moves, in order. */
  readonly moves: MovedActor[] = [];
  #epoch = 0;
  /** Set to have the service not answer. */
  failure: Error | undefined;
  /** Names that were looked up. */
  readonly asked: string[] = [];

  constructor(shards: number) {
    this.shards = shards;
    this.#owners = Array.from({ length: shards }, () => undefined);
  }

  /** Returns the store of a server that owns this shard from now on. */
  join(shard: number): ServiceStore {
    const node = `node-${++this.#epoch}`;
    const epoch = this.#epoch;
    const answer = async <T>(value: T): Promise<T> => {
      if (this.failure !== undefined) throw this.failure;
      return value;
    };
    let told = 0;
    return {
      moved: new MovedActors(),
      newMoves: async () => {
        const moves = await answer(this.moves.slice(told));
        told += moves.length;
        return moves;
      },
      settleTables: () => answer(undefined),
      move: ({ id }, to) => {
        const move = { id, shard: to.shard, version: this.moves.length + 1 };
        this.moves.push(move);
        return answer(move);
      },
      shards: this.shards,
      shard,
      node,
      waiting: [],
      join: () => undefined,
      dismiss: async (_process, gone) => (gone === undefined ? undefined : this.leave(gone)),
      announce: async (address) => {
        this.#owners[shard] = { shard, node, group: node, holder: `test ${node}`, address, epoch, silentMs: 0 };
      },
      owners: () => answer([...this.#owners]),
      takeName: (name, id) => answer(this.names.get(name) ?? (this.names.set(name, id), id)),
      dropName: async (name) => void this.names.delete(name),
      findName: (name) => {
        this.asked.push(name);
        return answer(this.names.get(name));
      },
      namesOf: () => answer(this.names),
      secret: (name, fresh) => answer(this.#secrets.get(name) ?? (this.#secrets.set(name, fresh), fresh)),
      reserveNames: () => answer(this.names),
    };
  }

  /** Owners of the shards, by the shards' numbers. */
  get owners(): readonly (ShardOwner | undefined)[] {
    return this.#owners;
  }

  /** The shard has no owner from now on. */
  leave(shard: number): void {
    this.#owners[shard] = undefined;
  }
}
