/** The servers of one service, linked: the store says who owns what, and connections are kept to whoever is asked. */
import type { Socket } from 'node:net';
import type { Clock, Logger } from '../../kernel/index.ts';
import { idOfReference, isCanisterName, shardOf } from '../ic/index.ts';
import type { ShownNumber } from '../metrics/index.ts';
import type { CallExchange } from '../scheduler/index.ts';
import { CallLinks } from './calls/call-links.ts';
import type { OpenableCluster, Place, ServiceStore, ShardOwner } from './index.ts';
import type { LinkKey } from './link/handshake.ts';
import { LinkListener } from './link/link-listener.ts';
import type { Peer } from './link/peer.ts';
import { NameTable } from './name-table.ts';
import { OwnerTable } from './owner-table.ts';

export interface LinkedClusterOptions {
  /** Where other servers reach this one, and it listens; port 0 takes a free one. */
  readonly host: string;
  readonly port: number;
  readonly key: LinkKey;
}

interface LinkedClusterParts extends LinkedClusterOptions {
  /** Begins the graceful stop of this server. */
  readonly stop: () => void;
}

interface LinkedClusterNeeds {
  readonly store: ServiceStore;
  readonly clock: Clock;
  readonly log: Logger;
  /** Calls between actors of different shards; undefined: there are none. */
  readonly exchange?: CallExchange | undefined;
}

const HERE: Place = { kind: 'here' };

export class LinkedCluster implements OpenableCluster {
  readonly isShared = true;
  isLeaving = false;
  readonly #needs: LinkedClusterNeeds;
  readonly #options: LinkedClusterParts;
  readonly #owners: OwnerTable;
  readonly #names: NameTable;
  readonly #calls: CallLinks | undefined;
  #listener: LinkListener | undefined;
  #taken: ((socket: Socket) => void) | undefined;
  #turn: number | undefined;

  constructor(needs: LinkedClusterNeeds, options: LinkedClusterParts) {
    this.#needs = needs;
    this.#options = options;
    this.#owners = new OwnerTable({ ...needs, key: options.key });
    this.#names = new NameTable(needs.store, needs.clock);
    const { exchange } = needs;
    this.#calls = exchange && new CallLinks({ ...needs, exchange, owners: this.#owners });
  }

  get shards(): number {
    return this.#needs.store.shards;
  }

  get shard(): number {
    return this.#needs.store.shard;
  }

  get node(): string {
    return this.#needs.store.node;
  }

  get owners(): readonly (ShardOwner | undefined)[] {
    return this.#owners.owners;
  }

  get numbers(): readonly ShownNumber[] {
    const missing = (): number => this.shards - this.owners.filter((owner) => owner !== undefined).length;
    const ownerless = 'Shards that no server owns, as this server knows.';
    const refused = 'Connections of others that were refused: they did not prove to have the key.';
    return [
      { name: 'svc_cluster_shards', type: 'gauge', help: 'Shards of the service.', read: () => this.shards },
      { name: 'svc_cluster_shards_without_owner', type: 'gauge', help: ownerless, read: missing },
      {
        name: 'svc_cluster_links_refused_total',
        type: 'counter',
        help: refused,
        read: () => this.#listener?.refused ?? 0,
      },
    ];
  }

  /** Listens for the other servers, and tells them where. To be called when this server owns its shard. */
  async start(): Promise<void> {
    const { store, clock, log } = this.#needs;
    const { host, port, key } = this.#options;
    const listener = new LinkListener({
      host,
      port,
      key,
      node: store.node,
      log,
      clock,
      taken: (socket) => (this.#taken === undefined ? socket.destroy() : this.#taken(socket)),
      takenCalls: (socket, node) => (this.#calls === undefined ? socket.destroy() : this.#calls.taken(socket, node)),
    });
    this.#listener = listener;
    const address = `${host.includes(':') ? `[${host}]` : host}:${await listener.listen()}`;
    await store.announce(address);
    await this.#owners.start();
    this.#calls?.start();
    log.info(`shard ${store.shard} of ${store.shards}: other servers of this service reach it at ${address}`);
  }

  serve(taken: (socket: Socket) => void): void {
    this.#taken = taken;
  }

  placeOf(reference: string): Place | Promise<Place> {
    const id = idOfReference(reference);
    // A name may look like an id; whoever asks has found no actor of its own with it.
    if (id !== undefined) return this.#placeOfId(id);
    // Whatever else a client sends is no business of the store's.
    if (!isCanisterName(reference)) return HERE;
    const found = this.#names.find(reference);
    return found instanceof Promise ? found.then((named) => this.#placeOfId(named)) : this.#placeOfId(found);
  }

  peerOf(shard: number): Peer | undefined {
    return this.#owners.peerOf(shard);
  }

  nextPlace(): Place {
    const { shards, shard } = this.#needs.store;
    for (let left = shards; left > 0; left--) {
      this.#turn = this.#turn === undefined ? shard : (this.#turn + 1) % shards;
      const place = this.#placeOfShard(this.#turn);
      if (place.kind !== 'ownerless') return place;
    }
    return HERE;
  }

  leave(seconds: number): void {
    const { clock, log } = this.#needs;
    if (this.isLeaving) return;
    this.isLeaving = true;
    log.info(`this server leaves: it hands shard ${this.shard} over and ends in ${seconds} s`);
    clock.after(seconds * 1000, () => this.#options.stop());
  }

  async forget(reference: string): Promise<void> {
    this.#names.forget(reference);
    await this.#owners.hurry();
  }

  /** Takes no connection any more; requests under way go on. */
  drain(): void {
    this.#listener?.close();
    this.#calls?.close();
  }

  close(): void {
    this.drain();
    this.#owners.close();
  }

  #placeOfId(id: Uint8Array | undefined): Place {
    const shard = id === undefined ? undefined : shardOf(id);
    return shard === undefined || shard >= this.#needs.store.shards ? HERE : this.#placeOfShard(shard);
  }

  #placeOfShard(shard: number): Place {
    if (shard === this.shard) return HERE;
    const peer = this.#owners.peerOf(shard);
    return peer === undefined ? { kind: 'ownerless', shard } : { kind: 'elsewhere', shard, peer };
  }
}
