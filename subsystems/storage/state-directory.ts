/**
 * A state directory, before anything in it is opened:
 *
 *     format     `svc state, format 3`: that it is ours, and how to read the rest
 *     lock       who uses it, as JSON; goes when it is closed
 *     tables/    RocksDB
 *     log/       the step log
 *     motoko/    what the compiler made
 *     archive    which line of an archive it writes, if there is one (archive/identity.ts)
 *     following  which line of an archive it follows, while it does
 *     modules/   what the instrumenter made
 *
 * A directory of an older format is taken over in steps (format-steps.ts), a newer one is refused by name.
 *
 * `format` is there before anything else but `lock`, so a directory without it holds nothing of ours. All of it is
 * closed to other users, also what an earlier version left open (private-files.ts).
 */
import { constants } from 'node:fs';
import { access, mkdir, open, readdir, readFile, rename, rm, rmdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { ServerError } from '../../kernel/index.ts';
import { FORMAT, FORMAT_STEPS, formatAfter, type FormatStep, OLDEST_FORMAT } from './format-steps.ts';
import { closeToOthers, PRIVATE_DIRECTORY, PRIVATE_FILE } from './private-files.ts';
import { takeStateLock } from './state-lock.ts';
import { codeOf, guarded, makePrivateDirectory, notDirectory, unreadable, unwritable } from './state-problems.ts';

export interface StateDirectory {
  /** Absolute. */
  readonly path: string;
  readonly tables: string;
  readonly log: string;
  /** Entries of the directory that other users can get at, because their rights cannot be changed. */
  readonly exposed: readonly string[];
  /** The format that was found and taken over; undefined if nothing was kept here before. */
  readonly found: number | undefined;
  /** Removes the lock. Close what is open in the directory first. */
  readonly close: () => Promise<void>;
}

export const FORMAT_FILE = 'format';
const NEW_FORMAT_FILE = 'format.new';
export const LOCK_FILE = 'lock';
/**
 * Names that a directory may hold that is to become a state: left by a start that broke off, or put there by a file
 * system.
 */
export const HARMLESS = /^(?:format[.]new|lock(?:[.].*)?|lost[+]found|svc-capacity-.*)$/;
const DIRECTORIES = ['tables', 'log', 'motoko', 'modules'] as const;
/**
 * Directory that exists from the beginning of a restore to its end, or, if the restore was killed after its end, to the
 * first start.
 */
export const UNFINISHED_RESTORE = 'unfinished-restore';
/** File of a directory that is a copy which follows an archive; what has been served follows no more. */
export const FOLLOWING_FILE = 'following';
const NAMES_SHOWN = 5;

/**
 * Creates the directory if there is none, and takes its lock. With `follows` it stays a copy that follows. Rejects
 * with ServerError `state-not-directory`, `state-foreign`, `state-newer`, `state-older`, `state-corrupt`, `state-
 * unwritable` or `state-locked`.
 */
export async function openStateDirectory(
  path: string,
  steps: readonly FormatStep[] = FORMAT_STEPS,
  { follows = false }: { readonly follows?: boolean } = {},
): Promise<StateDirectory> {
  const newest = formatAfter(steps);
  const root = resolve(path);
  await createDirectory(root);
  // Before the lock is written: nothing is put into somebody else's directory.
  await readFormat(root, newest);
  const unlock = await guarded(root, () => takeStateLock(root, LOCK_FILE));
  try {
    // Again under the lock: another process may have been about to write it.
    const found = await readFormat(root, newest);
    const isNew = found === undefined;
    await guarded(root, () => (isNew ? writeFormat(root, newest) : takeOver(root, found, steps)));
    await guarded(root, async () => {
      // From now on this is a state that was served, and no restore may begin anew.
      await rm(join(root, UNFINISHED_RESTORE), { recursive: true, force: true });
      if (!follows) await rm(join(root, FOLLOWING_FILE), { force: true });
      for (const name of DIRECTORIES) await mkdir(join(root, name), { recursive: true, mode: PRIVATE_DIRECTORY });
      await syncDirectory(root);
    });
    const exposed = await closeToOthers(root, [FORMAT_FILE, LOCK_FILE, FOLLOWING_FILE, ...DIRECTORIES]);
    return { path: root, tables: join(root, 'tables'), log: join(root, 'log'), exposed, found, close: unlock };
  } catch (error) {
    await unlock();
    throw error;
  }
}

/**
 * Rejects as `openStateDirectory` would where the directory cannot be made or written. One that was not there is made,
 * and removed again.
 */
export async function tryDirectory(path: string): Promise<void> {
  const root = resolve(path);
  const made = await createDirectory(root);
  if (made.length === 0) await guarded(root, () => access(root, constants.W_OK | constants.X_OK));
  // A directory that another process has put something into stays.
  for (const each of made.toReversed()) await rmdir(each).catch(() => undefined);
}

/** Returns the directories that were made, the outermost first. */
async function createDirectory(root: string): Promise<readonly string[]> {
  try {
    const made = await makePrivateDirectory(root);
    for (const each of made) await syncDirectory(dirname(each));
    return made;
  } catch (error) {
    throw (await notDirectory(root)) ?? unwritable(root, error);
  }
}

/**
 * Returns the version of the state in a directory; undefined if there is none. Rejects with ServerError
 * `state-foreign`, `state-newer`, `state-older`, `state-corrupt`, or `state-unwritable` if this user may not read it.
 */
export async function readFormat(root: string, newest: number = FORMAT): Promise<number | undefined> {
  const file = join(root, FORMAT_FILE);
  let text: string;
  try {
    text = await readFile(file, 'latin1');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return checkEmpty(root);
    throw await unreadable(file, error);
  }
  const [, digits] = /^svc state, format ([1-9]\d{0,8})\n/.exec(text) ?? [];
  if (digits === undefined) {
    const message = `${file} is damaged: it should begin with "svc state, format ${FORMAT}", and begins with ${JSON.stringify(text.slice(0, 40))}; restore it from a backup`;
    throw new ServerError('unavailable', 'state-corrupt', message);
  }
  const version = Number(digits);
  if (version > newest) {
    const message = `the state in ${root} has format ${version}, written by a newer svc; this one reads up to format ${newest}: upgrade svc, or restore a backup that the older one made`;
    throw new ServerError('unavailable', 'state-newer', message);
  }
  if (version < OLDEST_FORMAT) {
    const message = `the state in ${root} has format ${version}, written by an older svc; this one reads formats ${OLDEST_FORMAT} to ${newest}: go on with the svc that wrote it, or name an empty directory`;
    throw new ServerError('unavailable', 'state-older', message);
  }
  return version;
}

async function checkEmpty(root: string): Promise<undefined> {
  const names = await guarded(root, () => readdir(root));
  const foreign = names.filter((name) => !HARMLESS.test(name)).toSorted();
  if (foreign.length === 0) return undefined;
  if (foreign.includes(UNFINISHED_RESTORE)) {
    const message = `${root} holds a restore that was not finished (${UNFINISHED_RESTORE}): start again with --restore, or name another directory`;
    throw new ServerError('unavailable', 'state-foreign', message);
  }
  const shown = foreign.slice(0, NAMES_SHOWN).join(', ') + (foreign.length > NAMES_SHOWN ? ', …' : '');
  const message = `${root} is not empty and not a state directory of svc: it holds ${shown}; name an empty directory, or one that does not exist yet`;
  throw new ServerError('unavailable', 'state-foreign', message);
}

/** Takes a directory over, one format after the other. A step that was killed begins again. */
async function takeOver(root: string, found: number, steps: readonly FormatStep[]): Promise<void> {
  for (const [index, step] of steps.entries()) {
    const from = OLDEST_FORMAT + index;
    if (from < found) continue;
    await step.run(root);
    await writeFormat(root, from + 1);
  }
}

/** Writes the format, wholly or not at all, whenever the machine stops. */
export async function writeFormat(root: string, format: number = FORMAT): Promise<void> {
  const text = `svc state, format ${format}\nWritten by svc, which needs this file: do not change or remove it.\n`;
  const written = join(root, NEW_FORMAT_FILE);
  {
    await using file = await open(written, 'w', PRIVATE_FILE);
    await file.writeFile(text);
    await file.sync();
  }
  await rename(written, join(root, FORMAT_FILE));
  await syncDirectory(root);
}

export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r');
  await directory.sync();
}
