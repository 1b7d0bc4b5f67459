/**
 * One service on several servers. The actors of a service belong to shards; a shard has one server at a time that owns
 * it, and any server of the service takes any request: what is another's is forwarded to its owner.
 *
 *     id of an actor ──shardOf──► shard ──ServiceStore.owners──► node, address
 *     name of an actor ──ServiceStore.findName──► id
 *
 * A server without shards is a service by itself, and nothing here costs it anything.
 */
import type { Socket } from 'node:net';
import { defineCapability } from '../../kernel/index.ts';
import type { MovedRows } from '../storage/index.ts';
import type { MovedActor, MovedActors } from './moved-actors.ts';
import type { OpenRequest } from './moves/request-gate.ts';
import type { Canister } from '../canisters/index.ts';
import type { ShownNumber } from '../metrics/index.ts';
import type { Peer } from './link/peer.ts';

export { LEAVING, LINK_NOTE, MISDIRECTED, TURNED_AWAY } from './link/link-notes.ts';
export { type MovedActor, MovedActors } from './moved-actors.ts';
export type { AnswerFlow, Peer, PeerAnswer } from './link/peer.ts';

/** Shards of one service at most: an actor's id has eight bits for its own. */
export const SHARDS_MAX = 256;

/** A server that owns a shard. */
export interface ShardOwner {
  readonly shard: number;
  /** Id of the process; another one for each start. */
  readonly node: string;
  /** Group of processes that it belongs to: id of the one that an operator started. */
  readonly group: string;
  /** Who that is, for people: host and pid. */
  readonly holder: string;
  /** `host:port` where it takes what other servers forward; undefined: it has not said so yet. */
  readonly address: string | undefined;
  /** Grows with every owner of the shard. */
  readonly epoch: number;
  /** Milliseconds since its last sign of life was seen. */
  readonly silentMs: number;
}

/** A process that waits for a shard. */
export interface WaitingProcess {
  /** Id of the process. */
  readonly process: string;
  /** Group, as that of a shard's owner. */
  readonly group: string;
  readonly holder: string;
}

/** A name that an actor of a shard is to have. */
export interface WantedName {
  readonly name: string;
  readonly shard: number;
}

/** Secrets of a host: of the keys that certificates, and those that actors' messages, are signed with. */
type ServiceSecret = 'certification' | 'signing';

/** Facts that all servers of a service share: who owns which shard, and which actor has which name. */
export interface ServiceStore {
  /** Number of shards, 1 to SHARDS_MAX; 1: this server is the whole service. */
  readonly shards: number;
  /** The shard that this server owns: from 0 on. To be read when the storage has started. */
  readonly shard: number;
  /** Id of this process, as `ShardOwner.node`. */
  readonly node: string;
  /**
   * Says which group of processes this one belongs to, by the id of its first; without that it is a group by itself. To
   * be called before the start.
   */
  join(group: string): void;
  /** Processes that wait for a shard, as of the newest look at the owners. */
  readonly waiting: readonly WaitingProcess[];
  /**
   * Says that a process is no more, so that the shard that it owned is free at once: it has to have ended, and not only
   * to be silent. Nothing happens to a shard that another one owns.
   */
  dismiss(process: string, shard: number | undefined): Promise<void>;
  /** Tells the others where this server takes what they forward, `host:port`. */
  announce(address: string): Promise<void>;
  /** Resolves with the owner of each shard, by its number; undefined: it has none now. */
  owners(): Promise<readonly (ShardOwner | undefined)[]>;
  /**
   * Takes a name for an actor of this server's shard. Resolves with the id of the actor that has it from then on: the
   * given one, or that of another actor, which had it before.
   */
  takeName(name: string, id: Uint8Array): Promise<Uint8Array>;
  /** Gives a name free, if the actor with that id has it. */
  dropName(name: string, id: Uint8Array): Promise<void>;
  /** Resolves with the id of the actor that has this name, whatever its shard. */
  findName(name: string): Promise<Uint8Array | undefined>;
  /** Resolves with the names of a shard's actors, and their ids. */
  namesOf(shard: number): Promise<ReadonlyMap<string, Uint8Array>>;
  /**
   * Gives an id to each of these names that has none: servers have to know it before the actor is there. `idFor` makes
   * it of a number that the service gives out once. Resolves with the ids of all these names. `takeName` with this id
   * says that the actor is there; until then another actor may take the name.
   */
  reserveNames(
    names: readonly WantedName[],
    idFor: (shard: number, number: bigint) => Uint8Array,
  ): Promise<ReadonlyMap<string, Uint8Array>>;
  /** Actors that are not in the shard that their id tells, all that there are when the storage has started. */
  readonly moved: MovedActors;
  /** Resolves with the moves that nobody was told of yet, in their order; `moved` is not changed by that. */
  newMoves(): Promise<readonly MovedActor[]>;
  /** Brings what is durable into the tables. Resolves when they have all that was durable at the call. */
  settleTables(): Promise<void>;
  /**
   * Gives what is stored of an actor, of which nothing is written any more, to a shard that this process owns, and
   * resolves with the move. Rejects with ServerError `owner-changed` when another one does; then nothing was moved.
   */
  move(rows: MovedRows, to: Pick<ShardOwner, 'shard' | 'node'>): Promise<MovedActor>;
  /** Keeps a secret that all servers have to share. Resolves with the one that was kept first, here or there. */
  secret(name: ServiceSecret, fresh: Uint8Array): Promise<Uint8Array>;
}
export const ServiceStore = defineCapability<ServiceStore>('service-store');

