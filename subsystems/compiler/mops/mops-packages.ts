/**
 * Finds the folder that a `mo:<package>` import means: what mops 3 would say (`mops sources`), from the files on the
 * disk.
 *
 * The project is the nearest folder upwards with a `mops.toml`. A `mops.lock` that may be believed
 * (`lock-validity.ts`) decides alone; otherwise manifests do (`resolve-packages.ts`), and the closure has a note with
 * the reason. The manifest of a missing package is left out: only packages that are imported have to be there.
 */
import { posix } from 'node:path';
import { ServerError } from '../../../kernel/index.ts';
import { namingWho, type SourceReader } from '../source-reader.ts';
import { isGraphWhole, whyStale } from './lock-validity.ts';
import { type Declared, Manifests } from './manifests.ts';
import { type LockGraph, lockProblem, type MopsLock, readMopsLock, treeHashes } from './mops-lock.ts';
import { type Dependency, folderOf, GITHUB_FOLDER, type MopsManifest, packageId, parseMopsToml } from './mops-toml.ts';
import { type OwnedFile, type Owner, unhashedNote } from './unhashed-files.ts';
import { resolvePackages, type ResolvedPackages } from './resolve-packages.ts';

export interface MopsOptions {
  /** The folder above which no project is looked for; the root of the file system, if left out. */
  readonly ceiling?: string;
  /** Folders besides the project's `.mops` where mops keeps packages. */
  readonly stores: readonly string[];
  /** Value of `{MOPS_ENV}` in a path. */
  readonly environment: string;
}

export interface MopsPackage {
  readonly name: string;
  /** Undefined for a local package that names no version. */
  readonly version: string | undefined;
  /** The folder with all that belongs to it. */
  readonly root: string;
  /** Folder that imports are relative to; `root` or a folder inside. */
  readonly base: string;
  /** True if the package is a part of the project, or of one beside it, and was not fetched by mops. */
  readonly isLocal: boolean;
  /**
   * Hashes of files that mops has fetched, by `<name of the root's folder>/<path in it>`: what `mops.lock` says, if
   * it says something.
   */
  readonly hashes: ReadonlyMap<string, string>;
}

/** Reason why there is no such package, as a part of a sentence. */
export interface MissingPackage {
  readonly missing: string;
  /** The file that says why the package, which is there, cannot be used. */
  readonly because?: string;
  /** The name that mops has for a package of the registry that is not installed. */
  readonly id?: string;
}

/** The folder of a project where mops keeps packages. */
const OWN_STORE = '.mops';
const LEVELS_MAX = 64;
const NO_HASHES: ReadonlyMap<string, string> = new Map();

/** Something to know of a file that is no fault of a source. */
export interface FileNote {
  /** Absolute. */
  readonly file: string;
  readonly text: string;
}

/** A project that has a manifest. */
interface Project {
  readonly root: string;
  readonly manifests: Manifests;
}

export class MopsPackages {
  readonly #reader: SourceReader;
  readonly #options: MopsOptions;
  readonly #project: Project | undefined;
  #resolved: ResolvedPackages = { packages: new Map(), dropped: new Map(), unread: [] };
  #hashes: ReadonlyMap<string, string> = NO_HASHES;
  #notes: readonly FileNote[] = [];
  /** The lock that is believed. */
  #believed: { readonly file: string; readonly lock: MopsLock } | undefined;
  readonly #found = new Map<string, Promise<MopsPackage | MissingPackage>>();
  /** Folders of packages from GitHub that have been compared with the lock. */
  readonly #compared = new Map<string, Promise<void>>();
  /** Folders by path: packages have the same packages, and each folder is looked for once. */
  readonly #folders = new Map<string, Promise<boolean>>();

  private constructor(reader: SourceReader, options: MopsOptions, root: string | undefined) {
    this.#reader = reader;
    this.#options = options;
    const { environment, ceiling = '/' } = options;
    if (root !== undefined) this.#project = { root, manifests: new Manifests(reader, { root, ceiling, environment }) };
  }

  /**
   * Returns the packages of the project that a file is in. Rejects with ServerError `mops-invalid`, or with the
   * reader's error.
   */
  static async of(file: string, reader: SourceReader, options: MopsOptions): Promise<MopsPackages> {
    const project = await projectOf(file, reader, options);
    const packages = new MopsPackages(reader, options, project && posix.dirname(project.file));
    if (project !== undefined) await packages.#choose(project.manifest);
    return packages;
  }

  /**
   * Returns notes for a person: that the lock is stale, and why; which of these files a lock that is believed has no
   * hash of.
   */
  notesOn(files: readonly OwnedFile[]): readonly FileNote[] {
    const text = this.#believed && unhashedNote(files);
    return this.#believed && text ? [...this.#notes, { file: this.#believed.file, text }] : this.#notes;
  }

