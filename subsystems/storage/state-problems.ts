/** Explains why a directory cannot be a state directory, or cannot be written, and what to do about it. */
import { lstat, readlink, stat } from 'node:fs/promises';
import { dirname, join, parse, resolve, sep } from 'node:path';
import { isDirectory, makeDirectory, messageOf, ServerError } from '../../kernel/index.ts';
import { PRIVATE_DIRECTORY } from './private-files.ts';

/** Advice by the code that the system gives. */
const FIXES: Readonly<Record<string, string>> = {
  EROFS: 'its file system is read-only: mount it for writing, or name a directory on another one',
  EACCES: 'this user may not write there: give it the right to, or name another directory',
  EPERM: 'this user may not write there: give it the right to, or name another directory',
  ENOSPC: 'its file system is full: make room, or name a directory on another one',
  EDQUOT: "this user's share of its file system is full: make room, or name a directory on another one",
  ENAMETOOLONG: 'the path is too long: name a shorter one',
};

const UNMAKEABLE = 'nobody can make a directory there: name one on another file system';

/** Makes the directory and those above it; what was made, the outermost first. Rejects with what the system says. */
export function makePrivateDirectory(root: string): Promise<readonly string[]> {
  return makeDirectory(root, { mode: PRIVATE_DIRECTORY });
}

/** Runs an action, and rejects with `state-unwritable` if the system refuses: then the operator has to mend it. */
export async function guarded<T>(root: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw error instanceof ServerError ? error : unwritable(root, error);
  }
}

export function unwritable(root: string, error: unknown): ServerError {
  const message = `the state directory ${root} cannot be written: ${reasonOf(error)}`;
  return new ServerError('unavailable', 'state-unwritable', message, { cause: error });
}

/**
 * Returns the error for a file of a state directory that could not be read: `state-unwritable` with the fix where this
 * user may not read it, and `state-corrupt` for everything else.
 */
export async function unreadable(file: string, cause: unknown): Promise<ServerError> {
  const words = messageOf(cause);
  if (!isForbidden(cause))
    return new ServerError('unavailable', 'state-corrupt', `${file} cannot be read: ${words}`, { cause });
  const root = dirname(file);
  const owner = await stat(root).then(
    ({ uid }) => uid,
    () => undefined,
  );
  const user = process.getuid?.();
  const fix =
    owner === undefined || owner === user
      ? 'this user may not read there: give it the right to'
      : `it belongs to user ${owner}, and this is user ${user}: start as its owner, or hand it over (chown -R ${user} ${root})`;
  const message = `the state directory ${root} cannot be read: ${fix}, or name another directory (${words})`;
  return new ServerError('unavailable', 'state-unwritable', message, { cause });
}

/** Tells whether the system refused this user what another one may do. */
export function isForbidden(error: unknown): boolean {
  return codeOf(error) === 'EACCES' || codeOf(error) === 'EPERM';
}

/** Tells whether a file system has no room for what was to be written. */
export function isFull(error: unknown): boolean {
  return codeOf(error) === 'ENOSPC' || codeOf(error) === 'EDQUOT';
}

/** Returns what the system says, behind what to do about it where that is known. */
export function reasonOf(error: unknown): string {
  const fix = isUnmakeable(error) ? UNMAKEABLE : new Map(Object.entries(FIXES)).get(codeOf(error));
  return fix === undefined ? messageOf(error) : `${fix} (${messageOf(error)})`;
}

/** Tells whether the directories above are there, but their file system makes none. */
function isUnmakeable(error: unknown): boolean {
  return codeOf(error) === 'ENOENT' && error instanceof Error && 'syscall' in error && error.syscall === 'mkdir';
}

/** Resolves with what is no directory on the way to `root`, and why; undefined: nothing that is there already. */
export async function notDirectory(root: string): Promise<ServerError | undefined> {
  const reason = await obstacle(root);
  if (reason === undefined) return undefined;
  return new ServerError('unavailable', 'state-not-directory', `${root} cannot be the state directory: ${reason}`);
}

async function obstacle(root: string): Promise<string | undefined> {
  const { root: top } = parse(root);
  let path = top;
  for (const name of root.slice(top.length).split(sep)) {
    path = join(path, name);
    const entry = await lstat(path).catch(() => undefined);
    if (entry === undefined) return undefined;
    const reason = entry.isSymbolicLink() ? await linkProblem(path) : undefined;
    if (reason !== undefined) return reason;
    if (!entry.isDirectory() && !(await isDirectory(path))) return `${path} is a file; name a directory`;
  }
  return undefined;
}

async function linkProblem(path: string): Promise<string | undefined> {
  const target = await readlink(path);
  try {
    await stat(path);
    return undefined;
  } catch (error) {
    const shown = `${path} is a link to ${target}`;
    if (codeOf(error) === 'ENOENT')
      return `${shown}, which does not exist; make that directory (mkdir -p ${resolve(dirname(path), target)}), or mend the link`;
    if (codeOf(error) === 'ELOOP') return `${shown}, and its links lead in a circle; mend the link`;
    return `${shown}, which cannot be followed (${messageOf(error)}); mend the link`;
  }
}

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
