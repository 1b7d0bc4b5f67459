/**
 * Makes a state directory of what is brought back. Everything goes into a subdirectory first, and `format`, which makes
 * a directory a state, is written last, when all has been read and found right and everything is on disk:
 *
 *     DIR/lock                          held meanwhile
 *     DIR/unfinished-restore/tables     ─(all is there, synced)─► DIR/tables ─► DIR/format
 *
 * A restore that fails takes away what it wrote. One that is killed leaves a directory that no start takes for a
 * state, or a whole state; `unfinished-restore` is there from the first step to the last, and until then another
 * restore begins anew. A start takes it away before it makes `log`: what has been served is never restored over.
 */
import { mkdir, open, readdir, rename, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Logger, ServerError } from '../../kernel/index.ts';
import { openTables, type TablesKind } from './open-tables.ts';
import { PRIVATE_DIRECTORY, PRIVATE_FILE } from './private-files.ts';
import {
  FOLLOWING_FILE,
  FORMAT_FILE,
  HARMLESS,
  LOCK_FILE,
  syncDirectory,
  UNFINISHED_RESTORE,
  writeFormat,
} from './state-directory.ts';
import { takeStateLock } from './state-lock.ts';
import { codeOf, makePrivateDirectory, notDirectory, reasonOf } from './state-problems.ts';
import type { Tables } from './tables.ts';

/** Entries that a killed restore may have left beside `unfinished-restore`. */
const RESTORED: ReadonlySet<string> = new Set(['tables', FORMAT_FILE, FOLLOWING_FILE]);
const NAMES_SHOWN = 5;

export interface MakeStateOptions {
  /** Hears how far it is, every few seconds. */
  readonly log?: Pick<Logger, 'info'>;
  /** Store of the tables; undefined: the one that the platform takes. */
  readonly tables?: TablesKind | undefined;
  /** Contents of `following`, which makes the state a copy that follows an archive. */
  readonly following?: string | undefined;
}

/**
 * Fills tables, resolves with the format of the state; `scratch` is a directory for whatever is needed meanwhile.
 */
type Fill = (tables: Tables, scratch: string) => Promise<number>;

/** Makes the state, wholly or not at all. `root` is absolute, and has been found unused. */
export async function makeState(root: string, options: MakeStateOptions, fill: Fill): Promise<void> {
  const [created] = await guarded(root, () => makePrivateDirectory(root));
  try {
    const unlock = await guarded(root, () => takeStateLock(root, LOCK_FILE));
    try {
      // Again under the lock: another process may have been faster.
      await checkUnused(root);
      await build(root, options, fill);
    } finally {
      await unlock();
    }
  } catch (error) {
    if (created !== undefined) await removeEmpty(root, created);
    throw error;
  }
}

async function build(root: string, { tables: wanted, log, following }: MakeStateOptions, fill: Fill): Promise<void> {
  const unfinished = join(root, UNFINISHED_RESTORE);
  const tables = join(root, 'tables');
  /** The directory that marks the restore as unfinished goes last, whenever this ends. */
  const remove = async (): Promise<void> => {
    for (const name of [FORMAT_FILE, FOLLOWING_FILE]) await rm(join(root, name), { force: true });
    await syncDirectory(root);
    for (const path of [tables, unfinished]) await rm(path, { recursive: true, force: true });
  };
  try {
    await guarded(root, async () => {
      await remove();
      await mkdir(unfinished, { mode: PRIVATE_DIRECTORY });
      await syncDirectory(root);
    });
    const { tables: opened, note } = await openTables(join(unfinished, 'tables'), wanted);
    if (note !== undefined) log?.info(note);
    let format: number;
    try {
      format = await fill(opened, unfinished);
      opened.write([], { isSynced: true });
    } finally {
      await opened.close();
    }
    await guarded(root, async () => {
      await syncDirectory(join(unfinished, 'tables'));
      await rename(join(unfinished, 'tables'), tables);
      await syncDirectory(root);
      if (following !== undefined) await writeWhole(join(root, FOLLOWING_FILE), following);
      await writeFormat(root, format);
      await rm(unfinished, { recursive: true, force: true });
    });
  } catch (error) {
    // The reason counts, not what else fails on the same disk: without `format` it is no state.
    await remove().catch(() => undefined);
    throw error;
  }
}

/**
 * Rejects with ServerError `restore-not-empty` for a directory that holds anything but what a broken-off start or
 * restore left there.
 */
export async function checkUnused(root: string): Promise<void> {
  let names: readonly string[];
  try {
    names = await readdir(root);
  } catch (error) {
    if (codeOf(error) === 'ENOTDIR') throw notEmpty(`${root} is a file`);
    const wrong = await notDirectory(root);
    if (wrong !== undefined) throw wrong;
    if (codeOf(error) === 'ENOENT') return;
    throw unwritable(root, error);
  }
  const isUnfinished = names.includes(UNFINISHED_RESTORE) && !names.includes('log');
  const isOurs = (name: string): boolean =>
    name === UNFINISHED_RESTORE || HARMLESS.test(name) || (isUnfinished && RESTORED.has(name));
  const kept = names.filter((name) => !isOurs(name)).toSorted();
  if (kept.length === 0) return;
  const shown = kept.slice(0, NAMES_SHOWN).join(', ') + (kept.length > NAMES_SHOWN ? ', …' : '');
  const serve = 'drop --restore or --restore-archive to serve it; what was served follows no archive any more';
  throw notEmpty(kept.includes('format') ? `${root} holds a state already (${serve})` : `${root} holds ${shown}`);
}

function notEmpty(what: string): ServerError {
  return new ServerError(
    'invalid',
    'restore-not-empty',
    `${what}: restoring needs an empty directory, or one that does not exist yet`,
  );
}

async function writeWhole(path: string, text: string): Promise<void> {
  await using file = await open(path, 'w', PRIVATE_FILE);
  await file.writeFile(text);
  await file.sync();
}

/** Takes away the directories that were made for nothing, unless somebody else has put something there. */
async function removeEmpty(root: string, created: string): Promise<void> {
  try {
    for (let path = root; ; path = dirname(path)) {
      await rmdir(path);
      if (path === created) return;
    }
  } catch {
    // Empty directories harm nobody.
  }
}

async function guarded<T>(root: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw error instanceof ServerError ? error : unwritable(root, error);
  }
}

function unwritable(root: string, cause: unknown): ServerError {
  const message = `nothing can be restored into ${root}: ${reasonOf(cause)}`;
  return new ServerError('unavailable', 'state-unwritable', message, { cause });
}
