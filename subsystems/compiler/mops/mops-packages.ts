/**
 * Which folder a `mo:<package>` import means: what mops 2.9 would say (`mops sources`), from what lies on the disk.
 *
 * The project is the nearest folder upwards with a `mops.toml`. A `mops.lock` of its dependencies wins. Otherwise manifests are
 * walked: the root's own version wins, else the higher one; one name, one version. The manifest of a package that is not there
 * is left out of the walk: only what is imported has to be there.
 */
import { posix } from 'node:path';
import { ServerError } from '../../../kernel/index.ts';
import { namingWho, type SourceReader } from '../source-reader.ts';
import {
  compareVersions,
  DEPENDENCIES_MAX,
  type Dependency,
  folderOf,
  lockProblem,
  MANIFESTS_CHARACTERS_MAX,
  type MopsManifest,
  PACKAGES_MAX,
  parseMopsLock,
  parseMopsToml,
} from './mops-toml.ts';

export interface MopsOptions {
  /** The folder above which no project is looked for; the root of the file system, if left out. */
  readonly ceiling?: string;
  /** Folders besides the project's `.mops` where mops keeps packages. */
  readonly stores: readonly string[];
  /** What `{MOPS_ENV}` in a path stands for. */
  readonly environment: string;
}

export interface MopsPackage {
  readonly name: string;
  /** Undefined: a local one that says none. */
  readonly version: string | undefined;
  /** The folder with all that belongs to it. */
  readonly root: string;
  /** What imports are relative to; `root` or a folder inside. */
  readonly base: string;
  /** It is a part of the project, or of one beside it, and not one that mops has fetched. */
  readonly isLocal: boolean;
  /** Of files that mops has fetched, by `<name of the root's folder>/<path in it>`: what `mops.lock` says, if it says something. */
  readonly hashes: ReadonlyMap<string, string>;
}

/** Why there is no such package, as a part of a sentence. */
export interface MissingPackage {
  readonly missing: string;
}

const LEVELS_MAX = 64;
const NO_HASHES: ReadonlyMap<string, string> = new Map();

interface Chosen {
  readonly dependency: Dependency;
  readonly isRoot: boolean;
  /** The folder of the manifest that has it. */
  readonly from: string;
}

export class MopsPackages {
  readonly #reader: SourceReader;
  readonly #options: MopsOptions;
  readonly #root: string | undefined;
  #hashes: ReadonlyMap<string, string> = NO_HASHES;
  readonly #chosen = new Map<string, Chosen>();
  readonly #found = new Map<string, Promise<MopsPackage | MissingPackage>>();
  /** By path: packages have the same packages, and each folder is looked for once. */
  readonly #folders = new Map<string, Promise<boolean>>();

  private constructor(reader: SourceReader, options: MopsOptions, root: string | undefined) {
    this.#reader = reader;
    this.#options = options;
    this.#root = root;
  }

  /** For the project that a file is in. Rejects with ServerError `mops-invalid`, or what the reader rejects with. */
  static async of(file: string, reader: SourceReader, options: MopsOptions): Promise<MopsPackages> {
    const project = await projectOf(file, reader, options);
    const packages = new MopsPackages(reader, options, project && posix.dirname(project.file));
    if (project !== undefined) await packages.#choose(project.manifest);
    return packages;
  }

  /** Whether the project has a package of that name, there or not. */
  has(name: string): boolean {
    return this.#chosen.has(name);
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
    const root = this.#root ?? '/';
    const lockFile = posix.join(root, 'mops.lock');
    const lock = await this.#reader.read(lockFile);
    const locked = lock === undefined ? undefined : parseMopsLock(lock, lockFile, manifest);
    if (locked !== undefined) {
      for (const dependency of locked.dependencies)
        this.#chosen.set(dependency.name, { dependency, isRoot: true, from: root });
      this.#hashes = locked.hashes;
      return;
    }
    await this.#walk([...manifest.dependencies, ...manifest.devDependencies], root);
  }

