/**
 * Decides who owns a namespace, or which of its shards: each has a lease of its own, and a process that waits takes the
 * first one that is free. The owner makes a number grow (`beat`). A process that wants the namespace watches it, and
 * takes over when it has not grown for the length of the lease, by that process's own steady clock, or when the
 * namespace was handed over. No clock is compared with another, so none can jump: the owner may count on a lease from
 * the moment in which it sent a beat that was accepted, and the waiting process counts from the moment in which it saw
 * that beat, which is later. It counts time in which the owner could be heard (watch.ts).
 *
 * Writes do not need this to be safe: they carry the fence (schema.ts). Results that were only read need it: they leave
 * while `holds` is true, and otherwise wait for the next beat, or for the end.
 */
import { randomUUID } from 'node:crypto';
import { type Clock, type Logger, ServerError, sleep, type StartContext } from '../api/plugin.ts';
import { CONNECT_MS, Connection, type ConnectionOptions, STATEMENT_MS } from './connection.ts';
import { placeOf } from './connection-url.ts';
import { isRefusal, isTransient, startProblem, wordsOf } from './database-errors.ts';
import { prepareSchema, SQL } from './schema.ts';
import { NO_ANSWER, NO_WRITES, Outage } from './outage.ts';
import { holderOfThis, ProcessTable } from './process-table.ts';
import { type Look, type SeenShard, ShardWatches } from './shard-watches.ts';
import { fixShards, type Shard, shardsOf } from './shards.ts';
import { turnOf } from './turns.ts';
import type { Watch } from './watch.ts';

/** Where a storage that starts says what it waits for, and hears that it need not start any more. */
export type Starting = Pick<StartContext, 'readiness' | 'signal'>;

interface LeaseOptions {
  readonly url: string;
  readonly namespace: string;
  /** Number of shards; default 1. */
  readonly shards?: number;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** For tests. */
  readonly open?: (options: ConnectionOptions) => Promise<LeaseConnection>;
  readonly watch?: Watch;
}

/** The part of a connection that a lease needs. */
export type LeaseConnection = Pick<Connection, 'isBroken' | 'run' | 'query' | 'transaction' | 'destroy' | 'end'>;

/** Beats in a lease: one or two may be late. */
const BEATS = 4;
/**
 * Part of a lease for which a beat may be without an answer; then another one is sent over a connection of its own. One
 * connection may hang alone (half open behind a failover, or a router that has forgotten it) while the database is
 * there for everybody else.
 */
const PATIENCE = 1 / 3;
/**
 * Part of a lease that is not counted on: for clocks that do not run alike, and the way from the last look to the
 * socket.
 */
const MARGIN = 1 / 5;
/** Looks of a waiting process in one lease; their distance has bounds in milliseconds. */
const LOOKS = 10;
const LOOK_MS_MIN = 50;
const LOOK_MS_MAX = 500;
/** Looks for which a free shard is left to the process whose turn it is. */
const TURN_LOOKS = 3;
const RETRY_MS = 250;
/** Milliseconds that a process which waits and is told to stop takes to say so. */
const LEAVING_MS = 500;
/**
 * Part of a lease that a connection may take to be made, and at least so many milliseconds: a connection to a database
 * that was away hangs for long, and the owner has to be heard within a lease of the database's return.
 */
const CONNECTING = 1 / 2;
const CONNECTING_MS_MIN = 1_000;
/**
 * Part of a lease after which one more connection is tried beside one that is not there yet, and at least so many
 * milliseconds. What stands before the database (a proxy, a router) may take a connection and hand nothing on. Who
 * waits until that one has failed may come too late when the database can be reached again.
 */
const BESIDE = 1 / 6;
const BESIDE_MS_MIN = 300;

export class Lease {
  /** Id of this process, and of no other. */
  readonly owner: string = randomUUID();
  /** Processes of the service; undefined: it has one shard. */
  readonly processes: ProcessTable | undefined;
  readonly #options: LeaseOptions;
  readonly #connectionOptions: ConnectionOptions;
  readonly #shards: readonly [Shard, ...Shard[]];
  #shard: Shard;
  #isTaken = false;
  #connection: LeaseConnection | undefined;
  #opening: Promise<LeaseConnection> | undefined;
  /** Connections with a beat that may be answered yet; each ends with that, or when its statement counts as lost. */
  readonly #hanging = new Set<LeaseConnection>();
  /** Time until which the lease is known to hold. */
  #untilMs = 0;
  readonly #held: (() => void)[] = [];
  /** Times since which shards are seen to be free, by their numbers. */
  #freeMs: ReadonlyMap<number, number> = new Map();
  #isEnded = false;
  #beating: Promise<void> | undefined;
  #onLost: (error: ServerError) => void = () => undefined;

