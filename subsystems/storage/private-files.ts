/**
 * The state is for nobody but the user who runs the server: the secrets of signing keys are among it. What the server
 * makes itself it makes closed; RocksDB's files follow the process's umask; and what was there before is closed here.
 */
import type { Dirent } from 'node:fs';
import { chmod, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

export const PRIVATE_DIRECTORY = 0o700;
export const PRIVATE_FILE = 0o600;
/** Bits of group and others. */
const OTHERS = 0o077;

/** Makes every file that this process creates from now on private to its user. Works in the main thread only. */
export function keepNewFilesPrivate(): void {
  process.umask(OTHERS);
}

/**
 * Closes a directory and, of its contents, these names with all that is below them. Links are followed where they are
 * one of these names, and nowhere else. Returns the names that others can still get at: files of another user cannot
 * be closed, nor anything where the file system has no such rights.
 */
export async function closeToOthers(root: string, names: readonly string[]): Promise<readonly string[]> {
  // First the door, then the rooms.
  const isShut = await close(root);
  const open: string[] = [];
  for (const name of names) if (!(await closeAll(join(root, name))) && !isShut) open.push(name);
  return open;
}

/** Returns true if nobody else can get at the path. */
async function closeAll(path: string): Promise<boolean> {
  const isShut = await close(path);
  for (const entry of await entriesOf(path)) {
    if (entry.isFile() || entry.isDirectory()) await close(join(entry.parentPath, entry.name));
  }
  return isShut;
}

/** Returns the entries of a directory; none for a file, and for what does not exist. */
async function entriesOf(path: string): Promise<readonly Dirent[]> {
  try {
    return await readdir(path, { recursive: true, withFileTypes: true });
  } catch {
    return [];
  }
}

/** Returns true if nobody else can read, write or enter the path now, or if it does not exist. */
async function close(path: string): Promise<boolean> {
  try {
    const status = await stat(path);
    if ((status.mode & OTHERS) === 0) return true;
    await chmod(path, status.isDirectory() ? PRIVATE_DIRECTORY : PRIVATE_FILE);
    return ((await stat(path)).mode & OTHERS) === 0;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ENOENT';
  }
}
