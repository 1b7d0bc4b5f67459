/**
 * The database of SQLite behind `sqlite-tables.ts`: its file, its schema, its settings and its errors.
 *
 *     tables.sqlite        a table for each family: rows by number, with an index by key; `counts`, rows of each table
 *     tables.sqlite-wal    what the database does not have yet (SQLite's log)
 *     tables.lock          held by the process that uses the tables
 *
 * Rows by number: a row of 4 KiB keeps most of its bytes on a page of its own, which a search by number does not read.
 * In a table without numbers (WITHOUT ROWID) a search compares whole rows, and would read such a page for each.
 */
import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type * as sqliteModule from 'node:sqlite';
import { ServerError } from '../../kernel/index.ts';
import { PRIVATE_DIRECTORY, PRIVATE_FILE } from './private-files.ts';
import { syncDirectory } from './state-directory.ts';
import { damaged, inUse, unwritable } from './tables-problems.ts';
import { FAMILIES } from './tables.ts';

type Sqlite = typeof sqliteModule;

const DATABASE_FILE = 'tables.sqlite';
const LOCK_FILE = 'tables.lock';
const NEW_FILE = 'new.sqlite';
/** Marks the file as ours: the letters svct. */
const APPLICATION_ID = 0x73_76_63_74;
const SCHEMA_VERSION = 1;
const CACHE_KIB = 8192;
/** Readers hold a range or a backup, and read each page once. */
const READER_CACHE_KIB = 1024;
/** SQLite moves its log into the database when the log has so many pages: 4 MiB, some 10 ms. */
const LOG_PAGES = 1024;
/** Bytes that the file of the log keeps, after a snapshot has held it for long. */
const LOG_BYTES_KEPT = 16 * 2 ** 20;
// Primary codes of results (sqlite.org/rescode.html).
const BUSY = 5;
const LOCKED = 6;
const CORRUPT = 11;
const NOT_A_DATABASE = 26;

/** One connection that writes, and as many that read as are wanted. */
export interface OpenDatabase {
  readonly directory: string;
  readonly writer: DatabaseSync;
  /** Makes another connection, which can only read. */
  readonly connect: () => DatabaseSync;
  /** Lets other processes in. */
  readonly unlock: () => void;
}

/** Returns Node's own SQLite. Throws ServerError `state-unsupported` where Node was built without it. */
function loadSqlite(): Sqlite {
  const emitWarning: unknown = Reflect.get(process, 'emitWarning');
  // Some versions of Node call the module experimental, on the user's stderr.
  process.emitWarning = () => undefined;
  let sqlite: Sqlite | undefined;
  try {
    sqlite = process.getBuiltinModule('node:sqlite');
  } finally {
    Reflect.set(process, 'emitWarning', emitWarning);
  }
  if (sqlite !== undefined) return sqlite;
  throw new ServerError('unavailable', 'state-unsupported', 'this Node was built without SQLite');
}

/** Opens the database of a directory; both are made where there are none. Rejects as `SqliteTables.open` does. */
export async function openDatabase(directory: string): Promise<OpenDatabase> {
  const { DatabaseSync: Database } = loadSqlite();
  const path = join(directory, DATABASE_FILE);
  const lock = await lockOf(directory, Database);
  try {
    if (!existsSync(path)) await make(directory, Database);
    const writer = new Database(path);
    check(writer, path);
    writer.exec(
      `pragma cache_size = ${-CACHE_KIB}; pragma temp_store = memory; pragma cell_size_check = on;
       pragma wal_autocheckpoint = ${LOG_PAGES}; pragma journal_size_limit = ${LOG_BYTES_KEPT}`,
    );
    const connect = (): DatabaseSync => {
      const reader = new Database(path, { readOnly: true });
      reader.exec(`pragma cache_size = ${-READER_CACHE_KIB}; pragma cell_size_check = on`);
      return reader;
    };
    return { directory, writer, connect, unlock: () => lock.close() };
  } catch (error) {
    lock.close();
    throw problemOf(error, path);
  }
}

