/**
 * Reports the owners of changed files. Folders are watched, not files: editors write a draft and rename it, and a
 * missing file may still appear. A file that is a link counts both at its own place and at its target.
 */
import { type FSWatcher, readlinkSync, type Stats, statSync, watch } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { type Logger, messageOf } from '../../kernel/index.ts';

/** Folders that are watched at once; the system's own limit (fs.inotify.max_user_watches) is usually higher. */
const FOLDERS_MAX = 8192;

/** Times that folders are looked for again, since some have come meanwhile; each may lead one deeper. */
const ROUNDS_MAX = 16;
/** Links to links to nothing that are followed. */
const LINKS_MAX = 8;

/** No file has this name. */
const ANY = '';

interface Folder {
  readonly watcher: FSWatcher;
  /** Inode, by which a replaced folder at the same path is recognised. */
  readonly inode: number;
  /** Owners by the names of their files in this folder; ANY: whatever changes in it. */
  readonly owners: Map<string, Set<string>>;
}

export class WatchedFiles implements Disposable {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #changed: (owner: string, path: string) => void;
  readonly #folders = new Map<string, Folder>();
  /** Folders of each owner, with the names of its files there. */
  readonly #byOwner = new Map<string, ReadonlyMap<string, ReadonlySet<string>>>();
  /** Folders that could not be watched, each reported once. */
  readonly #refused = new Set<string>();
  readonly #foldersMax: number;
  #isClosed = false;

  /**
   * `changed` is called for each event of the system, with the file or folder; saving a file once may cause several.
   */
  constructor(log: Pick<Logger, 'warn'>, changed: (owner: string, path: string) => void, foldersMax = FOLDERS_MAX) {
    this.#log = log;
    this.#changed = changed;
    this.#foldersMax = foldersMax;
  }

  /** Number of folders that are watched now. */
  get size(): number {
    return this.#folders.size;
  }

  /**
   * Watches these files for an owner, instead of its earlier ones. Paths are absolute; a file, or its folder, may be
   * missing. One with a slash at its end is a folder that is watched for all that changes in it.
   */
  async set(owner: string, files: Iterable<string>): Promise<void> {
    const wanted = [...files];
    // The list grows meanwhile; a path without links leads nowhere else.
    for (const file of wanted) {
      if (file.endsWith('/')) continue;
      const target = await realpath(file).catch(() => file);
      if (target !== file) wanted.push(target);
    }
    if (this.#isClosed) return;
    const before = this.#byOwner.get(owner);
    let names = namesOf(wanted);
    for (let round = 0; round < ROUNDS_MAX; round++) {
      // New ones are added first, so that a folder that stays is not opened again.
      for (const [path, inside] of names) for (const name of inside) this.#enter(path, name, owner);
      // A folder that has come before its own folder was watched was reported to nobody, and leads further.
      const now = namesOf(wanted);
      if (isInside(now, names)) break;
      for (const [path, inside] of names) for (const name of inside) addTo(now, path, name);
      names = now;
    }
    this.#byOwner.set(owner, names);
    if (before !== undefined) this.#leave(owner, before, names);
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    for (const { watcher } of this.#folders.values()) watcher.close();
    this.#folders.clear();
  }

  #enter(path: string, name: string, owner: string): void {
    const folder = this.#folder(path);
    if (folder === undefined) return;
    const owners = folder.owners.get(name);
    if (owners === undefined) folder.owners.set(name, new Set([owner]));
    else owners.add(owner);
  }

  #leave(
    owner: string,
    before: ReadonlyMap<string, ReadonlySet<string>>,
    now: ReadonlyMap<string, ReadonlySet<string>>,
  ): void {
    for (const [path, names] of before) {
      const folder = this.#folders.get(path);
      if (folder === undefined) continue;
      for (const name of names) {
        if (now.get(path)?.has(name) === true) continue;
        const owners = folder.owners.get(name);
        owners?.delete(owner);
        if (owners?.size === 0) folder.owners.delete(name);
      }
      if (folder.owners.size > 0) continue;
      folder.watcher.close();
      this.#folders.delete(path);
    }
  }

