/** One connection to the database: statements in order, and an end to those that are never answered. */
import type { Client } from 'pg';
import { type Clock, ServerError } from '../api/plugin.ts';
import { BinaryRows } from './binary-rows.ts';
import { checkedUrl } from './connection-url.ts';
import { ConnectionLost, isFromDatabase, isTransient } from './database-errors.ts';

export type Value = string | number | Buffer | null;
/** A column: text of what is no number, such as a bigint; bytes of a bytea. */
export type Row = readonly (string | number | Buffer | null)[];

/** Prepared once a connection, under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export interface Outcome {
  readonly rows: readonly Row[];
  /** Rows that were written, or read. */
  readonly count: number;
}

export interface ConnectionOptions {
  readonly url: string;
  readonly clock: Pick<Clock, 'nowMs' | 'after' | 'every'>;
  /**
   * Milliseconds after which a transaction that waits for this process is given up by the database: it may have been
   * stopped.
   */
  readonly idleTransactionMs: number;
  /** Milliseconds after which a statement is taken for lost, with its connection; default STATEMENT_MS. */
  readonly statementMs?: number;
  /** Milliseconds for the connection to be made; default CONNECT_MS. */
  readonly connectMs?: number;
  /** True if pages of actors' memory are read: the database is asked whether it sends them as bytes. */
  readonly readsPages?: boolean;
}

/** Milliseconds for a connection to be made: a distant database with TLS takes a second. */
export const CONNECT_MS = 10_000;
/** A database whose disk is busy answers before. */
export const STATEMENT_MS = 30_000;
/** Milliseconds between looks whether one is. */
const WATCH_MS = 1_000;
/**
 * Milliseconds between two looks of the database, while it executes, whether this process is still there: what is given
 * up here ends there.
 */
const CHECK_CLIENT_MS = 5_000;
const IDLE_LIMIT = 'idle_in_transaction_session_timeout';
/**
 * Ways to execute a statement that this process never wants: all of its statements look rows up in an index. PostgreSQL
 * has no statistics of a new table, nor of any after a crash, and then takes large tables for small ones.
 */
const UNWANTED_PLANS = ['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin'];

export class Connection {
  readonly #client: Client;
  readonly #clock: ConnectionOptions['clock'];
  readonly #watch: Disposable;
  /** Times at which statements without an answer were sent, the oldest first. */
  readonly #sentMs: number[] = [];
  readonly #idleTransactionMs: number;
  #hasIdleLimit = false;
  #sendsBytes = false;
  #error: Error | undefined;

  /** Rejects with the driver's error: `startProblem` and `isTransient` (database-errors.ts) tell what it means. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const { default: pg } = await import('pg').catch((error: unknown) => {
      throw new ServerError(
        'unavailable',
        'state-unwritable',
        'the package pg, with which PostgreSQL is reached, is not installed: run npm install pg beside svc',
        { cause: error },
      );
    });
    const connectionString = checkedUrl(options.url);
    const client = made(
      () =>
        new pg.Client({
          connectionString,
          connectionTimeoutMillis: options.connectMs ?? CONNECT_MS,
          keepAlive: true,
          application_name: 'svc',
        }),
    );
    const connection = new Connection(client, options);
    try {
      await client.connect().catch((error: unknown) => {
        throw connection.#lost(error);
      });
      // A session must see what was committed before it had its fence, whatever role and database have by default.
      await connection.run('SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED');
      // One that waits for a lock notices that nobody waits for it. Engines that have no such setting do without.
      connection.#hasIdleLimit = await connection.#set(IDLE_LIMIT, options.idleTransactionMs);
      await connection.#set('client_connection_check_interval', CHECK_CLIENT_MS);
      for (const plan of UNWANTED_PLANS) await connection.#set(plan, 0);
      if (options.readsPages === true) connection.#sendsBytes = await connection.#answersBytes();
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  private constructor(client: Client, { clock, idleTransactionMs, statementMs = STATEMENT_MS }: ConnectionOptions) {
    this.#client = client;
    this.#idleTransactionMs = idleTransactionMs;
    this.#clock = clock;
    client.on('error', (error) => this.#break(error));
    client.on('end', () => this.#break(new Error('the connection has ended')));
    this.#watch = clock.every(WATCH_MS, () => {
      const [oldest] = this.#sentMs;
      if (oldest === undefined || clock.nowMs() - oldest < statementMs) return;
      this.#break(new Error(`nothing was answered for ${statementMs / 1000} s`));
      this.destroy();
    });
  }

  #break(error: Error): void {
    this.#error ??= error;
    this.#watch[Symbol.dispose]();
  }

  /** True if nothing will be answered any more. */
  get isBroken(): boolean {
    return this.#error !== undefined;
  }

