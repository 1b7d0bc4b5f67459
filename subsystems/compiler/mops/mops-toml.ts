/** Reads `mops.toml` and `mops.lock`, which are bad input like any other. */
import { createHash } from 'node:crypto';
import { parse, TomlError } from 'smol-toml';
import { messageOf, ServerError } from '../../../kernel/index.ts';

/** The largest known manifest has some 4 KB. */
export const MOPS_TOML_CHARACTERS_MAX = 256 * 1024;
/** A line of some 120 characters for each file of each package: 18,000 files, which are parsed in some 40 ms. */
export const MOPS_LOCK_CHARACTERS_MAX = 2 * 1024 * 1024;
/** A lock file has a table for each package. Lists in lists, by the million, would take the parser ten times as long. */
const MOPS_LOCK_TABLES_MAX = 10_000;
/** Real projects have tens of packages. */
export const PACKAGES_MAX = 1000;
/** In all manifests of a project and its packages together: some 20 of each package. */
export const DEPENDENCIES_MAX = 20_000;
/** All manifests together: parsed in at most 2 s, one after the other. */
export const MANIFESTS_CHARACTERS_MAX = 8 * 1024 * 1024;
/** The compiler has some 60 flags. */
const COMPILER_ARGS_MAX = 256;
/** Nested deeper, a manifest says nothing that is read here. */
const TOML_DEPTH_MAX = 32;

/** Where a dependency comes from, as its value in `mops.toml` or `mops.lock` says. */
export type DependencySource =
  | { readonly kind: 'registry'; readonly version: string }
  | { readonly kind: 'github'; readonly branch: string; readonly commit: string }
  /** As written: relative to the manifest that has it. */
  | { readonly kind: 'local'; readonly path: string };

export interface Dependency {
  /** What it is imported by; `name@0.1.0` is a name of its own. */
  readonly name: string;
  /** As written. */
  readonly value: string;
  readonly source: DependencySource;
}

export interface MopsManifest {
  readonly version: string | undefined;
  readonly baseDir: string | undefined;
  readonly dependencies: readonly Dependency[];
  readonly devDependencies: readonly Dependency[];
  /** `[moc] args`, as written. */
  readonly compilerArgs: readonly string[];
}

/** What a `mops.lock` says. */
export interface MopsLock {
  readonly dependencies: readonly Dependency[];
  /** SHA-256 in hex of files that mops has fetched, by package and path: `json@1.0.0/src/lib.mo`. */
  readonly hashes: ReadonlyMap<string, string>;
}

/** `file` is what errors call it. Throws ServerError `mops-invalid`. */
export function parseMopsToml(text: string, file: string): MopsManifest {
  if (text.length > MOPS_TOML_CHARACTERS_MAX)
    throw invalid(file, `it has more than ${MOPS_TOML_CHARACTERS_MAX} characters; leave in it what is about packages`);
  let table: unknown;
  try {
    table = parse(text, { maxDepth: TOML_DEPTH_MAX });
  } catch (error) {
    const reason = (messageOf(error).split('\n', 1)[0] ?? '').replace(/^Invalid TOML document: /u, '');
    const place = error instanceof TomlError ? ` (line ${error.line}, column ${error.column})` : '';
    throw invalid(file, `it is not TOML${place}: ${reason}`, error);
  }
  const origin: Origin = { file, place: (section, key) => lineOf(text, section, key) };
  const about = field(table, 'package');
  return {
    version: textIn(about, 'version', origin),
    baseDir: textIn(about, 'baseDir', origin),
    dependencies: dependenciesIn(table, 'dependencies', origin),
    devDependencies: dependenciesIn(table, 'dev-dependencies', origin),
    compilerArgs: argsIn(field(table, 'moc'), origin),
  };
}

/** What is read, for errors. */
interface Origin {
  readonly file: string;
  /** ` (line N)` of a table or of a key in it; empty where that is not known. */
  readonly place: (section: string, key?: string) => string;
}

