/** One connection to the database: statements in order, an end to those that are never answered, and words for its errors. */
import type { Client } from 'pg';
import { type Clock, ServerError } from '../api/plugin.ts';

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
  /** Milliseconds after which a transaction that waits for this process is given up by the database: it may have been stopped. */
  readonly idleTransactionMs: number;
  /** Milliseconds after which a statement is taken for lost, with its connection; default STATEMENT_MS. */
  readonly statementMs?: number;
}

/** Milliseconds for a connection to be made: a distant database with TLS takes a second. */
const CONNECT_MS = 10_000;
/** A database whose disk is busy answers before. */
const STATEMENT_MS = 30_000;
/** Milliseconds between looks whether one is. */
const WATCH_MS = 1_000;
/** How often the database looks whether this process is still there while it executes: what is given up here ends there. */
const CHECK_CLIENT_MS = 5_000;

export class Connection {
  readonly #client: Client;
  readonly #clock: ConnectionOptions['clock'];
  readonly #watch: Disposable;
  /** When the oldest statement without an answer was sent. */
  readonly #sentMs: number[] = [];
  #error: Error | undefined;

  /** Rejects with the driver's error: `startProblem` and `isTransient` tell what it means. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const { default: pg } = await import('pg').catch((error: unknown) => {
      throw new ServerError(
        'unavailable',
        'state-unwritable',
        'the package pg, with which PostgreSQL is reached, is not installed: run npm install pg beside svc',
        { cause: error },
      );
    });
    const client = new pg.Client({
      connectionString: checkedUrl(options.url),
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
      application_name: 'svc',
    });
    const connection = new Connection(client, options);
    try {
      await client.connect();
      // One that waits for a lock notices that nobody waits for it. Engines that have no such setting do without.
      for (const [setting, ms] of [
        ['idle_in_transaction_session_timeout', options.idleTransactionMs],
        ['client_connection_check_interval', CHECK_CLIENT_MS],
      ] as const) {
        await connection.set(setting, ms);
      }
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  private constructor(client: Client, { clock, statementMs = STATEMENT_MS }: ConnectionOptions) {
    this.#client = client;
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

  /** Nothing will be answered any more. */
  get isBroken(): boolean {
    return this.#error !== undefined;
  }

  async set(setting: string, ms: number): Promise<void> {
    try {
      await this.run(`SET ${setting} = ${Math.ceil(ms)}`);
    } catch (error) {
      if (this.isBroken || isTransient(error)) throw error;
    }
  }

  /** Without parameters, and not prepared. */
  async run(text: string): Promise<Outcome> {
    return await this.#send({ text });
  }

  async query({ name, text }: Statement, values: Value[]): Promise<Outcome> {
    return await this.#send({ name, text, values });
  }

  async #send(query: { readonly name?: string; readonly text: string; readonly values?: Value[] }): Promise<Outcome> {
    if (this.#error !== undefined) throw this.#error;
    this.#sentMs.push(this.#clock.nowMs());
    try {
      const { rows, rowCount } = await this.#client.query<(string | number | Buffer | null)[]>({
        ...query,
        rowMode: 'array',
      });
      return { rows, count: rowCount ?? 0 };
    } finally {
      this.#sentMs.shift();
    }
  }

  /** All or nothing: commits what `work` has done, unless it throws. */
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

  /** At once; the database finds out. */
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

const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];
/** What the driver reads of a URL. It passes over all else, also over a `sslmode` that is written wrong, and would go on without TLS. */
const URL_PARAMETERS = [
  'application_name',
  'client_encoding',
  'host',
  'lock_timeout',
  'options',
  'password',
  'port',
  'ssl',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslnegotiation',
  'sslrootcert',
  'statement_timeout',
  'user',
  'uselibpqcompat',
];

/** Never shows it: there may be a password in it. */
function checkedUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed?.protocol !== 'postgres:' && parsed?.protocol !== 'postgresql:')
    throw badUrl(
      'is no URL like postgres://user:password@host:5432/database: correct it; what has a meaning in URLs (@ : / ? # %) is percent-encoded in names and passwords',
    );
  // A name that is not known may be a password that was not encoded.
  if ([...parsed.searchParams.keys()].some((name) => !URL_PARAMETERS.includes(name)))
    throw badUrl(
      `has a parameter behind ? that is none of ${URL_PARAMETERS.join(', ')}: correct its name, or take it out`,
    );
  if (parsed.searchParams.getAll('sslmode').some((mode) => !SSL_MODES.includes(mode)))
    throw badUrl(`has a sslmode that is none of ${SSL_MODES.join(', ')}`);
  return url;
}

