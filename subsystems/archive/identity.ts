/**
 * The identity of a state in the archive: which line it writes, and since how many starts. A file of the state
 * directory, and of no backup: a state that was restored, or promoted, begins a line of its own.
 */
import { open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isLineName } from './names.ts';

interface Identity {
  readonly line: string;
  readonly epoch: number;
}

/** Name of the file in the state directory. */
const IDENTITY_FILE = 'archive';
const NEW_FILE = 'archive.new';
const PRIVATE_FILE = 0o600;

/** Returns undefined if the state has none, or one that nobody can read: then a new line is begun. */
export async function readIdentity(stateDirectory: string): Promise<Identity | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(join(stateDirectory, IDENTITY_FILE), 'utf8'));
    const { line, epoch } = value as Partial<Record<keyof Identity, unknown>>;
    if (typeof line !== 'string' || !isLineName(line)) return undefined;
    return typeof epoch === 'number' && Number.isSafeInteger(epoch) && epoch >= 1 ? { line, epoch } : undefined;
  } catch {
    return undefined;
  }
}

/** Writes it, wholly or not at all. */
export async function writeIdentity(stateDirectory: string, identity: Identity): Promise<void> {
  const written = join(stateDirectory, NEW_FILE);
  {
    await using file = await open(written, 'w', PRIVATE_FILE);
    await file.writeFile(`${JSON.stringify(identity)}\n`);
    await file.sync();
  }
  await rename(written, join(stateDirectory, IDENTITY_FILE));
  await using directory = await open(stateDirectory, 'r');
  await directory.sync();
}

/** Removes it: a state that changes without being archived does not go on with its line. */
export async function forgetIdentity(stateDirectory: string): Promise<void> {
  await rm(join(stateDirectory, IDENTITY_FILE), { force: true });
}
