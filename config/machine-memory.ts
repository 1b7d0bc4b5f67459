/**
 * Memory that this process may use: the machine's, or less if its control group or one above it has a limit.
 *
 * Node's `process.constrainedMemory()` looks at the group of the process alone; the limit is often set on a group above
 * it (a systemd slice, a pod).
 */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { posix } from 'node:path';

/** The part of the operating system that is read. */
export interface Machine {
  readonly totalBytes: number;
  /** Returns the content of a file, or undefined if it cannot be read. */
  readonly read: (file: string) => string | undefined;
}

const THIS_MACHINE: Machine = {
  get totalBytes() {
    return totalmem();
  },
  read: (file) => {
    try {
      return readFileSync(file, 'utf8');
    } catch {
      return undefined;
    }
  },
};

const MOUNT = '/sys/fs/cgroup';

/** Memory with which a durable server of one small actor ran; with 64 MiB the system ended it at its start. */
const ENOUGH_BYTES = 96 * 2 ** 20;

/** Returns what to warn of at the start: too little memory, which shows later only as a process that was ended. */
export function memoryWarnings(machine?: Machine): readonly string[] {
  const bytes = usableMemoryBytes(machine);
  if (bytes >= ENOUGH_BYTES) return [];
  const mebibytes = (each: number): number => Math.round(each / 2 ** 20);
  const least = `a server with one small actor needs some ${mebibytes(ENOUGH_BYTES)} MiB`;
  const end = 'the system ends a process that wants more (SIGKILL, exit code 137)';
  return [`${mebibytes(bytes)} MiB of memory may be used here, and ${least}: raise the limit of the container; ${end}`];
}

export function usableMemoryBytes({ totalBytes, read }: Machine = THIS_MACHINE): number {
  let bytes = totalBytes;
  for (const line of (read('/proc/self/cgroup') ?? '').split('\n')) {
    // Format of a line: `number:controllers:path`; version 2 has no controllers.
    const [, number, controllers, path] = /^(\d+):([^:]*):(\/.*)$/.exec(line) ?? [];
    if (path === undefined || controllers === undefined) continue;
    if (number === '0' && controllers === '') {
      for (const group of upwards(path)) bytes = Math.min(bytes, limitIn(read(`${MOUNT}${group}memory.max`)));
    } else if (controllers.split(',').includes('memory')) {
      for (const group of upwards(path))
        bytes = Math.min(bytes, limitIn(read(`${MOUNT}/memory${group}memory.limit_in_bytes`)));
    }
  }
  return bytes;
}

/**
 * Yields a group's path and those above it, each with a trailing slash. In a container the path may be the one outside;
 * then only the root exists.
 */
function* upwards(path: string): Generator<string> {
  for (let group = posix.normalize(path); ; group = posix.dirname(group)) {
    yield group.endsWith('/') ? group : `${group}/`;
    if (group === '/' || group === '.') return;
  }
}

/** Returns the limit in bytes. Version 2 writes `max` for no limit, version 1 a number larger than any memory. */
function limitIn(content: string | undefined): number {
  const text = content?.trim() ?? '';
  return /^\d+$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
}
