/**
 * Lets one process at a time use a state directory. The lock is a file that exists wholly or not at all: it is
 * written under another name, then linked. A lock that a killed process left is told from a live one's by the
 * process's start time, since numbers of processes are used again; where the system does not tell it, by the number
 * alone. RocksDB's own lock, which the system drops with the process, stands behind it: it also holds between
 * containers that do not see each other's processes.
 *
 * A stale lock is replaced by the process that holds `<lock>.next`, taken in the same way, and finds the stale lock
 * unchanged then: so two processes that met the same stale lock cannot both replace it, nor one the other's.
 */
import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ServerError } from '../../kernel/index.ts';
import { PRIVATE_FILE } from './private-files.ts';

interface Owner {
  readonly pid: number;
  /** Time at which the process took the lock: ISO, UTC. */
  readonly started: string;
  /** Time at which the process began, in the system's terms; null where the system does not say. */
  readonly processStart: string | null;
  /** Makes one lock differ from every other. */
  readonly nonce: string;
}

/** Returns what gives it back. Rejects with ServerError `state-locked` while a live process has it. */
export async function takeStateLock(root: string, name: string): Promise<() => Promise<void>> {
  const path = join(root, name);
  const nonce = randomUUID();
  const processStart = await processStartOf(process.pid);
  const owner: Owner = { pid: process.pid, started: new Date().toISOString(), processStart, nonce };
  const mine = `${JSON.stringify(owner)}\n`;
  const written = `${path}.${nonce}`;
  try {
    await writeFile(written, mine, { mode: PRIVATE_FILE });
    await take(root, written, path);
  } finally {
    await rm(written, { force: true });
  }
  return () => release(path, mine);
}

async function take(root: string, written: string, path: string): Promise<void> {
  while (!(await linked(written, path))) {
    const found = await contentOf(path);
    if (found === undefined) continue;
    await refuseIfLive(root, found);
    const next = `${path}.next`;
    await take(root, written, next);
    if ((await contentOf(path)) === found) return rename(next, path);
    await rm(next, { force: true });
  }
}

async function release(path: string, mine: string): Promise<void> {
  if ((await contentOf(path)) === mine) await rm(path, { force: true });
}

/** Rejects with ServerError `state-locked` while a live process uses the directory; nothing is written. */
export async function refuseIfInUse(root: string, name: string): Promise<void> {
  const found = await contentOf(join(root, name));
  if (found !== undefined) await refuseIfLive(root, found);
}

async function refuseIfLive(root: string, content: string): Promise<void> {
  const owner = parseOwner(content);
  if (owner === undefined || !(await isLive(owner))) return;
  const message = `the state directory ${root} is in use by process ${owner.pid} since ${owner.started}; stop that process first, or name another directory`;
  throw new ServerError('unavailable', 'state-locked', message);
}

/** Undefined for what no process of ours wrote, or a machine that lost its power left. */
function parseOwner(content: string): Omit<Owner, 'nonce'> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    return undefined;
  }
  const { pid, started, processStart } = (value ?? {}) as Partial<Record<keyof Owner, unknown>>;
  if (typeof pid !== 'number' || !Number.isInteger(pid) || pid < 1 || typeof started !== 'string') return undefined;
  return { pid, started, processStart: typeof processStart === 'string' ? processStart : null };
}

async function isLive(owner: Omit<Owner, 'nonce'>): Promise<boolean> {
  const now = await processStartOf(owner.pid);
  if (now !== null && owner.processStart !== null) return now === owner.processStart;
  try {
    process.kill(owner.pid, 0);
    return true;
  } catch (error) {
    return hasCode(error, 'EPERM');
  }
}

/** The boot and the clock tick in it at which a process began; null if there is no such process, or no /proc. */
async function processStartOf(pid: number): Promise<string | null> {
  try {
    const status = await readFile(`/proc/${pid}/stat`, 'latin1');
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'latin1');
    // After the command, which is in brackets and may hold anything: state is field 3, the start field 22.
    const ticks = status.slice(status.lastIndexOf(')') + 2).split(' ')[22 - 3];
    return ticks === undefined ? null : `${boot.trim()} ${ticks}`;
  } catch {
    return null;
  }
}

async function contentOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'latin1');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Gives a file a second name; false if that is taken. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
