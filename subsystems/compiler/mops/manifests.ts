/** The manifests of a project's packages: each is read and parsed once, and all of them together are bounded. */
import { posix } from 'node:path';
import { ServerError } from '../../../kernel/index.ts';
import { namingWho, type SourceReader } from '../source-reader.ts';
import { sha256 } from './mops-lock.ts';
import { type Dependency, type MopsManifest, PACKAGES_MAX, parseMopsToml } from './mops-toml.ts';

/** Characters of all manifests together: they are parsed in at most 2 s, one after the other. */
const CHARACTERS_MAX = 8 * 1024 * 1024;

interface ManifestsOptions {
  /** The folder of the project's own manifest. */
  readonly root: string;
  /** The folder from which paths are shown. */
  readonly ceiling: string;
  /** The text that `{MOPS_ENV}` in a path stands for. */
  readonly environment: string;
}

/** A dependency and the folder of the manifest that has it. */
export interface Declared {
  readonly dependency: Dependency;
  readonly from: string;
}

interface LocalPackage {
  /** The dependency by which the package was met first. */
  readonly declared: Declared;
  readonly folder: string;
  /** Undefined: it has none. */
  readonly manifest: MopsManifest | 'unreadable' | undefined;
}

export class Manifests {
  readonly root: string;
  readonly #reader: SourceReader;
  readonly #options: ManifestsOptions;
  readonly #read = new Map<string, Promise<MopsManifest | undefined>>();
  #characters = 0;

  constructor(reader: SourceReader, options: ManifestsOptions) {
    this.root = options.root;
    this.#reader = reader;
    this.#options = options;
  }

  /**
   * Returns the manifest in a folder, or undefined if there is none. Rejects with ServerError `mops-invalid`, or with
   * the reader's error.
   */
  at(folder: string): Promise<MopsManifest | undefined> {
    let read = this.#read.get(folder);
    if (read === undefined) {
      read = this.#parse(folder);
      this.#read.set(folder, read);
    }
    return read;
  }

  /** Resolves with the manifest of a local package. */
  of(local: Declared): Promise<MopsManifest | undefined> {
    return namingWho(this.at(this.folderOf(local)), this.whoNames(local));
  }

  /** Returns the folder of a local package. */
  folderOf({ dependency: { source }, from }: Declared): string {
    const path = source.kind === 'local' ? source.path : '.';
    return posix.normalize(posix.resolve(from, path).replaceAll('{MOPS_ENV}', this.#options.environment));
  }

  /** Returns a local package's folder as mops names it: its path from the root. */
  nameOf(folder: string): string {
    const path = posix.relative(this.root, folder);
    return path.startsWith('../') ? path : `./${path}`;
  }

  /** Says, for errors, which line of which manifest means a package. */
  whoNames({ dependency: { name, value }, from }: Declared): () => string {
    return () =>
      `${posix.relative(this.#options.ceiling, posix.join(from, 'mops.toml'))} has ${name} = ${JSON.stringify(value)}`;
  }

  /** Throws ServerError `mops-invalid` if there are more of something than a project has. */
  expectAtMost(count: number, max: number, what: string): void {
    if (count <= max) return;
    const message =
      `cannot use ${posix.join(this.root, 'mops.toml')}: with the packages of its packages ` +
      `it has more than ${max} ${what}; remove packages that are not imported`;
    throw new ServerError('invalid', 'mops-invalid', message);
  }

  /**
   * Resolves with the hash that mops writes into a lock as `localDepsHash`: of local packages that are reached by local
   * packages alone; undefined without any.
   */
  async localHash(root: MopsManifest): Promise<string | undefined> {
    const locals = await this.locals(root);
    if (locals.length === 0) return undefined;
    const declared = locals.map(({ folder, manifest }) => {
      const values = typeof manifest === 'object' ? valuesOf(manifest.dependencies) : (manifest ?? null);
      return [this.nameOf(folder), values] as const;
    });
    return sha256(JSON.stringify(declared.toSorted(([a], [b]) => (a < b ? -1 : 1))));
  }

  /** Resolves with these local packages, each once. */
  async locals(root: MopsManifest): Promise<readonly LocalPackage[]> {
    const found = new Map<string, LocalPackage>();
    const queue = ownDependencies(root).map((dependency): Declared => ({ dependency, from: this.root }));
    // The queue grows meanwhile.
    for (const declared of queue) {
      const folder = this.folderOf(declared);
      if (declared.dependency.source.kind !== 'local' || found.has(folder)) continue;
      const manifest = await this.of(declared).catch(unreadable);
      found.set(folder, { declared, folder, manifest });
      if (typeof manifest !== 'object') continue;
      for (const dependency of manifest.dependencies) queue.push({ dependency, from: folder });
    }
    return [...found.values()];
  }

  async #parse(folder: string): Promise<MopsManifest | undefined> {
    // One name may be in ever other folders.
    this.expectAtMost(this.#read.size, PACKAGES_MAX, 'packages');
    const file = posix.join(folder, 'mops.toml');
    const text = await this.#reader.read(file);
    if (text === undefined) return undefined;
    this.#characters += text.length;
    this.expectAtMost(this.#characters, CHARACTERS_MAX, 'characters in manifests');
    return parseMopsToml(text, file);
  }
}

/** Returns the dependencies that the project itself names: of a name in both sections, the second. */
export function ownDependencies({ dependencies, devDependencies }: MopsManifest): readonly Dependency[] {
  return [...new Map([...dependencies, ...devDependencies].map((each) => [each.name, each])).values()];
}

/** Returns the hash that mops writes into a lock as `mopsTomlDepsHash`. */
export function rootHash(root: MopsManifest): string {
  return sha256(JSON.stringify(valuesOf(ownDependencies(root))));
}

/** As written, by name; numbers as names would come first in an object, so there they do in mops. */
function valuesOf(dependencies: readonly Dependency[]): object {
  const sorted = dependencies.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return Object.fromEntries(sorted.map(({ name, value }) => [name, value]));
}

/**
 * Returns the mark of mops for a manifest that it cannot read either. A caller that asks for packages is told what is
 * wrong there.
 */
function unreadable(error: unknown): 'unreadable' {
  if (error instanceof ServerError && error.kind === 'invalid') return 'unreadable';
  throw error;
}
