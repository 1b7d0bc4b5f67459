/**
 * Verifies a state directory without changing it: all that a start would read is read, from a copy. Tables that
 * RocksDB never changes are linked into the copy where the file system can, so that a large state takes no second
 * place; the rest (the step log, RocksDB's own log, a database of SQLite) is copied, because opening it writes.
 */
import { constants } from 'node:fs';
import { copyFile, link, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { isDirectory, ServerError } from '../../kernel/index.ts';
import { FileDisk } from './file-disk.ts';
import { openTables, type TablesKind } from './open-tables.ts';
import { LOCK_FILE, readFormat, tryDirectory } from './state-directory.ts';
import { refuseIfInUse } from './state-lock.ts';
import { codeOf, isFull, reasonOf, unreadable } from './state-problems.ts';
import { StateStore } from './state-store.ts';
import { StepLog } from './step-log.ts';
import { FAMILIES } from './tables.ts';

interface VerifiedState {
  /** False if there is no state yet: a start would make one. */
  readonly exists: boolean;
  readonly entries: number;
  readonly bytes: number;
}

const NOTHING: VerifiedState = { exists: false, entries: 0, bytes: 0 };
/** Files that RocksDB writes once. */
const WRITTEN_ONCE = /\.sst$/;
const FIRST_KEY: Uint8Array = new Uint8Array(0);

/**
 * Reads the whole state. Rejects with the ServerError with which a start would fail; `state-locked` while a server uses
 * the directory.
 */
export async function verifyState(path: string, wanted?: TablesKind): Promise<VerifiedState> {
  const root = resolve(path);
  await tryDirectory(root);
  if (!(await isDirectory(root))) return NOTHING;
  if ((await readFormat(root)) === undefined) return NOTHING;
  await refuseIfInUse(root, LOCK_FILE);
  const copy = await writing(root, () => mkdtemp(join(tmpdir(), 'svc-check-')));
  try {
    await writing(root, async () => {
      for (const name of ['tables', 'log']) await copyFolder(join(root, name), join(copy, name));
    });
    return await readAll(copy, wanted);
  } catch (error) {
    // A reader knows the directory by its own name.
    if (error instanceof ServerError) error.message = error.message.replaceAll(copy, () => root);
    throw error;
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

/** Rejects with `state-unwritable` if the folder for temporary files does not take the copy. */
async function writing<T>(root: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof ServerError) throw error;
    const message =
      `the state directory ${root} is read from a copy in the folder for temporary files, ${tmpdir()}, ` +
      `which cannot be written: ${reasonOf(error)}; the variable TMPDIR names another folder`;
    throw new ServerError('unavailable', 'state-unwritable', message, { cause: error });
  }
}

/** Rejects with a start's words about what cannot be read, and with the system's about what cannot be written. */
async function copyFolder(from: string, to: string): Promise<void> {
  await mkdir(to);
  const entries = await readdir(from, { withFileTypes: true }).catch(async (error: unknown) => {
    // A start makes the folder, and goes by what is in the other one.
    if (codeOf(error) === 'ENOENT') return [];
    throw await unreadable(from, error);
  });
  for (const entry of entries) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (!entry.isFile()) continue;
    const isLinked = WRITTEN_ONCE.test(entry.name) && (await linked(source, target));
    if (isLinked) continue;
    await copyFile(source, target, constants.COPYFILE_FICLONE).catch(async (error: unknown) => {
      throw isFull(error) ? error : await unreadable(source, error);
    });
  }
}

/** Returns false where the copy is on another file system, or links are not allowed. */
async function linked(from: string, to: string): Promise<boolean> {
  return link(from, to).then(
    () => true,
    () => false,
  );
}

async function readAll(copy: string, wanted: TablesKind | undefined): Promise<VerifiedState> {
  const { tables } = await openTables(join(copy, 'tables'), wanted);
  let store: StateStore | undefined;
  try {
    store = new StateStore(tables, (known) => StepLog.open(new FileDisk(join(copy, 'log')), known), {
      isSynced: false,
    });
    // Reads the whole step log, and brings it into the copy's tables.
    store.fold();
    let entries = 0;
    let bytes = 0;
    for (const family of FAMILIES) {
      for (const [key, value] of tables.range(family, FIRST_KEY, undefined)) {
        entries++;
        bytes += key.length + value.length;
      }
    }
    return { exists: true, entries, bytes };
  } finally {
    await (store ?? tables).close();
  }
}