  /** SHA-256 in hex of files of packages, as `mops.lock` has them; none where it is not believed. */
  get hashes(): ReadonlyMap<string, string> {
    return this.#hashes;
  }

  /** Returns true if the project has a package of that name, even if its folder is missing. */
  has(name: string): boolean {
    return this.#resolved.packages.has(name);
  }

  /** Rejects as `of` does. */
  find(name: string): Promise<MopsPackage | MissingPackage> {
    let found = this.#found.get(name);
    if (found === undefined) {
      found = this.#find(name);
      this.#found.set(name, found);
    }
    return found;
  }

  async #choose(manifest: MopsManifest): Promise<void> {
    if (this.#project === undefined) return;
    const { root, manifests } = this.#project;
    const file = posix.join(root, 'mops.lock');
    const text = await this.#reader.read(file);
    const reading = text === undefined ? undefined : readMopsLock(text, file);
    const lock = reading?.kind === 'read' ? reading.lock : undefined;
    const stale = reading?.kind === 'unusable' ? reading.reason : lock && (await whyStale(lock, manifest, manifests));
    if (lock !== undefined && stale === undefined) {
      const packages = new Map([...lock.deps].map(([name, dependency]) => [name, { dependency, from: root }]));
      this.#resolved = { packages, dropped: new Map(), unread: [] };
      this.#hashes = lock.hashes;
      this.#believed = { file, lock };
      return;
    }
    if (stale !== undefined)
      this.#notes = [{ file, text: `it is stale and was not used: ${stale}; run mops install, which writes it anew` }];
    const graph: LockGraph = lock?.graph ?? new Map();
    const fetched = (dependency: Dependency) => this.#fetchedManifest(dependency, manifests);
    this.#resolved = await resolvePackages(manifest, { manifests, graph, fetched });
  }

