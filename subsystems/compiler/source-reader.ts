import { constants, open, readdir, readlink, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { posix } from 'node:path';
import { ServerError } from '../../kernel/index.ts';

/** A source of files: a disk, or a map in memory. Paths are absolute, with `/`. */
export interface SourceReader {
  /**
   * The file's text; undefined if there is none, or if the path names a folder. Rejects if it cannot be used, as a link
   * to nothing, or a folder that has the name of a file of mops.
   */
  read(path: string): Promise<string | undefined>;
  /** Returns the bytes of any file in the same way, as they are. */
  readBytes(path: string): Promise<Uint8Array | undefined>;
  isFolder(path: string): Promise<boolean>;
  /**
   * Returns the paths of all Motoko files in a folder and below it, sorted, without links, and without folders whose
   * names begin with a dot.
   */
  list(folder: string): Promise<readonly string[]>;
  /**
   * Returns the bytes of all files in a folder and below it by their paths from there, without links. Rejects with
   * ServerError `source-too-large` or `source-unreadable`.
   */
  readTree(folder: string): Promise<ReadonlyMap<string, Uint8Array>>;
}

/** The largest hand-written Motoko files have some 200 KB; generated ones a few MB. */
export const SOURCE_BYTES_MAX = 8 * 1024 * 1024;

/** A package has tens of folders. */
const FOLDERS_MAX = 2000;
/** Twice what a program may have. */
const LISTED_MAX = 10_000;
/** As much as a program may have. */
const TREE_BYTES_MAX = 32 * 1024 * 1024;

/** Returns what a reader gives; if the reader refuses a path, the error also says who named that path. */
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
  readBytes: (path) => readBounded(path),
  list: (folder) => motokoFilesIn(folder),
  readTree: (folder) => treeIn(folder, (path) => readBounded(path)),
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
  /** Manifests that are not there, the first beside the source. */
  readonly #absent = new Set<string>();
  readonly #absentFolders = new Set<string>();

  constructor(reader: SourceReader) {
    this.#reader = reader;
  }

  /**
   * Returns the files that were read, and sources that would have been read if they existed; of manifests and folders
   * those inside of the project, and without one the manifest beside the source: nobody wants folders up to the root to
   * be watched.
   */
  sources(): string[] {
    const roots = [...this.#noted].filter((path) => path.endsWith('/mops.toml')).map((path) => posix.dirname(path));
    const absent = [...this.#absent];
    const nearer = [...absent, ...this.#absentFolders].filter((path) =>
      roots.some((root) => path.startsWith(root === '/' ? root : `${root}/`)),
    );
    return [...this.#noted, ...(roots.length === 0 ? absent.slice(0, 1) : nearer)];
  }

  async read(path: string): Promise<string | undefined> {
    // Also one that cannot be read: it may be mended.
    if (/\.(?:mo|did)$|\/mops\.lock$/u.test(path)) this.#noted.add(path);
    const text = await this.#reader.read(path).catch((error: unknown) => {
      this.#noted.add(path);
      throw error;
    });
    if (text !== undefined) this.#noted.add(path);
    else if (path.endsWith('/mops.toml')) this.#absent.add(path);
    return text;
  }

  readBytes(path: string): Promise<Uint8Array | undefined> {
    this.#noted.add(path);
    return this.#reader.readBytes(path);
  }

  /** A folder that is missing may come: that of a package, or the one inside that has its modules. */
  async isFolder(path: string): Promise<boolean> {
    const isThere = await this.#reader.isFolder(path);
    if (!isThere) this.#absentFolders.add(path);
    return isThere;
  }

  list(folder: string): Promise<readonly string[]> {
    return this.#reader.list(folder);
  }

  /** Nothing depends on what a tree has beside the files that are read. */
  readTree(folder: string): Promise<ReadonlyMap<string, Uint8Array>> {
    return this.#reader.readTree(folder);
  }
}

/** Files by absolute path, for tests and benchmarks. */
export function memorySources(files: ReadonlyMap<string, string | Uint8Array>): SourceReader {
  const bytesOf = (path: string): Uint8Array | undefined => {
    const content = files.get(path);
    return typeof content === 'string' ? Buffer.from(content) : content;
  };
  return {
    async read(path) {
      const content = files.get(path);
      return content === undefined || typeof content === 'string' ? content : decodeSource(path, content);
    },
    readBytes: async (path) => bytesOf(path),
    isFolder: async (path) => [...files.keys()].some((file) => file.startsWith(`${path}/`)),
    list: async (folder) =>
      [...files.keys()].filter((file) => file.startsWith(`${folder}/`) && file.endsWith('.mo')).toSorted(),
    readTree: async (folder) => {
      const inside = [...files.keys()].filter((file) => file.startsWith(`${folder}/`));
      return new Map(inside.map((file) => [posix.relative(folder, file), bytesOf(file) ?? new Uint8Array()]));
    },
  };
}

/**
 * Returns the Motoko files in a folder, as a reader lists them. Rejects with ServerError `source-too-large`, or
 * `source-unreadable`.
 */
export function motokoFilesIn(folder: string): Promise<readonly string[]> {
  return filesIn(folder, {
    takes: (name) => name.endsWith('.mo'),
    enters: (name) => !/^\.|^node_modules$/u.test(name),
    advice: 'a package that is used without imports has to be smaller',
  });
}

/** Reads a whole folder, as a reader does; rejects as that does. */
export async function treeIn(
  folder: string,
  readOne: (path: string) => Promise<Uint8Array | undefined>,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const advice = 'it cannot be compared with mops.lock';
  const files = new Map<string, Uint8Array>();
  let bytes = 0;
  for (const path of await filesIn(folder, { takes: () => true, enters: () => true, advice })) {
    const content = await readOne(path);
    bytes += content?.length ?? 0;
    if (bytes > TREE_BYTES_MAX)
      throw new ServerError(
        'invalid',
        'source-too-large',
        `${folder} has more than ${TREE_BYTES_MAX} bytes; ${advice}`,
      );
    if (content !== undefined) files.set(posix.relative(folder, path), content);
  }
  return files;
}

interface Listing {
  readonly takes: (name: string) => boolean;
  readonly enters: (name: string) => boolean;
  /** Ends the message about too many. */
  readonly advice: string;
}

async function filesIn(folder: string, { takes, enters, advice }: Listing): Promise<readonly string[]> {
  const found: string[] = [];
  const folders = [folder];
  // The list grows meanwhile.
  for (const each of folders) {
    const entries = await readdir(each, { withFileTypes: true }).catch((error: unknown) => {
      throw unusable(each, `the system says ${String(error)}`, error);
    });
    for (const entry of entries) {
      const path = posix.join(each, entry.name);
      if (entry.isDirectory() && enters(entry.name)) folders.push(path);
      else if (entry.isFile() && takes(entry.name)) found.push(path);
    }
    if (folders.length > FOLDERS_MAX || found.length > LISTED_MAX)
      throw new ServerError(
        'invalid',
        'source-too-large',
        `${folder} has more than ${FOLDERS_MAX} folders or ${LISTED_MAX} files; ${advice}`,
      );
  }
  return found.toSorted();
}

/**
 * The bytes of a regular file; undefined if there is none, or if the path names a folder. `check` sees the open file
 * before it is read, and again behind that. Rejects with ServerError `source-unreadable`, or what `check` rejects
 * with.
 */
export async function readBounded(
  path: string,
  check?: (file: FileHandle, when: 'opened' | 'read') => Promise<void>,
): Promise<Uint8Array | undefined> {
  try {
    // Without O_NONBLOCK, opening a named pipe waits for a writer that may never come.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const status = await file.stat();
    if (status.isDirectory() && isOfMops(path)) throw unusable(path, `it is a folder; ${fixFor(path, PUT_A_FILE)}`);
    if (status.isDirectory()) return undefined;
    if (!status.isFile()) throw unusable(path, `it is not a regular file; ${fixFor(path, PUT_A_FILE)}`);
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
      const fix = fixFor(path, path.endsWith('.mo') ? 'split it into several files' : 'make it smaller');
      throw unusable(path, `it has more than ${SOURCE_BYTES_MAX} bytes; ${fix}`);
    }
    await check?.(file, 'read');
    return bytes.subarray(0, length);
  } catch (error) {
    if (error instanceof ServerError) throw error;
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (code === 'ENOENT') {
      const target = await readlink(path).catch(() => undefined);
      if (target === undefined) return undefined;
      throw unusable(
        path,
        `it is a link to ${target}, which is not there; ${fixFor(path, 'point it at a file')}`,
        error,
      );
    }
    if (code === 'ENOTDIR' || code === 'EISDIR') return undefined;
    const [reason, fix] = REASONS[code] ?? [`the system says ${code || String(error)}`];
    throw unusable(path, fix === undefined ? reason : `${reason}; ${fixFor(path, fix)}`, error);
  }
}

const PUT_A_FILE = 'put a file in its place';

/** Nothing else has these names: a project that has them means them. */
function isOfMops(path: string): boolean {
  return /\/mops\.(?:lock|toml)$/u.test(path);
}

/** Returns advice for a file: a lock is made anew, another one is mended. */
function fixFor(path: string, fix: string): string {
  return path.endsWith('/mops.lock') ? 'remove it: then mops.toml is read, and mops install writes a lock' : fix;
}

const MAY_NOT = ['this process may not read it', 'change its permissions'] as const;
const REASONS: Readonly<Record<string, readonly [reason: string, fix?: string]>> = {
  EACCES: MAY_NOT,
  EPERM: MAY_NOT,
  ELOOP: ['its symbolic links form a loop', 'point them at a file'],
  ENAMETOOLONG: ['its path is too long'],
  ERR_INVALID_ARG_VALUE: ['its path has a character that no path has', 'leave out \\00'],
};

/** Throws ServerError `source-unreadable`. */
export function decodeSource(path: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    const fix = fixFor(path, 'save it as UTF-8');
    throw unusable(path, `it is not UTF-8 text (line ${firstBadLine(bytes)}); ${fix}`, cause);
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
