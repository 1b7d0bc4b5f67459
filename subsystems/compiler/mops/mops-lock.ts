/**
 * Reads `mops.lock` (version 3) as mops 3 does: a lock that is no JSON, or whose parts are not what they should be,
 * is *stale*, with the reason and its place. A bad lock never ends a compilation: manifests are read instead.
 * `lock-validity.ts` says whether a lock that can be read may be believed.
 */
import { createHash } from 'node:crypto';
import { ServerError } from '../../../kernel/index.ts';
import { type JsonNode, type JsonObject, JsonSyntaxError, placeOf, readJson } from '../../manifest/index.ts';
import { type Dependency, dependencyOf, PACKAGES_MAX } from './mops-toml.ts';

/** A line of some 120 characters for each file of each package: 18,000 files. */
const LOCK_CHARACTERS_MAX = 2 * 1024 * 1024;
/** A lock has a table for each package, and one for what it depends on. */
const LOCK_TABLES_MAX = 10_000;
const LOCK_VERSION = 3;

/**
 * Dependencies of packages of the registry, by `<name>@<version>`. Published versions do not change, so the graph of a
 * stale lock is as good.
 */
export type LockGraph = ReadonlyMap<string, readonly Dependency[]>;

export interface MopsLock {
  /** The hash of the dependencies in the root's manifest. */
  readonly rootHash: string;
  /** The hash of the dependencies in manifests of local packages; undefined: there was none. */
  readonly localHash: string | undefined;
  /** All packages, by name. */
  readonly deps: ReadonlyMap<string, Dependency>;
  readonly graph: LockGraph;
  /** Packages from GitHub, by name. */
  readonly trees: ReadonlyMap<string, LockedTree>;
  /** Packages of the registry that there are hashes of, as `<name>@<version>`. */
  readonly hashed: ReadonlySet<string>;
  /** SHA-256 in hex of files that mops has fetched, by package and path: `json@1.0.0/src/lib.mo`. */
  readonly hashes: ReadonlyMap<string, string>;
}

/** Commit and files of a package from GitHub, as a lock has them. */
interface LockedTree {
  readonly commit: string;
  /** SHA-256 in hex of all its files together, as `treeHashes` has it. */
  readonly hash: string;
}

/** A lock that cannot be read has no graph, either. */
type LockReading =
  | { readonly kind: 'read'; readonly lock: MopsLock }
  | { readonly kind: 'unusable'; readonly reason: string };

