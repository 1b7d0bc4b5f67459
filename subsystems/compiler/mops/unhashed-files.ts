/** Finds files of packages that a lock has no hash of: it says nothing of whether they are what was published. */
import { posix } from 'node:path';
import { GITHUB_FOLDER } from './mops-toml.ts';

/** A package, as far as its files are compared with a lock. */
export interface Owner {
  readonly root: string;
  readonly isLocal: boolean;
  readonly hashes: ReadonlyMap<string, string>;
}

/** A file, and the package that it belongs to. */
export interface OwnedFile {
  readonly path: string;
  readonly package: Owner | undefined;
}

/** Returns the name that `mops.lock` has for a file of a package. */
export function lockedName({ root }: Pick<Owner, 'root'>, path: string): string {
  return `${posix.basename(root)}/${posix.relative(root, path)}`;
}

/** Returns a sentence about the lock with the first such file; undefined: the lock has hashes of all files. */
export function unhashedNote(files: readonly OwnedFile[]): string | undefined {
  const names = files.flatMap(({ path, package: owner }) => {
    // For a package from GitHub the lock has one hash, that of the archive.
    if (owner === undefined || owner.isLocal || posix.basename(posix.dirname(owner.root)) === GITHUB_FOLDER) return [];
    const name = lockedName(owner, path);
    return owner.hashes.has(name) ? [] : [name];
  });
  const [first] = names.toSorted();
  if (first === undefined) return undefined;
  const others = names.length === 1 ? '' : ` and ${names.length - 1} other file(s)`;
  return `it has no hash of ${first}${others}, so nothing says that this is what was published; run mops install`;
}
