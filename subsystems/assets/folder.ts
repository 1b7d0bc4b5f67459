/**
 * Reads a folder: which files a site has, and their hashes. A file that is as it was when it was hashed last is not
 * read again.
 *
 * Runs in a thread of its own (`assets-thread.ts`) and waits for the disk there: in the main thread, each of the
 * thousands of asynchronous operations would cost it ten times as much as the operation itself.
 */
import { createHash } from 'node:crypto';
import {
  type BigIntStats,
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { join, sep } from 'node:path';
import { messageOf } from '../../kernel/index.ts';
import { FileChanged, folderFault } from './faults.ts';

/** Bytes that are read, sent and stored at a time: with the rest of its message it stays below 2 MiB. */
export const PIECE_BYTES = 1_900_000;
const FILES_MAX = 200_000;
/** A site has so much stable memory. */
const BYTES_MAX = 4 * 1024 ** 3 - 64 * 1024 * 1024;
/** A file that was changed so shortly before may change again within the same tick of the disk's clock. */
const SETTLED_NS = 100_000_000n;
const WELL_KNOWN = '.well-known';

export interface FolderFile {
  /** Path from the folder, `/` in front and between. */
  readonly key: string;
  /** Absolute, without links. */
  readonly path: string;
  readonly size: number;
  /** Tells the file's states apart, as far as the disk does. */
  readonly stamp: string;
  readonly sha256: string;
}

type FoundFile = Omit<FolderFile, 'sha256'> & { readonly changedNs: bigint };

interface FoundFolder {
  readonly files: readonly FoundFile[];
  /** Absolute paths. */
  readonly folders: readonly string[];
}

/** A folder whose hashes are kept between two readings. */
export class AssetFolder {
  readonly #path: string;
  #hashes: ReadonlyMap<string, { readonly stamp: string; readonly sha256: string }> = new Map();

  constructor(path: string) {
    this.#path = path;
  }

  /** Returns the files in the order of their keys. Throws ServerError `assets-folder`, or FileChanged. */
  read(): readonly FolderFile[] {
    const { files } = findFiles(this.#path);
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    if (bytes > BYTES_MAX)
      throw folderFault(`${this.#path} has ${bytes} bytes; a site has at most ${BYTES_MAX}: leave files out`);
    const hashes = new Map<string, { readonly stamp: string; readonly sha256: string }>();
    const hashed = files.map((file): FolderFile => {
      const { key, path, size, stamp, changedNs } = file;
      const known = this.#hashes.get(path);
      const sha256 = known?.stamp === stamp ? known.sha256 : hashOf(file);
      if (BigInt(Date.now()) * 1_000_000n - changedNs > SETTLED_NS) hashes.set(path, { stamp, sha256 });
      return { key, path, size, stamp, sha256 };
    });
    this.#hashes = hashes;
    return hashed;
  }

  /** Returns the folders that are read, this one first. */
  folders(): readonly string[] {
    return findFiles(this.#path).folders;
  }
}

/** Yields the bytes of a file in pieces, at least one. Throws FileChanged if it is no longer the one that was found. */
export function* piecesOf({ path, size, stamp }: Omit<FoundFile, 'changedNs'>): Generator<Buffer<ArrayBuffer>> {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ELOOP') throw new FileChanged(path);
    throw folderFault(`${path} cannot be read: ${messageOf(error)}`, error);
  }
  const isSame = (): boolean => stampOf(fstatSync(file, { bigint: true })) === stamp;
  try {
    if (!isSame()) throw new FileChanged(path);
    let at = 0;
    do {
      const piece = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, size - at));
      const bytesRead = piece.length === 0 ? 0 : readSync(file, piece, 0, piece.length, at);
      if (bytesRead < piece.length && bytesRead === 0) throw new FileChanged(path);
      at += bytesRead;
      yield bytesRead === piece.length ? piece : piece.subarray(0, bytesRead);
    } while (at < size);
    if (!isSame()) throw new FileChanged(path);
  } finally {
    closeSync(file);
  }
}