/** `file` is what errors call it. Throws ServerError `mops-invalid` where nobody can say what so large a lock means. */
export function readMopsLock(text: string, file: string): LockReading {
  const tooLarge = (what: string): ServerError =>
    new ServerError(
      'invalid',
      'mops-invalid',
      `cannot use ${file}: it has more than ${what}; remove the file: then mops.toml is read`,
    );
  if (text.length > LOCK_CHARACTERS_MAX) throw tooLarge(`${LOCK_CHARACTERS_MAX} characters`);
  if (hasMore(text, /[[{]/gu, LOCK_TABLES_MAX)) throw tooLarge(`${LOCK_TABLES_MAX} lists and tables`);
  try {
    return { kind: 'read', lock: new LockDocument(text).lock() };
  } catch (error) {
    if (error instanceof LockFault) return { kind: 'unusable', reason: placed(text, error.offset, error.message) };
    if (error instanceof JsonSyntaxError)
      return { kind: 'unusable', reason: placed(text, error.offset, `it is not JSON: ${error.message}`) };
    throw error;
  }
}

/** Something in a lock is not what it should be. */
class LockFault extends Error {
  readonly offset: number;

  constructor({ start }: JsonNode, message: string) {
    super(message);
    this.offset = start;
  }
}

class LockDocument {
  readonly #root: JsonNode;

  constructor(text: string) {
    this.#root = readJson(text);
  }

  lock(): MopsLock {
    const parts = membersOf(this.#root, 'it');
    const version = parts.get('version');
    if (version?.kind !== 'number' || Number(version.text) !== LOCK_VERSION)
      throw new LockFault(version ?? this.#root, `its version is ${shownValue(version)}, and not ${LOCK_VERSION}`);
    const part = (name: string): JsonNode => {
      const found = parts.get(name);
      if (found === undefined) throw new LockFault(this.#root, `it has no ${name}`);
      return found;
    };
    const localHash = parts.get('localDepsHash');
    const files = mapOf(part('hashes'), 'hashes', filesOfPackage);
    return {
      rootHash: textOf(part('mopsTomlDepsHash'), 'mopsTomlDepsHash'),
      localHash: localHash && textOf(localHash, 'localDepsHash'),
      deps: dependenciesIn(part('deps'), 'deps'),
      graph: graphIn(parts.get('graph')),
      trees: treesIn(parts.get('github')),
      hashed: new Set(files.keys()),
      hashes: new Map(
        [...files.values()].flatMap((each) => [...each].map(([path, hash]) => [path, hash.toLowerCase()])),
      ),
    };
  }
}

/** A hash among those of another package would say what that one's file is. */
function filesOfPackage(node: JsonNode, where: string, id: string): ReadonlyMap<string, string> {
  return mapOf(node, where, (each, place, path) => {
    const hash = textOf(each, place);
    if (!path.startsWith(`${id}/`)) throw new LockFault(each, `${place} is not of ${id.slice(0, 200)}`);
    return hash;
  });
}

function dependenciesIn(node: JsonNode, where: string): ReadonlyMap<string, Dependency> {
  const found = mapOf(node, where, (each, place, name) => {
    const value = textOf(each, place);
    const dependency = dependencyOf(name, value);
    if (dependency === undefined) throw new LockFault(each, `${place} is ${shown(value)}, which no package can be`);
    return dependency;
  });
  if (found.size > PACKAGES_MAX) throw new LockFault(node, `${where} has more than ${PACKAGES_MAX} packages`);
  return found;
}

/** None, where something in it is not as it should be: manifests say the same. */
function graphIn(node: JsonNode | undefined): LockGraph {
  if (node === undefined) return new Map();
  try {
    return mapOf(node, 'graph', (each, where) => [...dependenciesIn(each, where).values()]);
  } catch (error) {
    if (error instanceof LockFault) return new Map();
    throw error;
  }
}

function treesIn(node: JsonNode | undefined): ReadonlyMap<string, LockedTree> {
  if (node === undefined) return new Map();
  return mapOf(node, 'github', (each, where) => {
    const parts = membersOf(each, where);
    const part = (name: string): string => textOf(parts.get(name) ?? each, `${where}.${name}`);
    return { commit: part('resolved'), hash: part('hash').toLowerCase() };
  });
}

function mapOf<T>(
  node: JsonNode,
  where: string,
  read: (node: JsonNode, where: string, key: string) => T,
): Map<string, T> {
  const found = new Map<string, T>();
  for (const [key, value] of membersOf(node, where)) found.set(key, read(value, `${where}[${shown(key)}]`, key));
  return found;
}

/** mops writes no key twice: somebody else has, and means one of the two. */
function membersOf(node: JsonNode, where: string): ReadonlyMap<string, JsonNode> {
  if (node.kind !== 'object') throw new LockFault(node, `${where} is not a table`);
  const { members }: JsonObject = node;
  const found = new Map<string, JsonNode>();
  for (const { key, value } of members) {
    if (found.has(key.value)) throw new LockFault(key, `${where} has ${shown(key.value)} twice`);
    found.set(key.value, value);
  }
  return found;
}

function textOf(node: JsonNode, where: string): string {
  if (node.kind !== 'string') throw new LockFault(node, `${where} is not a text`);
  if (node.value === '') throw new LockFault(node, `${where} is empty`);
  return node.value;
}

function hasMore(text: string, mark: RegExp, max: number): boolean {
  let count = 0;
  while (mark.exec(text) !== null) if (++count > max) return true;
  return false;
}

function placed(text: string, offset: number, message: string): string {
  const { line, column } = placeOf(text, offset);
  return `${message} (line ${line}, column ${column})`;
}

function shownValue(node: JsonNode | undefined): string {
  if (node === undefined) return 'missing';
  return node.kind === 'number' ? node.text.slice(0, 40) : 'no number';
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}

/** Returns the hash of a text in hex, as `mops.lock` has it. */
export function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/**
 * Returns the hashes that mops may have of a folder with these files: of the list of paths and hashes in their order.
 * Which order of paths that is, its description leaves open.
 */
export function treeHashes(files: ReadonlyMap<string, Uint8Array>): readonly string[] {
  const list = [...files].map(([path, bytes]) => [path, sha256(bytes)] as const);
  const byUnits = list.toSorted(([a], [b]) => (a < b ? -1 : 1));
  const byWords = list.toSorted(([a], [b]) => a.localeCompare(b, 'en'));
  return [byUnits, byWords].map((sorted) => sha256(JSON.stringify(sorted)));
}

/**
 * Returns why the content is not the file that the lock means, as the rest of a sentence; undefined if it is, or if
 * the lock does not have it.
 */
export function lockProblem(content: string | Uint8Array, locked: string | undefined): string | undefined {
  if (locked === undefined) return undefined;
  const found = sha256(content);
  // A mark at its beginning, which says that it is UTF-8, is not part of the text.
  if (found === locked) return undefined;
  if (typeof content === 'string' && sha256(`\ufeff${content}`) === locked) return undefined;
  const [is, meant] = [found.slice(0, 16), locked.slice(0, 16)];
  return `is not the file that mops.lock means: its SHA-256 is ${is}…, and not ${meant}…; run mops install`;
}