  async #fetchedManifest(
    dependency: Dependency,
    manifests: Manifests,
  ): Promise<{ readonly manifest: MopsManifest; readonly folder: string } | undefined> {
    for (const folder of this.#foldersFor(dependency)) {
      const manifest = (await this.#isFolder(folder)) ? await manifests.at(folder) : undefined;
      if (manifest !== undefined) return { manifest, folder };
    }
    return undefined;
  }

  async #find(name: string): Promise<MopsPackage | MissingPackage> {
    const chosen = this.#resolved.packages.get(name);
    if (chosen === undefined) return { missing: this.#whyMissing(name) };
    const { dependency } = chosen;
    const root = await this.#folderOf(chosen);
    if (root === undefined) return this.#notThere(chosen);
    if (dependency.source.kind === 'github') await this.#compareOnce(dependency, root);
    const isLocal = dependency.source.kind === 'local';
    const hashes = isLocal ? NO_HASHES : this.#hashes;
    const file = posix.join(root, 'mops.toml');
    const text = await this.#reader.read(file);
    const problem = text && lockProblem(text, hashes.get(`${posix.basename(root)}/mops.toml`));
    if (problem) return { missing: `${file} ${problem}`, because: file };
    const manifest = text === undefined ? undefined : parseMopsToml(text, file);
    const base = posix.join(root, manifest?.baseDir ?? 'src');
    if (base !== root && !base.startsWith(`${root}/`))
      return { missing: `the package ${name} has a baseDir outside of itself (${file})`, because: file };
    const isBaseMissing = isLocal && !(await this.#reader.isFolder(base));
    const version = dependency.source.kind === 'registry' ? dependency.source.version : manifest?.version;
    return { name, version, root, base: (isBaseMissing ? root : base).replace(/\/$/u, ''), isLocal, hashes };
  }

  /**
   * Returns the package that mops has fetched with a file, for a file that was named by its path; undefined: it is in
   * none. Rejects as `of` does.
   */
  async around(path: string): Promise<Owner | undefined> {
    const store = this.#stores().find((each) => path.startsWith(`${each}/`));
    if (store === undefined || this.#believed === undefined) return undefined;
    const [first = '', second = ''] = posix.relative(store, path).split('/');
    const isGithub = first === GITHUB_FOLDER;
    const root = isGithub ? posix.join(store, first, second) : posix.join(store, first);
    const chosen = [...this.#resolved.packages.values()].find(({ dependency }) =>
      this.#foldersFor(dependency).includes(root),
    );
    if (isGithub && chosen !== undefined) await this.#compareOnce(chosen.dependency, root);
    return { root, isLocal: false, hashes: this.#hashes };
  }

  #compareOnce(dependency: Dependency, root: string): Promise<void> {
    let comparing = this.#compared.get(root);
    if (comparing === undefined) this.#compared.set(root, (comparing = this.#compareTree(dependency, root)));
    return comparing;
  }

  /** Notes that the folder of a package from GitHub is not what the lock means: it has one hash for all of it. */
  async #compareTree({ name }: Dependency, root: string): Promise<void> {
    const tree = this.#believed?.lock.trees.get(name);
    if (this.#believed === undefined || tree === undefined) return;
    const note = (text: string): void => {
      this.#notes = [...this.#notes, { file: this.#believed?.file ?? root, text }];
    };
    try {
      const hashes = treeHashes(await this.#reader.readTree(root));
      if (hashes.includes(tree.hash)) return;
      const [is = '', meant] = [hashes[0]?.slice(0, 16), tree.hash.slice(0, 16)];
      note(
        `${posix.join(GITHUB_FOLDER, posix.basename(root))} is used, and is not the tree that it means: ` +
          `the hash of all files is ${is}…, and not ${meant}…; run mops install`,
      );
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      note(`nothing says that ${name} is the tree that it means: ${error.message}`);
    }
  }

  #whyMissing(name: string): string {
    if (this.#project === undefined) return `no mops.toml says where the package ${name} is`;
    if (this.#believed !== undefined) {
      const { lock } = this.#believed;
      const silent = isGraphWhole(lock) ? '' : ', and does not say what each of its packages depends on (graph)';
      return `mops.lock has no package ${name}${silent}; add ${name} to mops.toml and run mops install`;
    }
    const { dropped, unread, packages } = this.#resolved;
    const loser = dropped.get(name);
    if (loser !== undefined)
      return `the package ${name} is named by ${loser} alone, whose place another version has taken; add ${name} to mops.toml`;
    const start = `mops.toml has no package ${name}, nor has a package of its packages`;
    if (unread.length > 0)
      return `${start}, as far as is known: the manifest of ${unread[0]} is not there; run mops install`;
    const hasGithub = [...packages.values()].some(({ dependency }) => dependency.source.kind === 'github');
    return hasGithub ? `${start} (what comes from GitHub brings none); add ${name} to mops.toml` : start;
  }

  #notThere({ dependency: { name, value, source } }: Declared): MissingPackage {
    const missing = `the package ${name} (${value}) is not installed; run mops install`;
    if (source.kind === 'registry') return { missing, id: packageId(name, source.version) };
    if (source.kind === 'github') return { missing };
    const text = `the package ${name} is to be in ${JSON.stringify(value)}, and there is no such folder; correct the path in mops.toml`;
    return { missing: text };
  }

  /** Returns the folder of a package, or undefined if it does not exist. */
  async #folderOf(declared: Declared): Promise<string | undefined> {
    if (declared.dependency.source.kind === 'local') {
      const manifests = this.#project?.manifests;
      const folder = manifests?.folderOf(declared) ?? '/';
      const isFolder = await namingWho(this.#isFolder(folder), manifests?.whoNames(declared) ?? (() => ''));
      return isFolder ? folder : undefined;
    }
    for (const folder of this.#foldersFor(declared.dependency)) if (await this.#isFolder(folder)) return folder;
    return undefined;
  }

  /** Returns the folders where mops would have put a package. */
  #foldersFor(dependency: Dependency): readonly string[] {
    const folder = folderOf(dependency);
    return folder === undefined ? [] : this.#stores().map((store) => posix.join(store, folder));
  }

  /** Returns the folders that mops keeps packages in. */
  #stores(): readonly string[] {
    return [posix.join(this.#project?.root ?? '/', OWN_STORE), ...this.#options.stores];
  }

  #isFolder(path: string): Promise<boolean> {
    let found = this.#folders.get(path);
    if (found === undefined) {
      found = this.#reader.isFolder(path);
      this.#folders.set(path, found);
    }
    return found;
  }
}

/** Tells whether a path may lead into a package that mops has fetched, for any project. */
export function mayBeFetched(path: string, { stores }: Pick<MopsOptions, 'stores'>): boolean {
  return path.includes(`/${OWN_STORE}/`) || stores.some((store) => path.startsWith(`${store}/`));
}

/** The manifest of the project that a file is in; undefined: it is in none. Rejects as `MopsPackages.of` does. */
export async function projectOf(
  path: string,
  reader: SourceReader,
  { ceiling }: Pick<MopsOptions, 'ceiling'>,
): Promise<{ readonly file: string; readonly manifest: MopsManifest } | undefined> {
  let folder = posix.dirname(path);
  for (let level = 0; level < LEVELS_MAX; level++) {
    const file = posix.join(folder, 'mops.toml');
    const text = await reader.read(file);
    if (text !== undefined) return { file, manifest: parseMopsToml(text, file) };
    if (folder === ceiling || folder === '/') return undefined;
    folder = posix.dirname(folder);
  }
  return undefined;
}
