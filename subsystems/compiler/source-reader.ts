import { constants, open, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { ServerError } from '../../kernel/index.ts';

/** Where source files come from: a disk, or a map in memory. Paths are absolute, with `/`. */
export interface SourceReader {
  /** The file's text; undefined if there is none, or if the path names a folder. Rejects if it cannot be used. */
  read(path: string): Promise<string | undefined>;
  isFolder(path: string): Promise<boolean>;
}

/** The largest hand-written Motoko files have some 200 KB; generated ones a few MB. */
export const SOURCE_BYTES_MAX = 8 * 1024 * 1024;

/** What a reader gives; where it refuses a path, the error also says who named that path. */
export async function namingWho<T>(reading: Promise<T>, who: () => string): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!(error instanceof ServerError) || error.kind !== 'forbidden') throw error;
    throw new ServerError(error.kind, error.code, `${error.message} (${who()})`, { cause: error });
  }
}

export const diskSources: SourceReader = {
  async read(path) {
    const bytes = await readBounded(path);
    return bytes === undefined ? undefined : decodeSource(path, bytes);
  },
  async isFolder(path) {
    try {
      return (await stat(path)).isDirectory();
    } catch {
      return false;
    }
  },
};

/** Reads through another reader and notes which paths matter. */
export class NotedSources implements SourceReader {
  readonly #reader: SourceReader;
  readonly #noted = new Set<string>();

  constructor(reader: SourceReader) {
    this.#reader = reader;
  }

  /** What was read, and Motoko files that would have been if they were there. */
  sources(): string[] {
    return [...this.#noted];
  }

  async read(path: string): Promise<string | undefined> {
    // Also one that cannot be read: it may be mended.
    if (path.endsWith('.mo')) this.#noted.add(path);
    const text = await this.#reader.read(path);
    if (text !== undefined) this.#noted.add(path);
    return text;
  }

  isFolder(path: string): Promise<boolean> {
    return this.#reader.isFolder(path);
  }
}

/** Files by absolute path, for tests and benchmarks. */
export function memorySources(files: ReadonlyMap<string, string>): SourceReader {
  return {
    read: async (path) => files.get(path),
    isFolder: async (path) => [...files.keys()].some((file) => file.startsWith(`${path}/`)),
  };
}

/**
 * The bytes of a regular file; undefined if there is none, or if the path names a folder. `check` sees the open file before
 * it is read, and again behind that. Rejects with ServerError `source-unreadable`, or what `check` rejects with.
 */
export async function readBounded(
  path: string,
  check?: (file: FileHandle, when: 'opened' | 'read') => Promise<void>,
): Promise<Uint8Array | undefined> {
  try {
    // Without O_NONBLOCK, opening a named pipe waits for a writer that may never come.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const status = await file.stat();
    if (status.isDirectory()) return undefined;
    if (!status.isFile()) throw unusable(path, 'it is not a regular file; put a file in its place');
    await check?.(file, 'opened');
    let bytes = new Uint8Array(Math.min(status.size, SOURCE_BYTES_MAX) + 1);
    let length = 0;
    while (length <= SOURCE_BYTES_MAX) {
      if (length === bytes.length) {
        // Somebody writes to it, and it is longer now than the system has said.
        const longer = new Uint8Array(Math.min(2 * length, SOURCE_BYTES_MAX + 1));
        longer.set(bytes);
        bytes = longer;
      }
      const { bytesRead } = await file.read(bytes, length, bytes.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    if (length > SOURCE_BYTES_MAX || status.size > SOURCE_BYTES_MAX) {
      const fix = path.endsWith('.mo') ? 'split it into several files' : 'no more of it is read';
      throw unusable(path, `it has more than ${SOURCE_BYTES_MAX} bytes; ${fix}`);
    }
    await check?.(file, 'read');
    return bytes.subarray(0, length);
  } catch (error) {
    if (error instanceof ServerError) throw error;
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR') return undefined;
    throw unusable(path, REASONS[code] ?? `the system says ${code || String(error)}`, error);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this process may not read it; change its permissions',
  EPERM: 'this process may not read it; change its permissions',
  ELOOP: 'its symbolic links form a loop; point them at a file',
  ENAMETOOLONG: 'its path is too long',
};

/** Throws ServerError `source-unreadable`. */
export function decodeSource(path: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw unusable(path, `it is not UTF-8 text (line ${firstBadLine(bytes)}); save it as UTF-8`, cause);
  }
}

/** The line, from 1, up to which the text decodes; found by halving. */
function firstBadLine(bytes: Uint8Array): number {
  const decodes = (length: number): boolean => {
    try {
      // `stream` accepts a character that is cut off at the end.
      new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length), { stream: true });
      return true;
    } catch {
      return false;
    }
  };
  let good = 0;
  let bad = bytes.length;
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (decodes(middle)) good = middle;
    else bad = middle;
  }
  return new TextDecoder().decode(bytes.subarray(0, good)).split('\n').length;
}

function unusable(path: string, reason: string, cause?: unknown): ServerError {
  return new ServerError('invalid', 'source-unreadable', `cannot read ${path}: ${reason}`, { cause });
}
