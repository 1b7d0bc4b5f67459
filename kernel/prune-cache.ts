import { readdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** A file that is still unfinished after this long belongs to a process that was killed. */
const UNFINISHED_MS_MAX = 60 * 60_000;

interface CacheLimits {
  /** Bytes of all finished files; beyond them the least recently used files go. */
  readonly bytesMax: number;
  /** Returns undefined for a file that the cache did not write. */
  readonly kindOf: (name: string) => 'finished' | 'unfinished' | undefined;
}

interface CacheFile {
  readonly path: string;
  readonly isFinished: boolean;
  readonly bytes: number;
  readonly usedMs: number;
}

/**
 * Removes the least recently used files of a cache directory, until the others have at most `bytesMax` bytes, and
 * abandoned files. The time of use is that of the last change (`utimes`). Rejects if the directory cannot be read.
 */
export async function pruneCache(directory: string, { bytesMax, kindOf }: CacheLimits): Promise<void> {
  const describe = async (name: string): Promise<CacheFile | undefined> => {
    const kind = kindOf(name);
    if (kind === undefined) return undefined;
    const path = join(directory, name);
    // Another process may have just removed the file.
    const status = await stat(path).catch(() => undefined);
    return status && { path, isFinished: kind === 'finished', bytes: status.size, usedMs: status.mtimeMs };
  };
  const found = await Promise.all((await readdir(directory)).map(describe));
  const files = found.filter((file) => file !== undefined);
  let bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  for (const file of files.toSorted((a, b) => a.usedMs - b.usedMs)) {
    const isAbandoned = !file.isFinished && file.usedMs < Date.now() - UNFINISHED_MS_MAX;
    if (!isAbandoned && (bytes <= bytesMax || !file.isFinished)) continue;
    bytes -= file.bytes;
    await unlink(file.path).catch(() => undefined);
  }
}
