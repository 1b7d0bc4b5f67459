/** The servers of one service, linked: the store says who owns what, and connections are kept to whoever is asked. */
import type { Socket } from 'node:net';
import { type Clock, type Logger, ServerError } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';
import type { CanisterMoves } from '../canisters/moves/index.ts';
import { idOfReference, isCanisterName } from '../ic/index.ts';
import type { ShownNumber } from '../metrics/index.ts';
import type { CallExchange } from '../scheduler/index.ts';
import { CallLinks } from './calls/call-links.ts';
import { clusterNumbers } from './cluster-numbers.ts';
import { ProcessGroup, type ProcessGroupOptions } from './group/process-group.ts';
import type { ShardNote } from './group/shard-process.ts';
import type {
  GroupFigures,
  MovingActor,
  OpenableCluster,
  Place,
  ServiceStore,
  ShardOwner,
  WaitingProcess,
} from './index.ts';
import type { LinkKey } from './link/handshake.ts';
import { LinkListener } from './link/link-listener.ts';
import type { Peer } from './link/peer.ts';
import { Mover } from './moves/mover.ts';
import type { OpenRequest } from './moves/request-gate.ts';
import { NameTable } from './name-table.ts';
import { OwnerTable } from './owner-table.ts';

export interface LinkedClusterOptions {
  /** Where other servers reach this one, and it listens; port 0 takes a free one. */
  readonly host: string;
  readonly port: number;
  readonly key: LinkKey;
}

/** A shard process that another process of its node has started. */
export interface GroupMember {
  /** The group. */
  readonly group: string;
  /** Tells the one that has started it. */
  readonly tell: (note: ShardNote) => void;
}

interface LinkedClusterParts extends LinkedClusterOptions {
  /** Begins the graceful stop of this server. */
  readonly stop: () => void;
  /** Undefined: no other process has started this one. */
  readonly member?: GroupMember | undefined;
  /** Undefined: this process starts no others. */
  readonly processes?: ProcessGroupOptions | undefined;
}

interface LinkedClusterNeeds {
  readonly store: ServiceStore;
  readonly clock: Clock;
  readonly log: Logger;
  /** Calls between actors of different shards; undefined: there are none. */
  readonly exchange?: CallExchange | undefined;
  /** Actors that move; undefined: none do. */
  readonly canisters?: CanisterMoves | undefined;
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
  readonly #group: ProcessGroup | undefined;
  readonly #mover: Mover | undefined;
  #listener: LinkListener | undefined;
  #taken: ((socket: Socket) => void) | undefined;
  #turn: number | undefined;

  constructor(needs: LinkedClusterNeeds, options: LinkedClusterParts) {
    this.#needs = needs;
    this.#options = options;
    this.#owners = new OwnerTable({ ...needs, key: options.key });
    this.#names = new NameTable(needs.store, needs.clock);
    const { processes } = options;
    if (processes !== undefined && needs.store.shards > 1) this.#group = new ProcessGroup(needs, processes);
    const { exchange, canisters } = needs;
    if (exchange === undefined) return;
    const owners = this.#owners;
    const links = new CallLinks({ ...needs, exchange, owners, asked: (...asked) => this.#asked(...asked) });
    this.#calls = links;
    if (canisters !== undefined)
      this.#mover = new Mover({ ...needs, owners, links, canisters, isLeaving: () => this.isLeaving });
  }

  async #asked(...asked: Parameters<Mover['asked']>): Promise<string> {
    return (await this.#mover?.asked(...asked)) ?? 'it moves no actors';
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

  get waiting(): readonly WaitingProcess[] {
    return this.#needs.store.waiting;
  }

  get group(): string {
    return this.#options.member?.group ?? this.node;
  }

  get processes(): GroupFigures | undefined {
    const group = this.#group;
    if (group === undefined) return undefined;
    const { processesMax, failures, handedOver } = group;
    return { processesMax, ...group.counts, failures, handedOver };
  }

  get numbers(): readonly ShownNumber[] {
    const help = 'Actors that this server has given to other shards.';
    const read = (): number => this.#mover?.moves ?? 0;
    const moves: ShownNumber = { name: 'svc_cluster_moves_total', type: 'counter', help, read };
    return [...clusterNumbers(this, () => this.#listener?.refused ?? 0), moves];
  }

  /** Says which group this process belongs to. */
  open(): void {
    const { member } = this.#options;
    if (member === undefined) return;
    this.#needs.store.join(member.group);
    member.tell({ process: this.node, shard: undefined });
  }

  ready(): void {
    const { member } = this.#options;
    member?.tell({ process: this.node, shard: this.shard });
    this.#group?.start();
  }

  reread(): void {
    this.#group?.reread();
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
    this.#mover?.start();
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
    const more = this.#group === undefined ? '' : ', those of its shard processes from now on';
    log.info(`this server leaves: it hands shard ${this.shard} over and ends in ${seconds} s${more}`);
    // They are reached by links alone, so no client has to be told.
    void this.#group?.stop();
    clock.after(seconds * 1000, () => this.#options.stop());
  }

  async forget(reference: string): Promise<void> {
    this.#names.forget(reference);
    await Promise.all([this.#owners.hurry(), this.#mover?.look()]);
  }

  get moving(): readonly MovingActor[] {
    return this.#mover?.going ?? [];
  }

  enter(actor: Pick<Canister, 'id'>, request: OpenRequest): Promise<void> | undefined {
    return this.#mover?.gate.enter(actor, request);
  }

  async move(canister: Canister, shard: number): Promise<void> {
    if (this.#mover === undefined) throw new ServerError('invalid', 'cluster-none', 'this server moves no actors');
    await this.#mover.move(canister, shard);
  }

  /**
   * Hands the shards of the node's other processes over, and takes no connection any more; requests under way go on.
   */
  async drain(): Promise<void> {
    await this.#group?.stop();
    this.#end();
  }

  /** Takes no connection any more. */
  #end(): void {
    this.#listener?.close();
    this.#calls?.close();
    this.#mover?.close();
  }

  close(): void {
    this.#end();
    this.#owners.close();
  }

  #placeOfId(id: Uint8Array | undefined): Place | Promise<Place> {
    // An actor that is about to come.
    const coming = id && this.#mover?.gate.waitFor(id);
    if (coming !== undefined) return coming.then(() => this.#placeOfId(id));
    const shard = id === undefined ? undefined : this.#needs.store.moved.shardOf(id);
    return shard === undefined || shard >= this.#needs.store.shards ? HERE : this.#placeOfShard(shard);
  }

  #placeOfShard(shard: number): Place {
    if (shard === this.shard) return HERE;
    const peer = this.#owners.peerOf(shard);
    return peer === undefined ? { kind: 'ownerless', shard } : { kind: 'elsewhere', shard, peer };
  }
}