  #folder(path: string): Folder | undefined {
    const inode = statusOf(path)?.ino;
    const known = this.#folders.get(path);
    if (known !== undefined && known.inode === inode) return known;
    // Another folder has taken its place (a checkout, a build that recreates its output): the old watcher reports
    // nothing any more.
    known?.watcher.close();
    this.#folders.delete(path);
    return inode === undefined ? undefined : this.#open(path, inode, known?.owners);
  }

  #open(path: string, inode: number, owners: Folder['owners'] = new Map()): Folder | undefined {
    if (this.#folders.size >= this.#foldersMax)
      return this.#refuse(path, `${this.#foldersMax} folders are watched already`);
    try {
      const watcher = watch(path, { persistent: false }, (_event, name) => this.#saw(path, name));
      watcher.on('error', (error) => this.#refuse(path, messageOf(error)));
      const folder = { watcher, inode, owners };
      this.#folders.set(path, folder);
      return folder;
    } catch (error) {
      return this.#refuse(path, messageOf(error));
    }
  }

  #refuse(path: string, reason: string): undefined {
    if (this.#refused.has(path)) return;
    this.#refused.add(path);
    this.#log.warn(
      `cannot watch ${path}: ${reason}; POST /upgrade/<ACTOR> with an empty body takes up changes of these files`,
    );
  }

  /**
   * Handles an event. `name` is null if the system does not give it. A folder's own end is reported under its own name.
   */
  #saw(path: string, name: string | null): void {
    const folder = this.#folders.get(path);
    if (folder === undefined) return;
    const told = [folder.owners.get(name ?? ANY), folder.owners.get(ANY)];
    if (name !== null)
      for (const owner of new Set(told.flatMap((owners) => [...(owners ?? [])])))
        this.#changed(owner, join(path, name));
    if (name !== null && name !== basename(path)) return;
    const all = new Set(Array.from(folder.owners.values(), (owners) => Array.from(owners)).flat());
    for (const owner of all) this.#changed(owner, path);
  }
}

/** Returns the names to be watched for these files, by folder. */
function namesOf(files: Iterable<string>): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  for (const file of files) {
    if (file.endsWith('/')) addTo(names, file.slice(0, -1), ANY);
    else add(names, file, LINKS_MAX);
  }
  return names;
}

/**
 * Adds a file by its folder; if that is missing, by the nearest existing folder and the name that would lead to the
 * file. A link to nothing also counts at its target, which may come.
 */
function add(names: Map<string, Set<string>>, file: string, linksMax: number): void {
  let path = dirname(file);
  let name = basename(file);
  let rest = '';
  while (folderAt(path) === undefined && dirname(path) !== path) {
    rest = join(name, rest);
    name = basename(path);
    path = dirname(path);
  }
  addTo(names, path, name);
  const target = linksMax > 0 ? missingTargetOf(join(path, name)) : undefined;
  if (target !== undefined) add(names, join(resolve(path, target), rest), linksMax - 1);
}

/** Returns what a link to nothing names; undefined for anything else. */
function missingTargetOf(path: string): string | undefined {
  if (statusOf(path) !== undefined) return undefined;
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

function isInside(
  names: ReadonlyMap<string, ReadonlySet<string>>,
  others: ReadonlyMap<string, ReadonlySet<string>>,
): boolean {
  return [...names].every(([path, inside]) => [...inside].every((name) => others.get(path)?.has(name) === true));
}

function addTo(names: Map<string, Set<string>>, path: string, name: string): void {
  const inside = names.get(path);
  if (inside === undefined) names.set(path, new Set([name]));
  else inside.add(name);
}

function folderAt(path: string): Stats | undefined {
  const stats = statusOf(path);
  return stats?.isDirectory() === true ? stats : undefined;
}

/** Returns undefined for what is not there, or cannot be looked at: a loop of links, a folder that nobody may enter. */
function statusOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
