/**
 * Opens the tables of a state directory in the store that has them: RocksDB, or SQLite where RocksDB has no binary for
 * the platform, or where that was asked for when the directory was made. The files say which one it is.
 */
import { readdir } from 'node:fs/promises';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { RocksdbTables } from './rocksdb-tables.ts';
import { codeOf } from './state-problems.ts';
import { damaged, unwritable } from './tables-problems.ts';
import type { Tables, WriteOut } from './tables.ts';

export type TablesKind = 'rocksdb' | 'sqlite';

interface OpenedTables {
  readonly tables: Tables;
  /** Missing where the tables cannot be written out beside the thread's own work. */
  readonly writeOut?: WriteOut;
  /** Line for the operator about a choice that nobody has asked for. */
  readonly note: string | undefined;
}

const NAMES: Readonly<Record<TablesKind, string>> = { rocksdb: 'RocksDB', sqlite: 'SQLite' };
const FILES: Readonly<Record<TablesKind, RegExp>> = {
  rocksdb: /^(?:CURRENT|IDENTITY|LOCK|MANIFEST-.*|.*[.](?:sst|log))$/,
  sqlite: /^tables[.]sqlite/,
};
const WAY =
  'serve it where they can be read, take a backup (GET /backup), and start with --restore in an empty directory';

/**
 * Opens or makes the tables in `directory`. Rejects with ServerError `state-other-tables` if they are there, and not of
 * the wanted kind, and with what their own `open` rejects with.
 */
export async function openTables(directory: string, wanted: TablesKind | undefined): Promise<OpenedTables> {
  const kept = await kindIn(directory);
  if (kept !== undefined && wanted !== undefined && kept !== wanted) throw otherTables(directory, kept, wanted);
  const kind = kept ?? wanted;
  if (kind === 'sqlite') return { tables: await openSqlite(directory), note: undefined };
  try {
    const tables = await RocksdbTables.open(directory);
    return { tables, writeOut: () => tables.writeOut(), note: undefined };
  } catch (error) {
    if (!(error instanceof ServerError) || error.code !== 'state-unsupported' || wanted !== undefined) throw error;
    if (kept !== undefined) throw unreadable(directory, error);
    const tables = await openSqlite(directory);
    return { tables, note: `the state keeps its tables in SQLite (--tables sqlite): ${error.message}` };
  }
}

/** Loads the code only where it is needed. */
async function openSqlite(directory: string): Promise<Tables> {
  const { SqliteTables } = await import('./sqlite-tables.ts');
  return SqliteTables.open(directory);
}

/** Resolves with the store whose files are in the directory; undefined: there are none. */
async function kindIn(directory: string): Promise<TablesKind | undefined> {
  let names: readonly string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw unwritable(directory, error);
  }
  const [kind, other] = (['rocksdb', 'sqlite'] as const).filter((each) => names.some((name) => FILES[each].test(name)));
  if (other === undefined) return kind;
  throw damaged(directory, new Error('there are files of RocksDB and of SQLite; take away those that do not belong'));
}

function otherTables(directory: string, kept: TablesKind, wanted: TablesKind): ServerError {
  const message = `${directory} is kept in ${NAMES[kept]}, and --tables ${wanted} asks for ${NAMES[wanted]}: drop --tables to serve it as it is; to move it, ${WAY}`;
  return new ServerError('unavailable', 'state-other-tables', message);
}

function unreadable(directory: string, cause: ServerError): ServerError {
  const message = `${directory} is kept in RocksDB, which cannot be loaded here; to move it, ${WAY} (${messageOf(cause)})`;
  return new ServerError('unavailable', 'state-unsupported', message, { cause });
}
