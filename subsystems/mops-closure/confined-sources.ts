/**
 * Files of one project, and nothing else: a file outside of it is ServerError `outside-project`, whatever path leads to
 * it.
 *
 * A path is checked as written, and the opened file by the place that the system reports for it. So a link that is
 * changed between a check and the opening leads nowhere outside. A file that changes while it is read is read again.
 *
 * Everything looked at, existing or not, is remembered with the system's data on it, so that `isCurrent` only has to
 * ask again and need not read.
 */
import { readlink, realpath, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { posix } from 'node:path';
import { ServerError } from '../../kernel/index.ts';
import { decodeSource, motokoFilesIn, readBounded, type SourceReader, treeIn } from '../compiler/index.ts';

const ATTEMPTS_MAX = 3;
/** Node has four threads for file operations. */
const STATS_AT_ONCE = 64;
const ABSENT = '';
/** Marker that equals no later observation. */
const CHANGED = 'changed';
const FOLDER = 'folder';

export class ConfinedSources implements SourceReader {
  readonly #project: string;
  /** Data of the system on each path; ABSENT if there was nothing. */
  readonly #seen = new Map<string, string>();
  /** Contents of folders by path. */
  readonly #listed = new Map<string, string>();
  readonly #contents = new Map<string, Uint8Array>();

  /** `project` is an absolute path without links. */
  constructor(project: string) {
    this.#project = project;
  }

  /** Returns the bytes of a file that was read, until `forgetContents`. */
  contentOf(path: string): Uint8Array {
    const bytes = this.#contents.get(path);
    if (bytes === undefined) throw new Error(`${path} was not read`);
    return bytes;
  }

  forgetContents(): void {
    this.#contents.clear();
  }

  async read(path: string): Promise<string | undefined> {
    const bytes = await this.readBytes(path);
    return bytes && decodeSource(path, bytes);
  }

  async readBytes(path: string): Promise<Uint8Array | undefined> {
    this.#expectInside(path, path);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      let opened = ABSENT;
      let isSame = true;
      // Recorded first, in case the file cannot be read.
      this.#seen.set(path, await identityAt(path));
      const bytes = await readBounded(path, async (file, when) => {
        const identity = identityOf(await file.stat());
        if (when === 'read') isSame = identity === opened;
        else {
          opened = identity;
          this.#expectInside(await placeOf(file, path), path);
          await this.betweenLooks();
        }
      });
      if (!isSame) continue;
      if (bytes === undefined) return undefined;
      this.#seen.set(path, opened);
      this.#contents.set(path, bytes);
      return bytes;
    }
    const message = `${posix.relative(this.#project, path)} changes while it is read: try again when nobody writes to it`;
    throw new ServerError('unavailable', 'source-changing', message);
  }

  async isFolder(path: string): Promise<boolean> {
    this.#expectInside(path, path);
    const identity = await identityAt(path);
    this.#seen.set(path, identity);
    if (identity === ABSENT) return false;
    await this.betweenLooks();
    const place = await realpath(path).catch(() => undefined);
    if (place === undefined) {
      // The folder has disappeared meanwhile.
      this.#seen.set(path, CHANGED);
      return false;
    }
    this.#expectInside(place, path);
    return identity.startsWith(FOLDER);
  }

  async list(folder: string): Promise<readonly string[]> {
    if (!(await this.isFolder(folder))) return [];
    const files = await motokoFilesIn(folder);
    this.#listed.set(folder, files.join('\n'));
    return files;
  }

  /** A file that is added to the tree later is not noticed: what is imported is looked for by its path. */
  async readTree(folder: string): Promise<ReadonlyMap<string, Uint8Array>> {
    if (!(await this.isFolder(folder))) return new Map();
    return treeIn(folder, async (path) => {
      if (!this.#seen.has(path)) this.#seen.set(path, await identityAt(path));
      return readBounded(path);
    });
  }

  /** Hook for tests, which change the file or the folder here. */
  protected async betweenLooks(): Promise<void> {
    // The server has nothing to do here.
  }

  /** Resolves with true if everything that was looked at is unchanged. */
  async isCurrent(): Promise<boolean> {
    const seen = [...this.#seen];
    for (let from = 0; from < seen.length; from += STATS_AT_ONCE) {
      const some = seen.slice(from, from + STATS_AT_ONCE);
      const now = await Promise.all(some.map(([path]) => identityAt(path)));
      if (some.some(([, before], k) => before !== now[k])) return false;
    }
    for (const [folder, before] of this.#listed) {
      const now = await motokoFilesIn(folder).catch(() => []);
      if (now.join('\n') !== before) return false;
    }
    return true;
  }

  #expectInside(place: string, path: string): void {
    expectInside(this.#project, place, path);
  }
}

/** Throws ServerError `outside-project` if `place` is not in the project; messages name `path`. */
export function expectInside(project: string, place: string, path = place): void {
  if (place === project || place.startsWith(project === '/' ? '/' : `${project}/`)) return;
  const shown = posix.relative(project, path);
  throw new ServerError(
    'forbidden',
    'outside-project',
    `${shown} is outside of the directory that --project names; name one that holds all, or move it there`,
  );
}

/** Returns the path of an open file. */
async function placeOf(file: FileHandle, path: string): Promise<string> {
  try {
    return await readlink(`/proc/self/fd/${file.fd}`);
  } catch {
    // Outside Linux the path is resolved again instead.
    return realpath(path);
  }
}

interface Status {
  readonly dev: number;
  readonly ino: number;
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  isFile(): boolean;
  isDirectory(): boolean;
}

function identityOf(status: Status): string {
  // A folder changes with every file in it; only its identity counts.
  if (!status.isFile()) return `${status.isDirectory() ? FOLDER : 'other'} ${status.dev} ${status.ino}`;
  return `${status.dev} ${status.ino} ${status.size} ${status.mtimeMs} ${status.ctimeMs}`;
}

async function identityAt(path: string): Promise<string> {
  try {
    return identityOf(await stat(path));
  } catch {
    return ABSENT;
  }
}
