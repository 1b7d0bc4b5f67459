/**
 * Makes a state directory of a backup. Everything goes into a subdirectory first, and `format`, which makes a
 * directory a state, is written last, when the whole file has been read and found right and everything is on disk:
 *
 *     DIR/lock                          held meanwhile
 *     DIR/unfinished-restore/tables     ─(all is there, synced)─► DIR/tables ─► DIR/format
 *
 * A restore that fails takes away what it wrote. One that is killed leaves a directory that no start takes for a
 * state, or a whole state; `unfinished-restore` is there from the first step to the last, and until then another
 * restore begins anew. A start takes it away before it makes `log`: what has been served is never restored over.
 */
import { mkdir, readdir, rename, rm, rmdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type Clock, type Logger, ServerError, systemClock } from '../../kernel/index.ts';
import { FileSource } from './backup-file.ts';
import { BackupParser } from './backup-parser.ts';
import { openTables, type TablesKind } from './open-tables.ts';
import { PRIVATE_DIRECTORY } from './private-files.ts';
import { FORMAT_FILE, HARMLESS, LOCK_FILE, syncDirectory, UNFINISHED_RESTORE, writeFormat } from './state-directory.ts';
import { takeStateLock } from './state-lock.ts';
import { codeOf, makePrivateDirectory, notDirectory, reasonOf } from './state-problems.ts';
import type { Tables } from './tables.ts';

/** Entries that a killed restore may have left beside `unfinished-restore`. */
const RESTORED: ReadonlySet<string> = new Set(['tables', FORMAT_FILE]);
const NAMES_SHOWN = 5;
const PROGRESS_MS = 5000;

export interface RestoreOptions {
  /** Hears how far it is, every few seconds. */
  readonly log?: Pick<Logger, 'info'>;
  readonly clock?: Pick<Clock, 'nowMs'>;
  /** Store of the tables; undefined: the one that the platform takes. */
  readonly tables?: TablesKind | undefined;
}

export interface Restored {
  readonly entries: number;
  /** Bytes of the file. */
  readonly bytes: number;
}

/**
 * Puts what `file` has into `directory`, which must be empty or not there. Rejects with ServerError
 * `restore-not-empty` before anything is touched; with `backup-unreadable`, `backup-foreign`, `backup-newer`,
 * `backup-older`, `backup-truncated` or `backup-damaged`, which say where; or with `state-unwritable` or
 * `state-locked`. Then the directory is as it was before.
 */
export async function restoreBackup(file: string, directory: string, options: RestoreOptions = {}): Promise<Restored> {
  const root = resolve(directory);
  await checkUnused(root);
  await using source = await FileSource.open(file);
  const parser = new BackupParser(source);
  const batches = parser.changes();
  // A file that is no backup is refused before anything is made.
  const first = await batches.next();
  const [created] = await guarded(root, () => makePrivateDirectory(root));
  try {
    const unlock = await guarded(root, () => takeStateLock(root, LOCK_FILE));
    try {
      // Again under the lock: another process may have been faster.
      await checkUnused(root);
      const progress = new Progress(source, parser, options);
      await build(root, options, async (tables) => {
        for (let batch = first; batch.done !== true; batch = await batches.next()) {
          tables.write(batch.value, { isSynced: false });
          progress.tell();
        }
        return parser.stateFormat;
      });
    } finally {
      await unlock();
    }
  } catch (error) {
    if (created !== undefined) await removeEmpty(root, created);
    throw error;
  }
  return { entries: parser.entries, bytes: parser.bytes };
}

/** Makes the state, wholly or not at all; `fill` resolves with its format. */
async function build(
  root: string,
  { tables: wanted, log }: RestoreOptions,
  fill: (tables: Tables) => Promise<number>,
): Promise<void> {
  const unfinished = join(root, UNFINISHED_RESTORE);
  const tables = join(root, 'tables');
  /** The directory that marks the restore as unfinished goes last, whenever this ends. */
  const remove = async (): Promise<void> => {
    await rm(join(root, FORMAT_FILE), { force: true });
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
      format = await fill(opened);
      opened.write([], { isSynced: true });
    } finally {
      await opened.close();
    }
    await guarded(root, async () => {
      await syncDirectory(join(unfinished, 'tables'));
      await rename(join(unfinished, 'tables'), tables);
      await syncDirectory(root);
      await writeFormat(root, format);
      await rmdir(unfinished);
    });
  } catch (error) {
    // The reason counts, not what else fails on the same disk: without `format` it is no state.
    await remove().catch(() => undefined);
    throw error;
  }
}

/** Refuses a directory that holds anything but what a broken-off start or restore left there. */
async function checkUnused(root: string): Promise<void> {
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
  throw notEmpty(
    kept.includes('format') ? `${root} holds a state already (drop --restore to serve it)` : `${root} holds ${shown}`,
  );
}

function notEmpty(what: string): ServerError {
  return new ServerError(
    'invalid',
    'restore-not-empty',
    `${what}: a backup is restored into an empty directory, or one that does not exist yet`,
  );
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

/** A line every few seconds. */
class Progress {
  readonly #source: FileSource;
  readonly #parser: BackupParser;
  readonly #log: RestoreOptions['log'];
  readonly #clock: Pick<Clock, 'nowMs'>;
  #toldMs: number;

  constructor(source: FileSource, parser: BackupParser, { log, clock = systemClock }: RestoreOptions) {
    this.#source = source;
    this.#parser = parser;
    this.#log = log;
    this.#clock = clock;
    this.#toldMs = clock.nowMs();
  }

  tell(): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#toldMs < PROGRESS_MS) return;
    this.#toldMs = nowMs;
    const { name, sizeBytes } = this.#source;
    const { entries, bytes } = this.#parser;
    const whole = sizeBytes === undefined ? '' : ` of ${sizeBytes}`;
    this.#log?.info(`restoring ${name}: ${bytes}${whole} bytes, ${entries} entries`);
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