/**
 * Where an actor is. `here`: this server's shard, or nobody's actor: this server may say that, too.
 * `ownerless`: its shard has no owner that can be reached now.
 */
export type Place =
  | { readonly kind: 'here' }
  | { readonly kind: 'elsewhere'; readonly shard: number; readonly peer: Peer }
  | { readonly kind: 'ownerless'; readonly shard: number };

/** Numbers of the processes that a node has started (`group/process-group.ts`). */
export interface GroupFigures {
  /** Processes that it may have, with its first. */
  readonly processesMax: number;
  readonly spares: number;
  readonly owning: number;
  /** Shard processes that have ended without being told to. */
  readonly failures: number;
  /** Shards that were handed over to another node. */
  readonly handedOver: number;
}

/** An actor on its way to another shard. */
export interface MovingActor {
  /** In hex. */
  readonly id: string;
  readonly name: string;
  /** The shard that it goes to. */
  readonly shard: number;
  /** When that was asked for, ms since 1970. */
  readonly sinceMs: number;
}

/** The servers of this service, as one of them sees them. */
export interface Cluster {
  /** False: this server is a service by itself, and there is no other to ask. */
  readonly isShared: boolean;
  /** Number of shards of the service. */
  readonly shards: number;
  /** The shard that this server owns. */
  readonly shard: number;
  /** Id of this process among the owners. */
  readonly node: string;
  /** Numbers for the page of metrics. */
  readonly numbers: readonly ShownNumber[];
  /** Owners by shard; undefined: a shard has none now. */
  readonly owners: readonly (ShardOwner | undefined)[];
  /** Processes that wait for a shard. */
  readonly waiting: readonly WaitingProcess[];
  /** Group of this process; `ShardOwner.group`. */
  readonly group: string;
  /** Shard processes of this node; undefined: it starts none, and may be one itself. */
  readonly processes: GroupFigures | undefined;
  /**
   * Returns where the actor is that a reference means: a name, an id in hex or a principal. Whoever asks has looked
   * among its own actors before. Rejects with ServerError where the store cannot be asked.
   */
  placeOf(reference: string): Place | Promise<Place>;
  /** Returns where an actor is to be installed that nobody has: the shards take turns. */
  nextPlace(): Place;
  /** Returns the way to the server that owns a shard, this one too; undefined: there is none that can be reached. */
  peerOf(shard: number): Peer | undefined;
  /** Forgets a name that turned out to be wrong. Resolves when the store was asked again who owns what. */
  forget(reference: string): Promise<void>;
  /** True when balancers are to send nothing more here; everything is served all the same. */
  readonly isLeaving: boolean;
  /**
   * Says that this server leaves, and hands its shard over that many seconds later, as a stop does. Throws ServerError
   * `cluster-none` where there is no other server to go on.
   */
  leave(seconds: number): void;
  /** Has the node's shard processes read their files again. */
  reread(): void;
  /** Actors of this server that are about to move. */
  readonly moving: readonly MovingActor[];
  /**
   * Lets a request in for an actor of this server; where it is about to move, returns a promise, after which its place
   * is to be asked for.
   */
  enter(actor: Pick<Canister, 'id'>, request: OpenRequest): Promise<void> | undefined;
  /**
   * Gives an actor of this server to another shard; its requests and calls wait meanwhile. Resolves when the shard has
   * it. Rejects with ServerError `shard-unknown`, `actor-there`, `actor-moving`, `actor-busy`, `owner-missing`,
   * `owner-unready`, `owner-changed`, `cluster-none`; the actor is where it was then.
   */
  move(canister: Canister, shard: number): Promise<void>;
  /** Gives the connections of other servers to whoever serves HTTP. To be called once, before the start. */
  serve(taken: (socket: Socket) => void): void;
}
export const Cluster = defineCapability<Cluster>('cluster');

/** The same with what its plugin starts and ends. */
export interface OpenableCluster extends Cluster {
  /** To be called before the storage starts. */
  open(): void;
  /** To be called when this server owns its shard. Rejects with ServerError `cannot-listen`, `cluster-unlinked`. */
  start(): Promise<void>;
  /** To be called when the server takes work. */
  ready(): void;
  /** Ends the node's shard processes, and takes no connection any more; requests under way go on. */
  drain(): Promise<void>;
  /** Cuts what is left. */
  close(): void;
}