/** Takes the lock, which the system drops with the process; it also holds between containers. */
async function lockOf(directory: string, Database: Sqlite['DatabaseSync']): Promise<DatabaseSync> {
  const path = join(directory, LOCK_FILE);
  try {
    await mkdir(directory, { recursive: true, mode: PRIVATE_DIRECTORY });
    // SQLite does not say why a file cannot be made. One that is there is not opened: the system would drop the lock
    // that this process may have, when the file is closed.
    if (!existsSync(path)) closeSync(openSync(path, 'a', PRIVATE_FILE));
  } catch (error) {
    throw unwritable(directory, error);
  }
  const lock = new Database(path);
  try {
    lock.exec('pragma locking_mode = exclusive; begin exclusive');
    return lock;
  } catch (error) {
    lock.close();
    throw isBusy(error) ? inUse(directory, error) : problemOf(error, path);
  }
}

/** Makes the database wholly or not at all: a file that is empty, or lacks its tables, is damage from then on. */
async function make(directory: string, Database: Sqlite['DatabaseSync']): Promise<void> {
  const path = join(directory, DATABASE_FILE);
  if (existsSync(`${path}-wal`))
    throw damaged(directory, new Error(`the file ${DATABASE_FILE} is missing, but there is ${DATABASE_FILE}-wal`));
  const made = join(directory, NEW_FILE);
  for (const end of ['', '-wal', '-shm', '-journal']) rmSync(made + end, { force: true });
  closeSync(openSync(made, 'a', PRIVATE_FILE));
  const database = new Database(made);
  try {
    // The order counts: pages that can be given back are a matter of the first page.
    database.exec('pragma auto_vacuum = incremental; pragma journal_mode = wal; pragma synchronous = full');
    database.exec(`begin; ${SCHEMA}; commit; pragma wal_checkpoint(truncate)`);
  } finally {
    database.close();
  }
  renameSync(made, path);
  await syncDirectory(directory);
}

const SCHEMA = [
  ...FAMILIES.flatMap((family) => [
    `create table ${family} (id integer primary key, key blob not null, sum integer not null, value blob not null)`,
    `create unique index ${family}_key on ${family} (key)`,
    `insert into counts values ('${family}', 0)`,
  ]),
  "insert into counts values ('syncs', 0)",
  `pragma application_id = ${APPLICATION_ID}`,
  `pragma user_version = ${SCHEMA_VERSION}`,
]
  .toSpliced(0, 0, 'create table counts (name text primary key, rows integer not null) without rowid')
  .join(';');

function check(database: DatabaseSync, path: string): void {
  const application = numberOf(database, 'pragma application_id');
  if (application !== APPLICATION_ID) throw damaged(path, new Error('the file is not what svc has made'));
  const version = numberOf(database, 'pragma user_version');
  if (version === SCHEMA_VERSION) return;
  if (version < SCHEMA_VERSION) throw damaged(path, new Error(`its tables have version ${version}`));
  const message = `${path} has tables of version ${version}, written by a newer svc; this one reads version ${SCHEMA_VERSION}: upgrade svc`;
  throw new ServerError('unavailable', 'state-newer', message);
}

/** Returns the only number that a statement gives. */
export function numberOf(database: DatabaseSync, sql: string): number {
  const [value] = Object.values(database.prepare(sql).get() ?? {});
  return Number(value);
}

function resultCodeOf(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error ? Number(error.errcode) & 0xff : undefined;
}

function isBusy(error: unknown): boolean {
  return [BUSY, LOCKED].includes(resultCodeOf(error) ?? 0);
}

function isDamage(error: unknown): boolean {
  return [CORRUPT, NOT_A_DATABASE].includes(resultCodeOf(error) ?? 0);
}

/** Returns the ServerError for an error of SQLite that was met while something was opened or written. */
export function problemOf(error: unknown, place: string): ServerError {
  if (error instanceof ServerError) return error;
  return isDamage(error) ? damaged(place, error) : unwritable(place, error);
}