  constructor(options: LeaseOptions) {
    const { url, namespace, shards = 1, leaseMs, clock } = options;
    this.#options = options;
    this.#shards = shardsOf(namespace, shards);
    [this.#shard] = this.#shards;
    if (shards > 1) this.processes = new ProcessTable({ namespace, process: this.owner, leaseMs, clock });
    this.#connectionOptions = {
      url,
      clock,
      idleTransactionMs: leaseMs,
      statementMs: Math.min(leaseMs, STATEMENT_MS),
      connectMs: Math.min(CONNECT_MS, Math.max(CONNECTING_MS_MIN, leaseMs * CONNECTING)),
    };
  }

  get shards(): readonly Shard[] {
    return this.#shards;
  }

  /** The shard that this process owns; the first one as long as it owns none. */
  get shard(): Shard {
    return this.#shard;
  }

  /** True from when this process owns a shard; it may have lost that since. */
  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** True if results that were read may leave now. */
  get holds(): boolean {
    return this.#options.clock.nowMs() < this.#untilMs;
  }

  /** Calls back when it holds again; never if it is lost. */
  whenHeld(callback: () => void): void {
    this.#held.push(callback);
  }

  /**
   * Resolves when this process owns the namespace. Rejects with a ServerError that says why it cannot, or when the
   * signal is aborted. `onLost` is called when the namespace is lost later, `onStandby` whenever another process has
   * been seen to own it.
   */
  async acquire(
    starting: Starting,
    onLost: (error: ServerError) => void,
    onStandby: () => void = () => undefined,
  ): Promise<void> {
    this.#onLost = onLost;
    const { signal } = starting;
    // After an abort, answers that are still due are not waited for.
    const stop = (): void => this.#dropAll();
    signal.addEventListener('abort', stop);
    try {
      await this.#take(starting, onStandby);
    } catch (error) {
      if (!signal.aborted) throw error;
      await this.#wantNothing();
      throw stopped();
    } finally {
      signal.removeEventListener('abort', stop);
    }
    this.#beating = this.#beat();
  }

