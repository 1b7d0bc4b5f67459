/**
 * Stand-ins for canisters of other shards: each is there while a call between it and a canister of this server is open.
 * Main thread; a map.
 */
import type { MovedActors } from '../../cluster/index.ts';
import { idToText, shardOf } from '../../ic/index.ts';
import { ELSEWHERE } from '../canister-state.ts';
import { ScheduledCanister } from '../scheduled-canister.ts';

/** The service that this server has a shard of, as the scheduler needs it. To be read when the storage has started. */
export interface ShardOfService {
  /** Number of shards; 1: there is no other server. */
  readonly shards: number;
  readonly shard: number;
  /** Id of this process: another one for each start. */
  readonly node: string;
  /** Actors that are not in the shard that their id tells; undefined: there are none. */
  readonly moved?: MovedActors | undefined;
}

export class Stubs implements Iterable<ScheduledCanister> {
  readonly #service: ShardOfService | undefined;
  readonly #byId = new Map<string, ScheduledCanister>();

  constructor(service: ShardOfService | undefined) {
    this.#service = service;
  }

  /** Returns the shard of another server that the id belongs to; undefined: there is none. */
  shardOf(id: Uint8Array): number | undefined {
    if (this.#service === undefined || this.#service.shards === 1) return undefined;
    const { moved } = this.#service;
    const shard = moved === undefined ? shardOf(id) : moved.shardOf(id);
    return shard === undefined || shard >= this.#service.shards || shard === this.#service.shard ? undefined : shard;
  }

  /** Returns the stand-in for a canister of another shard; undefined: the id is of none. */
  of(id: Uint8Array): ScheduledCanister | undefined {
    if (this.shardOf(id) === undefined) return undefined;
    const idText = idToText(id);
    let stub = this.#byId.get(idText);
    if (stub === undefined) {
      stub = new ScheduledCanister(-1, idText, ELSEWHERE);
      this.#byId.set(idText, stub);
    }
    return stub;
  }

  /** Returns the stand-in that is there; undefined: nothing is open with that canister. */
  ifAny(id: Uint8Array): ScheduledCanister | undefined {
    return this.#byId.size === 0 ? undefined : this.#byId.get(idToText(id));
  }

  /** Forgets a stand-in of which nothing is open. */
  dropIfDone(stub: ScheduledCanister): void {
    const { contexts, input } = stub.work;
    // A canister that has left has the id of its stand-in.
    if (this.#byId.get(stub.idText) !== stub) return;
    if (contexts.size === 0 && input.length === 0) this.#byId.delete(stub.idText);
  }

  get size(): number {
    return this.#byId.size;
  }

  [Symbol.iterator](): Iterator<ScheduledCanister> {
    return this.#byId.values();
  }
}
