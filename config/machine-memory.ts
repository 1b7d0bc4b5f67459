/**
 * How much memory this process may use: the machine's, or less where a control group bounds it or one above it.
 *
 * Node's `process.constrainedMemory()` looks at the group of the process alone; the bound is often on a group above it (a
 * systemd slice, a pod).
 */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { posix } from 'node:path';

/** What is asked of the machine. */
export interface Machine {
  readonly totalBytes: number;
  /** The content of a file, or undefined if there is none that can be read. */
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

export function usableMemoryBytes({ totalBytes, read }: Machine = THIS_MACHINE): number {
  let bytes = totalBytes;
  for (const line of (read('/proc/self/cgroup') ?? '').split('\n')) {
    // number : controllers of version 1, or nothing for version 2 : path
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

/** A group's path and those above it, each with a slash at its end. Within a container the path may be the one outside: then only the root is there. */
function* upwards(path: string): Generator<string> {
  for (let group = posix.normalize(path); ; group = posix.dirname(group)) {
    yield group.endsWith('/') ? group : `${group}/`;
    if (group === '/' || group === '.') return;
  }
}

/** `max`, or for version 1 a number larger than any memory: no limit. */
function limitIn(content: string | undefined): number {
  const text = content?.trim() ?? '';
  return /^\d+$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
}