  async #take({ readiness, signal }: Starting, onStandby: () => void): Promise<void> {
    const { url, log, clock } = this.#options;
    try {
      const connection = await this.#connected();
      await prepareSchema(connection);
      await fixShards(connection, this.#options.namespace, this.#shards.length);
      await this.#makeRows(connection, this.#shard);
    } catch (error) {
      throw startProblem(error, url);
    }
    const watches = this.watches(({ title }) => `standby: ${title}`);
    const outage = new Outage(log, placeOf(url));
    for (;;) {
      if (signal.aborted) throw stopped();
      try {
        if (await this.#tryOnce(await this.#connected(), watches, readiness)) return;
        readiness.waiting(outage.answered(watches.takesWrites) ?? this.#standby);
        onStandby();
        await sleep(clock, lookMs(watches.leaseMs));
      } catch (error) {
        if (signal.aborted || !isTransient(error)) throw startProblem(error, url);
        const kind = isRefusal(error) ? NO_WRITES : NO_ANSWER;
        this.#drop();
        watches.beginAnew();
        outage.failed(kind, wordsOf(error, url));
        readiness.waiting(`the database ${kind}`);
        await sleep(clock, RETRY_MS);
      }
    }
  }

  /** The note while others own what this process wants. A database that is being made may say so for a moment. */
  get #standby(): string {
    const count = this.#shards.length;
    return `standby, ${count === 1 ? 'the namespace has another owner' : `all ${count} shards have other owners`}`;
  }

  /** Returns watches of all shards, for one who looks at them again and again. */
  watches(titleOf: (shard: Shard) => string): ShardWatches {
    return new ShardWatches({ ...this.#options, shards: this.#shards, titleOf });
  }

  /** Asks over the connection of the beats. */
  async ask<T>(question: (connection: LeaseConnection) => Promise<T>): Promise<T> {
    if (this.#isEnded) throw stopped();
    return await question(await this.#connected());
  }

  /** Lets the others know that this process, which waited, is no more, if that can be said soon. */
  async #wantNothing(): Promise<void> {
    const { processes } = this;
    if (processes === undefined) return;
    const said = this.#connected().then((connection) => processes.leave(connection));
    await Promise.race([said.catch(() => undefined), sleep(this.#options.clock, LEAVING_MS)]);
  }

  async #makeRows(connection: LeaseConnection, { namespace }: Shard): Promise<void> {
    // The fence first: whoever sees the owner's row may take both.
    await connection.query(SQL.makeFence, [namespace]);
    await connection.query(SQL.makeOwner, [namespace]);
  }

  /** Looks, and takes a shard that is free. */
  async #tryOnce(
    connection: LeaseConnection,
    watches: ShardWatches,
    readiness: Starting['readiness'],
  ): Promise<boolean> {
    await this.processes?.beat(connection);
    const looks = await watches.look(connection);
    // An earlier try of ours was taken, and its answer lost.
    const ours = looks.find(([, , seen]) => seen?.owner === this.owner);
    const free = ours === undefined ? await this.#freeOf(connection, looks) : [ours];
    const mine = ours === undefined ? await this.#inTurn(connection, looks, free) : free;
    for (const [shard, , seen] of mine) {
      if (seen === undefined) continue;
      readiness.waiting('waiting for what the last owner has begun to write');
      if (await this.#takeShard(connection, shard, seen)) return true;
    }
    return false;
  }

  /** Returns the shards that are free, and makes the rows of those that have none. */
  async #freeOf(connection: LeaseConnection, looks: readonly Look[]): Promise<readonly Look[]> {
    const free: Look[] = [];
    for (const look of looks) {
      const [shard, watch, seen] = look;
      if (seen === undefined) await this.#makeRows(connection, shard);
      else if (await this.#isFree(connection, shard, watch, seen)) free.push(look);
    }
    return free;
  }

  /**
   * Returns the free shards that this process may take now, in its order: the one that is its turn before the others,
   * and those that nobody has taken although it was somebody's turn.
   */
  async #inTurn(connection: LeaseConnection, looks: readonly Look[], free: readonly Look[]): Promise<readonly Look[]> {
    if (this.processes === undefined) return free;
    const nowMs = this.#options.clock.nowMs();
    this.#freeMs = new Map(free.map(([{ index }]) => [index, this.#freeMs.get(index) ?? nowMs]));
    const isFree = new Set(free.map(([{ index }]) => index));
    const owners = looks.flatMap(([{ index }, , seen]) => (isFree.has(index) ? [] : (seen?.owner ?? [])));
    await this.processes.look(connection, new Set(owners));
    if (free.length === 0) return free;
    const groups = owners.map((owner) => this.processes?.groupOf(owner) ?? owner);
    const turn = turnOf(this.owner, free.length, { groups, waiting: this.processes.waiting });
    if (turn !== undefined) return [...free.slice(turn), ...free.slice(0, turn)];
    const patienceMs = TURN_LOOKS * lookMs(Math.max(...free.map(([, { leaseMs }]) => leaseMs)));
    return free.filter(([{ index }]) => nowMs - (this.#freeMs.get(index) ?? nowMs) >= patienceMs);
  }

  async #isFree(connection: LeaseConnection, shard: Shard, watch: Watch, seen: SeenShard): Promise<boolean> {
    const silence = watch.saw(seen);
    if (silence !== 'quiet') return silence === 'free';
    // A disk that is full, or a replica that is not promoted yet, answers as if all were well.
    await connection.query(SQL.touchOwner, [shard.namespace, seen.beat]);
    watch.isWritable();
    return false;
  }

  /** Returns false if another process has been quicker. */
  async #takeShard(connection: LeaseConnection, shard: Shard, { beat }: SeenShard): Promise<boolean> {
    const { namespace: service, leaseMs, clock } = this.#options;
    const { namespace, index } = shard;
    const sentMs = clock.nowMs();
    const isTaken = await connection.transaction(async () => {
      const mine = holderOfThis();
      const taken = await connection.query(SQL.takeOwner, [namespace, beat, this.owner, mine, leaseMs]);
      if (taken.count !== 1) return false;
      // Waits for writes of the one before that have begun.
      await connection.query(SQL.takeFence, [namespace, this.owner]);
      if (this.#shards.length > 1) await connection.query(SQL.takeShard, [service, index, this.owner, mine]);
      return true;
    });
    if (isTaken) {
      this.#shard = shard;
      this.#isTaken = true;
      this.#extend(sentMs);
    }
    return isTaken;
  }

  #extend(sentMs: number): void {
    // A beat that was on its way when all was over.
    if (this.#isEnded) return;
    const { leaseMs } = this.#options;
    // An answer may come behind that of a later one.
    this.#untilMs = Math.max(this.#untilMs, sentMs + leaseMs * (1 - MARGIN));
    while (this.#held.length > 0 && this.holds) for (const callback of this.#held.splice(0)) callback();
  }

  async #beat(): Promise<void> {
    const { leaseMs, clock } = this.#options;
    let isHeard = true;
    while (!this.#isEnded) {
      await sleep(clock, Math.min(leaseMs / BEATS, isHeard && this.holds ? Infinity : RETRY_MS));
      if (this.#isEnded) return;
      const answer = Promise.withResolvers<boolean>();
      using _patience = clock.after(leaseMs * PATIENCE, () => answer.resolve(false));
      // Not awaited alone: a late answer counts, and what a rejection says ends the process also then.
      void this.#sendBeat().then(answer.resolve);
      isHeard = await answer.promise;
      // The process that hands the lease over goes on with this connection.
      if (this.#isEnded) return;
      if (!isHeard && this.#connection !== undefined) this.#leaveHanging(this.#connection);
    }
  }

  /** Resolves with whether it was answered, however late. */
  async #sendBeat(): Promise<boolean> {
    const { clock } = this.#options;
    const { namespace } = this.#shard;
    const sentMs = clock.nowMs();
    let connection: LeaseConnection | undefined;
    let isTaken: boolean;
    try {
      connection = await this.#connected();
      isTaken = (await connection.query(SQL.beat, [namespace, this.owner])).count === 1;
    } catch {
      // Processes that write tell whether the database is there; one that only reads waits.
      if (!this.#isEnded && connection === this.#connection) this.#drop();
      return false;
    } finally {
      if (connection !== undefined && this.#hanging.delete(connection)) connection.destroy();
    }
    // Not within the try: who waited for it is called, and what they throw ends the process.
    if (isTaken) this.#extend(sentMs);
    else await this.lost();
    return true;
  }

  #leaveHanging(connection: LeaseConnection): void {
    this.#hanging.add(connection);
    this.#connection = undefined;
  }

  /** Returns a connection that is not known to be broken. */
  async #connected(): Promise<LeaseConnection> {
    if (this.#connection?.isBroken === true) this.#drop();
    if (this.#connection !== undefined) return this.#connection;
    // Two who want one have the same.
    this.#opening ??= this.#openFirst().finally(() => (this.#opening = undefined));
    return (this.#connection = await this.#opening);
  }

  /**
   * Resolves with the connection that is there first, of several if that takes long. Rejects with the first failure.
   */
  async #openFirst(): Promise<LeaseConnection> {
    const { open = (given) => Connection.open(given), clock, leaseMs } = this.#options;
    const first = Promise.withResolvers<LeaseConnection>();
    let isOver = false;
    const attempt = (): void => {
      open(this.#connectionOptions).then((connection) => {
        if (isOver) connection.destroy();
        isOver = true;
        first.resolve(connection);
      }, first.reject);
    };
    attempt();
    using _beside = clock.every(Math.max(BESIDE_MS_MIN, leaseMs * BESIDE), attempt);
    try {
      return await first.promise;
    } finally {
      isOver = true;
    }
  }

  /** Somebody has found that another owns the namespace. */
  async lost(): Promise<void> {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#untilMs = 0;
    const { leaseMs } = this.#options;
    const holder = await this.#holder();
    this.#onLost(
      new ServerError(
        'unavailable',
        'namespace-lost',
        `${this.#shard.title} is owned by ${holder} now: this process did not renew its lease for ` +
          `${leaseMs} ms; all answered calls are stored`,
      ),
    );
  }

  async #holder(): Promise<string> {
    try {
      const connection = await this.#connected();
      const { rows } = await connection.query(SQL.seeOwner, [this.#shard.namespace]);
      const [, holder] = rows[0] ?? [];
      return typeof holder === 'string' ? holder : 'another process';
    } catch {
      return 'another process';
    }
  }

  #drop(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
  }

  /** The connection that is being opened meanwhile, and those that hang, too. */
  #dropAll(): void {
    this.#drop();
    for (const connection of this.#hanging) connection.destroy();
    this.#hanging.clear();
    void this.#opening?.then(
      (connection) => connection.destroy(),
      () => undefined,
    );
  }

  /** Hands the namespace over. Nothing more is written: a process that waits may go on at once. */
  async release(): Promise<void> {
    const { namespace } = this.#shard;
    this.#isEnded = true;
    this.#untilMs = 0;
    try {
      const connection = await this.#connected();
      await connection.transaction(async () => {
        await connection.query(SQL.leaveOwner, [namespace, this.owner]);
        await connection.query(SQL.leaveFence, [namespace, this.owner]);
      });
      await this.processes?.leave(connection);
    } finally {
      await this.end();
    }
  }

  abandon(): void {
    this.#isEnded = true;
    this.#untilMs = 0;
    this.#dropAll();
  }

  /** Ends without handing the namespace over: the lease ends by itself. */
  async end(): Promise<void> {
    this.#isEnded = true;
    this.#untilMs = 0;
    await this.#connection?.end();
    this.#dropAll();
    // The loop of beats may be sleeping; it then finds that all is over.
    void this.#beating;
  }
}

/** Returns the milliseconds between two looks of a process that waits. */
function lookMs(leaseMs: number): number {
  return Math.min(LOOK_MS_MAX, Math.max(LOOK_MS_MIN, leaseMs / LOOKS));
}

export function stopped(): ServerError {
  return new ServerError('unavailable', 'storage-failed', 'the server was told to stop');
}