/** By how tables and keys are usually written, because the parser does not tell. */
function lineOf(text: string, section: string, key: string | undefined): string {
  let current = '';
  for (const [k, untrimmed] of text.split('\n').entries()) {
    const line = untrimmed.trim();
    if (line.startsWith('[')) {
      current =
        line
          .slice(line.startsWith('[[') ? 2 : 1)
          .split(']', 1)[0]
          ?.trim() ?? '';
      if (current === (key === undefined ? section : `${section}.${key}`)) return ` (line ${k + 1})`;
      continue;
    }
    const [, quoted, plain] = /^(?:"([^"]*)"|([\w-]+))\s*[=.]/u.exec(line) ?? [];
    const name = quoted ?? plain;
    if (
      name !== undefined &&
      (key === undefined ? current === '' && name === section : current === section && name === key)
    )
      return ` (line ${k + 1})`;
  }
  return '';
}

/**
 * What a lock file has for these dependencies of the root; undefined if it is of another version, or of other
 * dependencies: then the manifests are asked. Throws ServerError `mops-invalid`.
 */
export function parseMopsLock(text: string, file: string, root: MopsManifest): MopsLock | undefined {
  if (text.length > MOPS_LOCK_CHARACTERS_MAX)
    throw invalid(file, `it has more than ${MOPS_LOCK_CHARACTERS_MAX} characters; remove it: then mops.toml is asked`);
  if (hasMore(text, /[[{]/gu, MOPS_LOCK_TABLES_MAX))
    throw invalid(
      file,
      `it has more than ${MOPS_LOCK_TABLES_MAX} lists and tables; remove it, or let mops make it anew`,
    );
  let lock: unknown;
  try {
    lock = JSON.parse(text);
  } catch (error) {
    throw invalid(file, `it is not JSON: ${messageOf(error)}; remove it, or let mops make it anew`, error);
  }
  if (field(lock, 'version') !== 3 || field(lock, 'mopsTomlDepsHash') !== dependenciesHash(root)) return undefined;
  const origin: Origin = { file, place: () => '' };
  return { dependencies: dependenciesOf(field(lock, 'deps'), 'deps', origin), hashes: hashesIn(lock, origin) };
}

function hasMore(text: string, mark: RegExp, max: number): boolean {
  let count = 0;
  while (mark.exec(text) !== null) if (++count > max) return true;
  return false;
}

/** A table of tables: files with their hashes, by package. Older locks, and those without packages, have none. */
function hashesIn(lock: unknown, origin: Origin): ReadonlyMap<string, string> {
  const hashes = new Map<string, string>();
  for (const files of Object.values(tableOf(field(lock, 'hashes') ?? {}, 'hashes', origin))) {
    for (const [path, hash] of Object.entries(tableOf(files, 'hashes', origin))) {
      if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/iu.test(hash))
        throw invalid(origin.file, `what hashes has for ${JSON.stringify(path.slice(0, 300))} is no SHA-256`);
      hashes.set(path, hash.toLowerCase());
    }
  }
  return hashes;
}

/** Why a text is not the file that the lock file means, as a sentence; undefined: it is, or the lock file does not have it. */
export function lockProblem(path: string, text: string, locked: string | undefined): string | undefined {
  if (locked === undefined) return undefined;
  const found = sha256(text);
  // A mark at its beginning, which says that it is UTF-8, is not part of the text.
  if (found === locked || sha256(`\ufeff${text}`) === locked) return undefined;
  return `${path} is not the file that mops.lock means: its SHA-256 is ${found.slice(0, 16)}…, and not ${locked.slice(0, 16)}…; run mops install`;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** What mops writes into a lock file as `mopsTomlDepsHash`. */
function dependenciesHash({ dependencies, devDependencies }: MopsManifest): string {
  const values = new Map([...dependencies, ...devDependencies].map(({ name, value }) => [name, value]));
  const sorted = [...values].toSorted(([a], [b]) => (a < b ? -1 : 1));
  // Numbers as names would come first in an object, so there they do in mops.
  return sha256(JSON.stringify(Object.fromEntries(sorted)));
}

/** As mops names a folder of its own. */
export function folderOf({ name, source }: Dependency): string | undefined {
  const [short = name] = name.split('@');
  switch (source.kind) {
    case 'registry':
      return `${short}@${source.version}`;
    case 'github': {
      const commit = source.commit === '' ? '' : `@${source.commit}`;
      return `_github/${name}#${source.branch.replaceAll('/', '___')}${commit}`;
    }
    case 'local':
      return undefined;
  }
}

/** `-1` if `a` is lower: three numbers, what is missing is 0. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split('.').map((part) => Number.parseInt(part, 10) || 0));
  for (let k = 0; k < 3; k++) {
    const difference = (left?.[k] ?? 0) - (right?.[k] ?? 0);
    if (difference !== 0) return Math.sign(difference);
  }
  return 0;
}

function argsIn(section: unknown, { file, place }: Origin): readonly string[] {
  const args: unknown = field(section, 'args') ?? [];
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string'))
    throw invalid(file, `args in [moc]${place('moc', 'args')} is not a list of texts; write args = ["-W=M0223"]`);
  if (args.length > COMPILER_ARGS_MAX)
    throw invalid(file, `[moc]${place('moc', 'args')} has more than ${COMPILER_ARGS_MAX} args`);
  return args;
}

function dependenciesIn(table: unknown, name: string, origin: Origin): readonly Dependency[] {
  const section = field(table, name);
  return section === undefined ? [] : dependenciesOf(section, name, origin);
}

function dependenciesOf(section: unknown, where: string, origin: Origin): readonly Dependency[] {
  const { file } = origin;
  const entries = Object.entries(tableOf(section, where, origin));
  if (entries.length > PACKAGES_MAX)
    throw invalid(
      file,
      `${where}${origin.place(where)} has more than ${PACKAGES_MAX} packages; remove those that are not imported`,
    );
  return entries.map(([name, value]) => {
    const at = (): string => origin.place(where, name);
    const place = `${where}.${name}`;
    if (!/^[\p{L}\p{N}_][\p{L}\p{N}_.@-]*$/u.test(name) || name.length > 128)
      throw invalid(
        file,
        `${JSON.stringify(place.slice(0, 200))}${at()} is not a package name: letters, digits and _ . - @ are`,
      );
    if (typeof value !== 'string') throw invalid(file, `${place}${at()} is not a text; write ${name} = "1.0.0"`);
    const source = sourceOf(value);
    if (source !== undefined) return { name, value, source };
    const written = JSON.stringify(value.slice(0, 100));
    throw invalid(
      file,
      `${place}${at()} is ${written}: neither a version ("1.0.0"), a path ("./${name}") nor a GitHub address`,
    );
  });
}

function tableOf(value: unknown, where: string, origin: Origin): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(
      origin.file,
      `${where}${origin.place(where)} is not a table; write [${where}], and its entries below`,
    );
  return value as Readonly<Record<string, unknown>>;
}

/** Undefined: it is nothing that a dependency may be. */
function sourceOf(value: string): DependencySource | undefined {
  if (/^\.{0,2}\//u.test(value)) return { kind: 'local', path: value };
  if (value.startsWith('https://github.com/')) {
    const [branch = '', commit = ''] = value.split('#', 2)[1]?.split('@', 2) ?? [];
    return { kind: 'github', branch: branch === '' ? 'master' : branch, commit };
  }
  // It becomes a part of a folder's name.
  return /^[\w.+-]+$/u.test(value) ? { kind: 'registry', version: value } : undefined;
}

function textIn(table: unknown, name: string, { file, place }: Origin): string | undefined {
  const value = field(table, name);
  if (value === undefined) return undefined;
  if (typeof value !== 'string')
    throw invalid(file, `package.${name}${place('package', name)} is not a text; put it in quotes`);
  return value;
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined;
}

function invalid(file: string, reason: string, cause?: unknown): ServerError {
  return new ServerError('invalid', 'mops-invalid', `cannot use ${file}: ${reason}`, { cause });
}