  /** Sets a setting. Returns false if the engine has no such setting. */
  async #set(setting: string, ms: number): Promise<boolean> {
    try {
      await this.run(`SET ${setting} = ${Math.ceil(ms)}`);
      return true;
    } catch (error) {
      if (this.isBroken || isTransient(error)) throw error;
      return false;
    }
  }

  /** Lets transactions wait for this process however long that takes, or only as long as the options say. */
  async setPatient(isPatient: boolean): Promise<void> {
    if (this.#hasIdleLimit) await this.#set(IDLE_LIMIT, isPatient ? 0 : this.#idleTransactionMs);
  }

  /** Runs a statement without parameters, not prepared. */
  async run(text: string): Promise<Outcome> {
    return await this.#send({ text });
  }

  async query({ name, text }: Statement, values: Value[]): Promise<Outcome> {
    return await this.#send({ name, text, values });
  }

  /** True if `bytesOf` can be asked. */
  get sendsBytes(): boolean {
    return this.#sendsBytes;
  }

  /** Reads the rows of a query without parameters; each column is as PostgreSQL's binary format has it. */
  async bytesOf(query: string): Promise<readonly (readonly Buffer[])[]> {
    return await this.#timed(() => this.#client.query(new BinaryRows(query)).rows);
  }

  /** Returns false for an engine that has no binary COPY. */
  async #answersBytes(): Promise<boolean> {
    try {
      return (await this.bytesOf('SELECT 1')).length === 1;
    } catch (error) {
      if (this.isBroken || isTransient(error)) throw error;
      return false;
    }
  }

  async #send(query: { readonly name?: string; readonly text: string; readonly values?: Value[] }): Promise<Outcome> {
    const { rows, rowCount } = await this.#timed(() =>
      this.#client.query<(string | number | Buffer | null)[]>({ ...query, rowMode: 'array' }),
    );
    return { rows, count: rowCount ?? 0 };
  }

  /** Rejects with ConnectionLost when nothing is answered in time. */
  async #timed<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#error !== undefined) throw this.#lost(this.#error);
    this.#sentMs.push(this.#clock.nowMs());
    try {
      return await ask();
    } catch (error) {
      // The driver knows nothing of a connection that was given up here.
      throw this.#error === undefined || isFromDatabase(error) ? error : new ConnectionLost(this.#error);
    } finally {
      this.#sentMs.shift();
    }
  }

  /** Returns an error of the database as it is, and any other as ConnectionLost. */
  #lost(error: unknown): unknown {
    return isFromDatabase(error) ? error : new ConnectionLost(error);
  }

  /** Commits what `work` has done, unless it throws: all or nothing. */
  async transaction<T>(work: () => Promise<T>): Promise<T> {
    await this.run('BEGIN');
    try {
      const result = await work();
      await this.run('COMMIT');
      return result;
    } catch (error) {
      if (!this.isBroken) await this.run('ROLLBACK').catch(() => this.destroy());
      throw error;
    }
  }

  /** Closes the connection at once; the database finds out. */
  destroy(): void {
    this.#break(new Error('the connection was closed'));
    // The driver's own end would wait for answers.
    (
      this.#client as Client & { readonly connection?: { readonly stream?: { destroy(): void } } }
    ).connection?.stream?.destroy();
  }

  /** Says goodbye. */
  async end(): Promise<void> {
    const over = Promise.withResolvers<void>();
    using _timer = this.#clock.after(WATCH_MS, () => over.resolve());
    await Promise.race([this.#client.end().catch(() => undefined), over.promise]);
    this.destroy();
  }
}

/** The driver reads certificates when it makes a client: one that is being exchanged is there again in a moment. */
function made(make: () => Client): Client {
  try {
    return make();
  } catch (error) {
    throw new ConnectionLost(error);
  }
}