function hashOf(file: Omit<FoundFile, 'changedNs'>): string {
  const hash = createHash('sha256');
  for (const piece of piecesOf(file)) hash.update(piece);
  return hash.digest('base64');
}

function findFiles(path: string): FoundFolder {
  let root: string;
  try {
    root = realpathSync.native(path);
    if (!statSync(root).isDirectory()) throw folderFault(`${path} is no folder: "assets" names one`);
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
    throw folderFault(`${path} cannot be read: ${messageOf(error)}; build it, or correct "assets"`, error);
  }
  return new Walk(path, root).run();
}

/** One reading of a folder. Links that stay in the folder are followed. */
class Walk {
  readonly #named: string;
  readonly #root: string;
  readonly #files: FoundFile[] = [];
  readonly #folders: { readonly path: string; readonly key: string }[];

  /** `root` is the folder without links, `named` as people call it. */
  constructor(named: string, root: string) {
    this.#named = named;
    this.#root = root;
    this.#folders = [{ path: root, key: '' }];
  }

  run(): FoundFolder {
    // The list grows meanwhile.
    for (const { path, key } of this.#folders) {
      let entries: Dirent[];
      try {
        entries = readdirSync(path, { withFileTypes: true });
      } catch (error) {
        throw folderFault(`${this.#named}${key} cannot be read: ${messageOf(error)}`, error);
      }
      const wanted = entries.filter(({ name }) => !name.startsWith('.') || name === WELL_KNOWN);
      // Links come last, so that a fault names a file by its own folder.
      const inOrder = wanted.toSorted((one, other) => Number(one.isSymbolicLink()) - Number(other.isSymbolicLink()));
      for (const entry of inOrder) this.#see(join(path, entry.name), `${key}/${entry.name}`, entry);
      const count = this.#files.length + this.#folders.length;
      if (count > FILES_MAX)
        throw folderFault(
          `${this.#named} has more than ${FILES_MAX} files and folders: "assets" names a folder that is built`,
        );
    }
    const files = this.#files.toSorted((one, other) => (one.key < other.key ? -1 : 1));
    return { files, folders: this.#folders.map(({ path }) => path) };
  }

  #see(path: string, key: string, entry: Dirent): void {
    const shown = `${this.#named}${key}`;
    if (entry.isDirectory()) this.#folders.push({ path, key });
    else if (entry.isSymbolicLink()) this.#follow(path, key, shown);
    else this.#add(path, key, shown);
  }

  #follow(path: string, key: string, shown: string): void {
    let real: string;
    try {
      real = realpathSync.native(path);
    } catch (error) {
      throw folderFault(`${shown} is a link to nothing: ${messageOf(error)}; remove it`, error);
    }
    if (real !== this.#root && !real.startsWith(this.#root + sep))
      throw folderFault(
        `${shown} is a link that leads out of the folder, to ${real}: copy the file, or remove the link`,
      );
    if (!lstatSync(real).isDirectory()) {
      this.#add(real, key, shown);
      return;
    }
    // The folder with the link, too, may be reached by one.
    const own = realpathSync.native(join(path, '..'));
    if (own === real || own.startsWith(real + sep))
      throw folderFault(`${shown} is a link to a folder that it is in: remove it`);
    this.#folders.push({ path: real, key });
  }

  #add(path: string, key: string, shown: string): void {
    let found: BigIntStats;
    try {
      found = lstatSync(path, { bigint: true });
    } catch (error) {
      if (key.includes('\uFFFD')) throw folderFault(`${shown} has a name that is not UTF-8: rename it`, error);
      throw new FileChanged(path);
    }
    if (!found.isFile()) throw folderFault(`${shown} is no file and no folder: remove it`);
    this.#files.push({ key, path, size: Number(found.size), stamp: stampOf(found), changedNs: found.ctimeNs });
  }
}

function stampOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error && 'syscall' in error ? error.code : undefined;
}