  /** Depth first, as mops does; each folder once. */
  async #walk(dependencies: readonly Dependency[], root: string): Promise<void> {
    const walked = new Set<string>();
    let dependenciesSeen = 0;
    let charactersRead = 0;
    const expectAtMost = (count: number, max: number, what: string): void => {
      if (count <= max) return;
      const file = posix.join(root, 'mops.toml');
      const message = `cannot use ${file}: with the packages of its packages it has more than ${max} ${what}; remove packages that are not imported`;
      throw new ServerError('invalid', 'mops-invalid', message);
    };
    const visit = async (list: readonly Dependency[], from: string, isRoot: boolean): Promise<void> => {
      dependenciesSeen += list.length;
      expectAtMost(dependenciesSeen, DEPENDENCIES_MAX, 'dependencies');
      for (const dependency of list) {
        const before = this.#chosen.get(dependency.name);
        if (isRoot || before === undefined || (!before.isRoot && isHigher(dependency, before.dependency)))
          this.#chosen.set(dependency.name, { dependency, isRoot, from });
        expectAtMost(this.#chosen.size, PACKAGES_MAX, 'packages');
        const folder = await this.#folderOf(dependency, from);
        if (folder === undefined || walked.has(folder)) continue;
        walked.add(folder);
        // One name in ever other folders.
        expectAtMost(walked.size, PACKAGES_MAX, 'packages');
        const file = posix.join(folder, 'mops.toml');
        const text = await this.#reader.read(file);
        if (text === undefined) continue;
        charactersRead += text.length;
        expectAtMost(charactersRead, MANIFESTS_CHARACTERS_MAX, 'characters in manifests');
        await visit(parseMopsToml(text, file).dependencies, folder, false);
      }
    };
    await visit(dependencies, root, true);
  }

  async #find(name: string): Promise<MopsPackage | MissingPackage> {
    const chosen = this.#chosen.get(name);
    if (chosen === undefined) {
      const missing =
        this.#root === undefined
          ? `no mops.toml says where the package ${name} is`
          : `mops.toml has no package ${name}, nor has a package of its packages`;
      return { missing };
    }
    const { dependency, from } = chosen;
    const root = await this.#folderOf(dependency, from);
    if (root === undefined)
      return { missing: `the package ${name} (${dependency.value}) is not installed; run mops install` };
    const isLocal = dependency.source.kind === 'local';
    const hashes = isLocal ? NO_HASHES : this.#hashes;
    const file = posix.join(root, 'mops.toml');
    const text = await this.#reader.read(file);
    const missing = text && lockProblem(file, text, hashes.get(`${posix.basename(root)}/mops.toml`));
    if (missing) return { missing };
    const manifest = text === undefined ? undefined : parseMopsToml(text, file);
    const base = posix.join(root, manifest?.baseDir ?? 'src');
    if (base !== root && !base.startsWith(`${root}/`))
      return { missing: `the package ${name} has a baseDir outside of itself` };
    const isBaseMissing = isLocal && !(await this.#reader.isFolder(base));
    const version = dependency.source.kind === 'registry' ? dependency.source.version : manifest?.version;
    return { name, version, root, base: (isBaseMissing ? root : base).replace(/\/$/u, ''), isLocal, hashes };
  }

  /** Undefined: it is not there. */
  async #folderOf(dependency: Dependency, from: string): Promise<string | undefined> {
    const { source } = dependency;
    if (source.kind === 'local') {
      const path = source.path.replaceAll('{MOPS_ENV}', this.#options.environment);
      const folder = posix.resolve(from, path);
      const who = (): string => {
        const file = posix.relative(this.#options.ceiling ?? '/', posix.join(from, 'mops.toml'));
        return `${file} has ${dependency.name} = ${JSON.stringify(dependency.value)}`;
      };
      const isFolder = await namingWho(this.#isFolder(folder), who);
      return isFolder ? folder : undefined;
    }
    const name = folderOf(dependency) ?? '';
    for (const store of [posix.join(this.#root ?? '/', '.mops'), ...this.#options.stores]) {
      const folder = posix.join(store, name);
      if (await this.#isFolder(folder)) return folder;
    }
    return undefined;
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

/** Whether a dependency takes the place of one of the same name; of the root neither is. */
function isHigher({ source: next }: Dependency, { source: before }: Dependency): boolean {
  if (next.kind === 'github' && before.kind === 'github') {
    const [a, b] = [branchVersion(before.branch), branchVersion(next.branch)];
    // A branch that is no version always loses.
    if (a === undefined || b === undefined) return a === undefined && b !== undefined;
    return compareVersions(a, b) < 0;
  }
  const versionOf = (source: Dependency['source']): string => (source.kind === 'registry' ? source.version : '0.0.0');
  return compareVersions(versionOf(before), versionOf(next)) < 0;
}

function branchVersion(branch: string): string | undefined {
  return /v(\d{1,2}\.\d{1,2}\.\d{1,2})(?:-.*)?$/u.exec(branch)?.[1];
}