function badUrl(problem: string): ServerError {
  return new ServerError('invalid', 'state-unwritable', `storage.url ${problem}`);
}

/** Where the database is, without user and password. */
export function placeOf(url: string): string {
  if (!URL.canParse(url)) return 'the database';
  const { host, pathname, searchParams } = new URL(url);
  return `the database ${searchParams.get('host') ?? (host === '' ? 'localhost' : host)}${pathname}`;
}

function passwordsOf(url: string): readonly string[] {
  if (!URL.canParse(url)) return [];
  const { password, searchParams } = new URL(url);
  let plain = password;
  try {
    plain = decodeURIComponent(password);
  } catch {
    // It is what it is.
  }
  return [password, plain, searchParams.get('password') ?? ''].filter((each) => each !== '');
}

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** What it says, without the password. */
export function wordsOf(error: unknown, url: string): string {
  let words = error instanceof Error ? error.message : String(error);
  if (error instanceof AggregateError && words === '') words = [...new Set(error.errors.map(String))].join(', ');
  if (words === '') words = codeOf(error);
  for (const password of passwordsOf(url)) words = words.replaceAll(password, '***');
  return words.replaceAll(/\s+/g, ' ');
}

/** Classes of errors that no further try mends: the statement, the data or the rights are not what they should be. */
const LASTING = /^(?:0A|22|23|2[0-9BDF]|34|3D|3F|42|44)[0-9A-Z]{3}$/;
/** Of a database that has become a replica; another may be the first now. */
const READ_ONLY = '25006';

/** Whether it may be better in a while: connections, resources, restarts, conflicts (40001, 40P01). */
export function isTransient(error: unknown): boolean {
  if (error instanceof ServerError) return false;
  const code = codeOf(error);
  return code === READ_ONLY || !LASTING.test(code);
}

/** Why the server cannot start with this database, in one line, with what to do. */
export function startProblem(error: unknown, url: string): ServerError {
  if (error instanceof ServerError) return error;
  const place = placeOf(url);
  const words = wordsOf(error, url);
  const problem = `${place} ${problemOf(codeOf(error), words)}`;
  return new ServerError('unavailable', 'state-unwritable', problem, { cause: error });
}

function problemOf(code: string, words: string): string {
  switch (code) {
    case '28P01':
      return `refuses the password (${words}): correct it in storage.url, or in PGPASSWORD`;
    case '28000':
      return `refuses the user (${words}): correct user and sslmode in storage.url, or what pg_hba.conf allows`;
    case '3D000':
      return `is not there (${words}): make it with createdb, or correct storage.url`;
    case '42501':
      return `does not let this user make or use the tables (${words}): docs/postgres.md says what to grant`;
    case '53300':
      return `has no connection left (${words}): a server takes three, and one more for each backup; raise max_connections`;
    case '57P03':
      return `is starting or stopping (${words}): start svc when it takes connections`;
    case '25006':
      return `takes no writes (${words}): name the primary in storage.url, or add target_session_attrs to what stands before it`;
  }
  if (/CERT|SELF_SIGNED|ALTNAME|VERIFY/.test(code))
    return `has a certificate that is not trusted (${words}): name its authority with sslrootcert=FILE in storage.url`;
  if (/does not support SSL/.test(words))
    return `refuses TLS (${words}): turn it on there (ssl = on), or take sslmode out of storage.url if the network is under your control`;
  if (/password must be a/.test(words)) return 'asks for a password, and none is given: set PGPASSWORD';
  if (/\bopen '/.test(words))
    return `cannot be reached with this storage.url, which names a file that cannot be read (${words})`;
  if (/^E[A-Z]+$/.test(code) || /timeout|terminated|ended/.test(words))
    return `cannot be reached (${words}): is it running, and are host and port in storage.url right?`;
  return `cannot be used (${words})`;
}
