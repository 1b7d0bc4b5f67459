/**
 * Decides which version of each package a project gets, as mops 3 does without a lock: manifests are walked depth
 * first, the root's entry wins, else the higher version; then only packages that winning versions name are there.
 */
import type { Declared, Manifests } from './manifests.ts';
import type { LockGraph } from './mops-lock.ts';
import { replaces } from './dependency-order.ts';
import { type Dependency, type MopsManifest, packageId, PACKAGES_MAX } from './mops-toml.ts';

/** Dependencies in all manifests of a project and its packages together: some 20 of each package. */
const DEPENDENCIES_MAX = 20_000;

export interface ResolvedPackages {
  /** Packages by name. */
  readonly packages: ReadonlyMap<string, Declared>;
  /**
   * Packages that have no place: named only by versions that others have taken the place of. Each with one of these
   * versions.
   */
  readonly dropped: ReadonlyMap<string, string>;
  /** Packages whose manifests are not there, so that nobody knows what they depend on. */
  readonly unread: readonly string[];
}

interface ResolveNeeds {
  readonly manifests: Manifests;
  /** The graph of the lock, stale or not. */
  readonly graph: LockGraph;
  /** The manifest of a package that mops has fetched, with its folder; undefined: it is not there. */
  readonly fetched: (
    dependency: Dependency,
  ) => Promise<{ readonly manifest: MopsManifest; readonly folder: string } | undefined>;
}

/** Rejects with ServerError `mops-invalid`, or what the reader of manifests rejects with. */
export async function resolvePackages(root: MopsManifest, needs: ResolveNeeds): Promise<ResolvedPackages> {
  const walk = new PackageWalk(needs);
  const own = [...root.dependencies, ...root.devDependencies];
  await walk.visit(own, needs.manifests.root, true);
  return walk.result(own.map(({ name }) => name));
}

interface Chosen extends Declared {
  readonly isRoot: boolean;
  readonly identity: string;
}

interface Children {
  readonly dependencies: readonly Dependency[];
  readonly folder: string;
}

class PackageWalk {
  readonly #needs: ResolveNeeds;
  readonly #chosen = new Map<string, Chosen>();
  /** Names that a package declares, by what it is. */
  readonly #children = new Map<string, readonly string[]>();
  readonly #walked = new Set<string>();
  readonly #unread: string[] = [];
  #dependencies = 0;

  constructor(needs: ResolveNeeds) {
    this.#needs = needs;
  }

  async visit(dependencies: readonly Dependency[], from: string, isRoot: boolean): Promise<void> {
    const { manifests } = this.#needs;
    this.#dependencies += dependencies.length;
    manifests.expectAtMost(this.#dependencies, DEPENDENCIES_MAX, 'dependencies');
    for (const dependency of dependencies) {
      const identity = this.#identityOf({ dependency, from });
      const before = this.#chosen.get(dependency.name);
      if (isRoot || before === undefined || (!before.isRoot && replaces(dependency, before.dependency)))
        this.#chosen.set(dependency.name, { dependency, from, isRoot, identity });
      if (this.#walked.has(identity)) continue;
      this.#walked.add(identity);
      manifests.expectAtMost(this.#walked.size, PACKAGES_MAX, 'packages');
      const children = await this.#childrenOf({ dependency, from });
      if (children === undefined) continue;
      this.#children.set(
        identity,
        children.dependencies.map(({ name }) => name),
      );
      await this.visit(children.dependencies, children.folder, false);
    }
  }

  result(own: readonly string[]): ResolvedPackages {
    const visible = new Set(own);
    // The set grows meanwhile.
    for (const name of visible)
      for (const child of this.#children.get(this.#chosen.get(name)?.identity ?? '') ?? []) visible.add(child);
    const dropped = new Map<string, string>();
    for (const [identity, names] of this.#children)
      for (const name of names) if (!visible.has(name) && !dropped.has(name)) dropped.set(name, identity);
    return {
      packages: new Map([...this.#chosen].filter(([name]) => visible.has(name))),
      dropped,
      unread: this.#unread,
    };
  }

  #identityOf(declared: Declared): string {
    const { name, value, source } = declared.dependency;
    if (source.kind === 'github') return value;
    const { manifests } = this.#needs;
    return source.kind === 'local' ? manifests.nameOf(manifests.folderOf(declared)) : packageId(name, source.version);
  }

  /** Undefined: it has none, or nobody knows. */
  async #childrenOf(declared: Declared): Promise<Children | undefined> {
    const { manifests, graph, fetched } = this.#needs;
    const { dependency } = declared;
    switch (dependency.source.kind) {
      case 'github':
        // mops reads nothing there.
        return undefined;
      case 'local': {
        const manifest = await manifests.of(declared);
        return manifest && { dependencies: manifest.dependencies, folder: manifests.folderOf(declared) };
      }
      case 'registry': {
        const id = packageId(dependency.name, dependency.source.version);
        const known = graph.get(id);
        if (known !== undefined) return { dependencies: known, folder: manifests.root };
        const found = await fetched(dependency);
        if (found === undefined) this.#unread.push(id);
        return found && { dependencies: found.manifest.dependencies, folder: found.folder };
      }
    }
  }
}
