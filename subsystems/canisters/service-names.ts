/**
 * Names and ids of this host's canisters among those of all servers of a service. A name is taken in the table that all
 * of them share before its actor is made, and given free when the actor's end is durable. A crash between leaves a name
 * without an actor, or an actor without its name: the next owner of the shard compares.
 *
 * Main thread. A host that is a service by itself (`isShared` is false) never asks here for a name.
 */
import { type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { ServiceStore } from '../cluster/index.ts';
import { type CanisterIds, idInShard, RESERVED_NUMBERS, sameBytes } from '../ic/index.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import type { CanisterRecord } from './canister-record.ts';
import type { CanisterStore } from './canister-store.ts';

interface ServiceNamesNeeds {
  readonly service: ServiceStore;
  readonly ids: CanisterIds;
  readonly store: Pick<CanisterStore, 'settled'>;
  readonly directory: Pick<CanisterDirectory, 'findByName' | 'named'>;
  readonly log: Logger;
}

type NamedCanister = Pick<CanisterRecord, 'id' | 'name' | 'isNamed'>;

export class ServiceNames {
  readonly #needs: ServiceNamesNeeds;
  /** Changes of the table that wait until what is here is durable. */
  readonly #pending = new Set<Promise<void>>();

  constructor(needs: ServiceNamesNeeds) {
    this.#needs = needs;
  }

  get isShared(): boolean {
    return this.#needs.service.shards > 1;
  }

  /** The storage has started: from now on ids are those of its shard. */
  start(): void {
    if (this.isShared) this.#needs.ids.inShard(this.#needs.service.shard);
  }

  /** Returns the shard of an id that belongs to another server; undefined: to this one, or to none. */
  shardElsewhere(id: Uint8Array): number | undefined {
    if (!this.isShared) return undefined;
    const { shard: own, shards, moved } = this.#needs.service;
    const shard = moved.shardOf(id);
    return shard === undefined || shard === own || shard >= shards ? undefined : shard;
  }

  /** Takes a name for a new canister, and returns its id. Rejects with ServerError `actor-exists`. */
  async take(name: string): Promise<Uint8Array> {
    const { service, ids } = this.#needs;
    // The name may be that of an actor whose end is not durable yet.
    await this.settled();
    const id = ids.next();
    const taken = await service.takeName(name, id);
    if (sameBytes(taken, id)) return id;
    const shard = service.moved.shardOf(taken);
    throw new ServerError(
      'invalid',
      'actor-exists',
      `${name} is already installed, on the server of the service that has shard ${shard}: use POST /upgrade/${name}`,
    );
  }

  /** Gives a name free that was taken for a canister that could not be made. */
  drop(name: string, id: Uint8Array): Promise<void> {
    return this.#needs.service.dropName(name, id);
  }

  /** A canister is gone: when that is durable, its name is given free. */
  left({ id, name, isNamed }: NamedCanister): void {
    if (this.isShared && isNamed) this.#afterwards(name, () => this.#needs.service.dropName(name, id));
  }

  /** A canister whose id was reserved is there: when that is durable, its name is taken. */
  entered(canister: NamedCanister): void {
    this.#afterwards(canister.name, () => this.#confirm(canister));
  }

  async #confirm({ id, name }: NamedCanister): Promise<void> {
    const { service, log } = this.#needs;
    const taken = await service.takeName(name, id);
    if (sameBytes(taken, id)) return;
    log.announce(
      `WARNING ${name} is the name of an actor of shard ${service.moved.shardOf(taken)}, too, ` +
        `and other servers of the service mean that one: delete one of them`,
    );
  }

  #afterwards(name: string, change: () => Promise<void>): void {
    const { store, log } = this.#needs;
    const changing = store
      .settled()
      .then(change)
      // The state cannot be written, so the server ends; the next owner of the shard compares.
      .catch((error: unknown) => log.warn(`the service was not told of the name ${name}: ${messageOf(error)}`))
      .finally(() => this.#pending.delete(changing));
    this.#pending.add(changing);
  }

  /** Resolves when the table has what is durable here. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** Has the table follow the canisters that are stored here, all of which are known. */
  async compare(): Promise<void> {
    const { service, directory } = this.#needs;
    const names = await service.namesOf(service.shard);
    for (const [name, id] of names) {
      const canister = directory.findByName(name);
      if (canister === undefined || !sameBytes(canister.id, id)) await service.dropName(name, id);
    }
    for (const canister of directory.named()) {
      const id = names.get(canister.name);
      if (id === undefined || !sameBytes(canister.id, id)) await this.#confirm(canister);
    }
  }

  /**
   * Returns the ids of the manifest's actors; those that have none yet get one, the actor at index i in shard i modulo
   * the number of shards.
   */
  reserve(names: readonly string[]): Promise<ReadonlyMap<string, Uint8Array>> {
    const { service } = this.#needs;
    const wanted = names.map((name, index) => ({ name, shard: index % service.shards }));
    return service.reserveNames(wanted, (shard, number) => idInShard(shard, RESERVED_NUMBERS + number));
  }
}
