/**
 * Says why a `mops.lock` may not be believed, as mops 3 decides it: offline, from the lock, the project's manifest
 * and those of local packages. A lock that passes names every package, and no other manifest is read. In some points
 * this is stricter than mops: paths of the root are compared with what is locked, and what local packages want with
 * what they would get.
 */
import { posix } from 'node:path';
import { isHigher } from './dependency-order.ts';
import { type Declared, type Manifests, ownDependencies, rootHash } from './manifests.ts';
import type { MopsLock } from './mops-lock.ts';
import { type Dependency, type MopsManifest, packageId } from './mops-toml.ts';

interface Question {
  readonly lock: MopsLock;
  /** The root's. */
  readonly manifest: MopsManifest;
  readonly manifests: Manifests;
}

/** Says what is wrong, or nothing. */
type Check = (question: Question) => string | undefined | Promise<string | undefined>;

const CHECKS: readonly Check[] = [
  otherRoot,
  otherLocals,
  absolutePath,
  otherRootEntry,
  otherHashes,
  otherCommits,
  openGraph,
  openLocals,
];

/** Returns why a lock may not be believed, or undefined if it may. Rejects as `Manifests` does. */
export async function whyStale(
  lock: MopsLock,
  manifest: MopsManifest,
  manifests: Manifests,
): Promise<string | undefined> {
  for (const check of CHECKS) {
    const reason = await check({ lock, manifest, manifests });
    if (reason !== undefined) return reason;
  }
  return undefined;
}

function otherRoot({ lock, manifest }: Question): string | undefined {
  if (lock.rootHash === rootHash(manifest)) return undefined;
  const changed = ownDependencies(manifest).find(({ name, value }) => lock.deps.get(name)?.value !== value);
  const example = changed === undefined ? '' : `, ${written(changed)} for one`;
  return `it was made from other dependencies than mops.toml has${example}`;
}

async function otherLocals({ lock, manifest, manifests }: Question): Promise<string | undefined> {
  const now = await manifests.localHash(manifest);
  if (lock.localHash === now) return undefined;
  if (lock.localHash === undefined) return 'it says nothing of local packages, which mops.toml has';
  if (now === undefined) return 'it is of local packages, which mops.toml does not have';
  return 'local packages have other dependencies, or other paths, than when it was made';
}

function absolutePath({ lock }: Question): string | undefined {
  const found = [...lock.deps.values()].find(({ source }) => source.kind === 'local' && posix.isAbsolute(source.path));
  return found && `it has an absolute path (${written(found)})`;
}

function otherRootEntry({ lock, manifest, manifests }: Question): string | undefined {
  const folderOf = (dependency: Dependency): string => manifests.folderOf({ dependency, from: manifests.root });
  for (const dependency of ownDependencies(manifest)) {
    const locked = lock.deps.get(dependency.name);
    const isLocal = dependency.source.kind === 'local';
    const isSame = isLocal
      ? locked?.source.kind === 'local' && folderOf(locked) === folderOf(dependency)
      : locked?.value === dependency.value;
    if (!isSame) return `mops.toml has ${written(dependency)}, and it has ${locked ? written(locked) : 'none'}`;
  }
  return undefined;
}

function otherHashes({ lock }: Question): string | undefined {
  const ids = new Set([...lock.deps.values()].map(idOf));
  ids.delete(undefined);
  const without = [...ids].find((id) => id !== undefined && !lock.hashed.has(id));
  if (without !== undefined) return `it has no hashes of ${without}`;
  const unused = [...lock.hashed].find((id) => !ids.has(id));
  return unused && `it has hashes of ${unused.slice(0, 200)}, which is not among its packages`;
}

function otherCommits({ lock }: Question): string | undefined {
  for (const { name, source } of lock.deps.values()) {
    if (source.kind !== 'github') continue;
    const locked = lock.trees.get(name)?.commit;
    if (locked === undefined) return `it has no commit of ${name}`;
    if (source.commit !== '' && source.commit !== locked)
      return `it has the commit ${locked.slice(0, 40)} of ${name}, which is pinned to ${source.commit.slice(0, 40)}`;
  }
  const unused = [...lock.trees.keys()].find((name) => lock.deps.get(name)?.source.kind !== 'github');
  return unused && `it has a commit of ${unused.slice(0, 200)}, which is not among its packages from GitHub`;
}

/** Looks for names alone: often a version wins that another package does not ask for. */
function openGraph({ lock }: Question): string | undefined {
  for (const dependency of lock.deps.values()) {
    const id = idOf(dependency);
    const lost = id && lock.graph.get(id)?.find(({ name }) => !lock.deps.has(name));
    if (lost) return `${id} depends on ${lost.name}, and it has none`;
  }
  return undefined;
}

/** Looks for what local packages name, since their manifests can be read. */
async function openLocals({ lock, manifest, manifests }: Question): Promise<string | undefined> {
  const keyOf = (declared: Declared): string =>
    declared.dependency.source.kind === 'local' ? manifests.folderOf(declared) : declared.dependency.value;
  const locked = [...lock.deps.values()].map((dependency) => ({ dependency, from: manifests.root }));
  const keys = new Map(locked.map((declared) => [declared.dependency.name, keyOf(declared)]));
  const folders = new Set(keys.values());
  const own = new Set(ownDependencies(manifest).map(({ name }) => name));
  const named = new Set(namedInGraph(lock));
  const others: { readonly name: string; readonly reason: string }[] = [];
  for (const local of await manifests.locals(manifest)) {
    const read = local.manifest === 'unreadable' ? await manifests.of(local.declared) : local.manifest;
    for (const wanted of read?.dependencies ?? []) {
      const { name } = wanted;
      const key = keyOf({ dependency: wanted, from: local.folder });
      named.add(`${name} ${key}`);
      const found = lock.deps.get(name);
      const reason =
        `the local package ${local.declared.dependency.name} has ${written(wanted)}, ` +
        `and it has ${found ? written(found) : 'none'}`;
      // A folder whose place another one has taken may name what is missing.
      if (found === undefined && folders.has(local.folder)) return reason;
      if (found === undefined || own.has(name) || keys.get(name) === key) continue;
      if (isHigher(wanted, found)) return reason;
      others.push({ name, reason });
    }
  }
  if (!isGraphWhole(lock)) return undefined;
  const stranger = others.find(({ name }) => !named.has(`${name} ${keys.get(name)}`));
  return stranger && `${stranger.reason}, which nobody names`;
}

/** Tells whether it says of each package of the registry what that depends on. */
export function isGraphWhole({ deps, graph }: MopsLock): boolean {
  return [...deps.values()].every((dependency) => graph.has(idOf(dependency) ?? '') || idOf(dependency) === undefined);
}

/** Returns names with versions; the graph has no paths. */
function namedInGraph({ graph }: MopsLock): readonly string[] {
  return [...graph.values()].flatMap((each) => each.map(({ name, value }) => `${name} ${value}`));
}

function idOf({ name, source }: Dependency): string | undefined {
  return source.kind === 'registry' ? packageId(name, source.version) : undefined;
}

function written({ name, value }: Dependency): string {
  return `${name} = ${JSON.stringify(value.slice(0, 200))}`;
}
