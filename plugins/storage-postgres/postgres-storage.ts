/** The commit queue before a database. What leaves because of it leaves while the lease holds. */
import { type AheadReader, type BackupFile, type RestoredBackup, ServerError } from '../api/plugin.ts';
import { type Clock, type Logger } from '../api/plugin.ts';
import { CommitQueue, type Family } from '../api/storage.ts';
import { Database } from './database.ts';
import { startProblem } from './database-errors.ts';
import { Lease, type Starting } from './lease.ts';
import { PostgresPort } from './postgres-port.ts';
import { PostgresService } from './postgres-service.ts';
import { restoreInto } from './restore.ts';
import { ShardOwners } from './shard-owners.ts';
import { Standby, type StandbyOptions } from './standby.ts';

interface PostgresStorageOptions {
  readonly url: string;
  /** Which of the states in the database. */
  readonly namespace: string;
  /** Number of shards that the state has; default 1. */
  readonly shards?: number;
  /** Milliseconds without a sign of life after which another process may take over. */
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** The state can no longer be written, or is another's: the process must end, and nothing must leave it. */
  readonly onFailure: (error: ServerError) => void;
  /** Bytes of committed units from which on they go to the tables. */
  readonly foldBytes?: number;
  /** Bytes that may wait for a database that is away, before the process ends. */
  readonly waitingBytesMax?: number;
}

export class PostgresStorage extends CommitQueue {
  override readonly supports = { heldUnits: true, readAhead: true };
  /** Undefined: this server is a service by itself. */
  readonly service: PostgresService | undefined;
  readonly #options: PostgresStorageOptions;
  readonly #lease: Lease;
  readonly #database: Database;
  readonly #port: PostgresPort;
  readonly #owners: ShardOwners | undefined;
  /** Callbacks that wait for the lease, in order. */
  #held: (() => void)[] = [];
  #isOwner = false;
  /** The family that is read while another process owns the namespace, and its reader. */
  #ahead: StandbyOptions | undefined;

  constructor(options: PostgresStorageOptions) {
    const lease = new Lease(options);
    const database = new Database({ ...options, lease });
    const port = new PostgresPort({ ...options, lease, database });
    super(port, options);
    this.#options = options;
    this.#lease = lease;
    this.#database = database;
    this.#port = port;
    if (lease.shards.length === 1) return;
    this.#owners = new ShardOwners({ ...options, lease });
    this.service = new PostgresService({ ...options, lease, database, port, owners: this.#owners });
  }

  /** Resolves when this process owns the namespace, however long that takes. */
  async own(starting: Starting): Promise<void> {
    if (this.#isOwner) return;
    const { readiness } = starting;
    this.#port.startsWith(starting);
    readiness.waiting('connecting to the database');
    using standby = this.#ahead === undefined ? undefined : new Standby(this.#ahead);
    await this.#lease.acquire(
      starting,
      (error) => this.#port.fail(error),
      () => standby?.read(),
    );
    this.#isOwner = true;
    if (this.#owners !== undefined) this.#options.log.info(`this server owns ${this.#lease.shard.title}`);
    this.#owners?.start();
    await this.service?.hearMoves();
    readiness.waiting('reading the state from the database');
  }

  override readAhead(family: Family, reader: AheadReader): void {
    const { clock } = this.#options;
    const namespaces = this.#lease.shards.map(({ namespace }) => namespace);
    this.#ahead = { family, reader, namespaces, clock, connect: () => this.#database.connect() };
    this.#port.foldsSoon(family);
  }

  async restore(backup: BackupFile, starting: Starting): Promise<RestoredBackup> {
    this.#refuseShards('--restore', 'restore the database of a service with pg_restore, from what pg_dump has made');
    await this.own(starting);
    try {
      return await restoreInto(this.#database, backup, starting);
    } catch (error) {
      throw startProblem(error, this.#options.url);
    }
  }

  protected override openBackup(): Promise<number> {
    this.#refuseShards('GET /backup', 'pg_dump takes all shards as of one moment');
    return super.openBackup();
  }

  /** One shard is no state of a service. */
  #refuseShards(asked: string, instead: string): void {
    if (this.service === undefined) return;
    throw new ServerError(
      'invalid',
      'shards-unsupported',
      `${asked} is for a service with one shard, and this one has ${this.service.shards}: ${instead}`,
    );
  }

  /**
   * Writes what is left and hands the namespace over; if that takes too long it is broken off, and the lease ends by
   * itself.
   */
  async end(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    this.#owners?.[Symbol.dispose]();
    await Promise.race([this.close(), aborted]);
    if (signal.aborted) this.abandon();
    signal.throwIfAborted();
  }

  /** Ends at once, without handing anything over, like a process that is killed. */
  abandon(): void {
    this.#owners?.[Symbol.dispose]();
    this.#port.abandon();
  }

  override whenDurable(unit: number, callback: () => void): void {
    if (unit > this.durable || (this.#lease.holds && this.#held.length === 0)) super.whenDurable(unit, callback);
    else this.#hold(callback);
  }

  /**
   * Keeps a callback until the lease holds. Its unit was durable already, but what it has seen may be another's by now.
   */
  #hold(callback: () => void): void {
    this.#held.push(callback);
    if (this.#held.length === 1) this.#lease.whenHeld(this.#release);
  }

  readonly #release = (): void => {
    const held = this.#held;
    this.#held = [];
    for (const [at, callback] of held.entries()) {
      if (!this.#lease.holds) {
        this.#held = [...held.slice(at), ...this.#held];
        this.#lease.whenHeld(this.#release);
        return;
      }
      callback();
    }
  };
}
