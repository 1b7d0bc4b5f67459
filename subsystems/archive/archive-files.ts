/** Files of one line, each written whole and once, under its last name: a bucket can neither append nor rename. */
import { chmod, mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;

/** The line's directory; errors are those of the system. */
export interface ArchiveFiles {
  readonly path: string;
  /** Makes the directory; its parent must be there. Rejects where something has its name. */
  make(): Promise<void>;
  list(): Promise<readonly string[]>;
  /**
   * Makes a file of these pieces; it is on disk when this resolves. Rejects where the name is taken. What a failed call
   * has made is taken away, if that works.
   */
  write(name: string, pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void>;
  sizeOf(name: string): Promise<number>;
  /** Removes a file, if it is there. */
  remove(name: string): Promise<void>;
}

export class LocalArchiveFiles implements ArchiveFiles {
  readonly path: string;
  /** Names of files that a failed call of ours could not take away. */
  readonly #failed = new Set<string>();

  constructor(path: string) {
    this.path = path;
  }

  async make(): Promise<void> {
    await mkdir(this.path, { mode: PRIVATE_DIRECTORY });
    await syncDirectory(dirname(this.path));
  }

  list(): Promise<readonly string[]> {
    return readdir(this.path);
  }

  async write(name: string, pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void> {
    const path = join(this.path, name);
    if (this.#failed.has(name)) await this.remove(name);
    const file = await open(path, 'wx', PRIVATE_FILE);
    this.#failed.add(name);
    try {
      try {
        for await (const piece of pieces) await file.writeFile(piece);
        await file.sync();
      } finally {
        await file.close();
      }
      // An umask may have taken rights of the owner, and some file systems know no others.
      if ((await stat(path)).mode % 0o1000 !== PRIVATE_FILE) await chmod(path, PRIVATE_FILE).catch(() => undefined);
      await syncDirectory(this.path);
      this.#failed.delete(name);
    } catch (error) {
      await this.remove(name).catch(() => undefined);
      throw error;
    }
  }

  async sizeOf(name: string): Promise<number> {
    return (await stat(join(this.path, name))).size;
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.path, name), { force: true });
    this.#failed.delete(name);
  }
}

/** Makes changes of names durable; a file system that cannot sync directories makes them so by itself. */
async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r');
  await directory.sync().catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'EINVAL' && code !== 'ENOTSUP' && code !== 'EISDIR') throw error;
  });
}
