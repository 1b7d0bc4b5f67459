/**
 * A PostgreSQL of its own in a temporary directory, run by an unprivileged user. Debian's package `postgresql` has the
 * programs.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePort } from './free-port.ts';
import { sharedWork } from './shared-work.ts';

const run = promisify(execFile);
const VERSIONS = '/usr/lib/postgresql';
const READY_DEADLINE_MS = 60_000;
/** Size of PostgreSQL's blocks, its unit of reading, writing and checking. */
const BLOCK_BYTES = 8192;
/** User that Debian's package makes. */
const USER = 'postgres';
/** The one role that needs a password; a test makes the role. */
export const PASSWORD_ROLE = 'with_password';

export interface Postgres extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  /** Runs a query as the superuser, in the database that `url` names or in another one. */
  query(text: string, database?: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
  /** Makes an empty database; resolves to its URL. */
  createDatabase(): Promise<string>;
  /**
   * Stops the server: `crash` at once, as a crash of the machine would (SIGQUIT); `fast` as an operator would (SIGINT).
   */
  stop(how: 'crash' | 'fast'): Promise<void>;
  start(): Promise<void>;
  /** Keeps the present data for `goBack`; the server is stopped for a moment. */
  keep(): Promise<void>;
  /**
   * Crashes the server and returns to the kept data, as a replica does that takes over without the last transactions.
   */
  goBack(): Promise<void>;
  /** Damages a block of a table, which cannot be read any more. */
  overwrite(table: string, block: number, database: string): Promise<void>;
}

interface PostgresOptions {
  /** Settings of postgresql.conf, each `name=value`. */
  readonly settings?: readonly string[];
  /** True if commits wait for the disk. Default: false, since tests kill processes and no machines. */
  readonly isSynced?: boolean;
}

/** Makes the files of an empty PostgreSQL in a new directory; returns their directory. */
export async function makePostgresFiles(): Promise<string> {
  const user = await unprivilegedUser();
  const directory = await makeDirectory(user);
  const data = join(directory, 'data');
  const init = ['-D', data, '-U', USER, '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  await run(join(await programsDirectory(), 'initdb'), init, { cwd: directory, ...user });
  // Only this role needs a password.
  const rules = `host all ${PASSWORD_ROLE} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n`;
  await writeFile(join(data, 'pg_hba.conf'), rules);
  return data;
}

export async function startPostgres({ settings = [], isSynced = false }: PostgresOptions = {}): Promise<Postgres> {
  const programs = await programsDirectory();
  const user = await unprivilegedUser();
  // A run of tests makes the files once: that takes half of a start.
  const made = await sharedWork('makePostgres', null);
  const directory = made === undefined ? dirname(await makePostgresFiles()) : await makeDirectory(user);
  const data = join(directory, 'data');
  if (made !== undefined) await run('cp', ['-a', made, data]);
  const port = await freePort();
  const base = ['listen_addresses=127.0.0.1', `port=${port}`, `unix_socket_directories=${directory}`];
  const quick = isSynced ? [] : ['fsync=off', 'full_page_writes=off'];
  const args = ['-D', data, ...[...base, ...quick, ...settings].flatMap((setting) => ['-c', setting])];
  let child: ChildProcess | undefined;
  let said = '';
  let databases = 0;
  const url = (database = 'postgres'): string => `postgres://${USER}@127.0.0.1:${port}/${database}`;
  const query: Postgres['query'] = async (text, database) => {
    const client = new pg.Client(url(database));
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  };
  const start = async (): Promise<void> => {
    const started = spawn(join(programs, 'postgres'), args, {
      cwd: directory,
      stdio: ['ignore', 'ignore', 'pipe'],
      ...user,
    });
    child = started;
    started.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    for (const deadline = Date.now() + READY_DEADLINE_MS; ; await sleep(20)) {
      if (started.exitCode !== null || Date.now() > deadline) throw new Error(`PostgreSQL did not start:\n${said}`);
      if (
        await query('SELECT 1').then(
          () => true,
          () => false,
        )
      )
        return;
    }
  };
  const stop = async (how: 'crash' | 'fast'): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(how === 'crash' ? 'SIGQUIT' : 'SIGINT');
    await exited;
  };
  const kept = join(directory, 'kept');
  const copy = async (from: string, to: string): Promise<void> => {
    await rm(to, { recursive: true, force: true });
    await run('cp', ['-a', from, to]);
  };
  await start();
  return {
    port,
    url: url(),
    query,
    createDatabase: async () => {
      const name = `test_${++databases}`;
      await query(`CREATE DATABASE ${name}`);
      return url(name);
    },
    start,
    stop,
    keep: async () => {
      await stop('fast');
      await copy(data, kept);
      await start();
    },
    goBack: async () => {
      await stop('crash');
      await copy(kept, data);
      await start();
    },
    overwrite: async (table, block, database) => {
      const [row] = await query(`SELECT pg_relation_filepath('${table}') AS path`, database);
      await stop('fast');
      const file = await open(join(data, String(row?.['path'])), 'r+');
      await file.write(Buffer.alloc(24, 0xee), 0, 24, block * BLOCK_BYTES);
      await file.close();
      await start();
    },
    [Symbol.asyncDispose]: async () => {
      await stop('crash');
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function makeDirectory(user: Awaited<ReturnType<typeof unprivilegedUser>>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-postgres-'));
  if (user !== undefined) await chown(directory, user.uid, user.gid);
  return directory;
}

async function programsDirectory(): Promise<string> {
  const versions = (await readdir(VERSIONS)).map(Number).toSorted((a, b) => b - a);
  return join(VERSIONS, String(versions[0]), 'bin');
}

/** PostgreSQL refuses to be run by root. */
async function unprivilegedUser(): Promise<{ readonly uid: number; readonly gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (which) => Number((await run('id', [which, USER])).stdout)),
  );
  if (uid === undefined || gid === undefined) throw new Error(`there is no user ${USER}`);
  return { uid, gid };
}
