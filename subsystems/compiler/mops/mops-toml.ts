/** Reads `mops.toml`, which is bad input like any other. */
import { parse, TomlError } from 'smol-toml';
import { messageOf, ServerError } from '../../../kernel/index.ts';

/** The largest known manifest has some 4 KB. */
const MOPS_TOML_CHARACTERS_MAX = 256 * 1024;
/** Real projects have tens of packages. */
export const PACKAGES_MAX = 1000;
/** The compiler has some 60 flags. */
const COMPILER_ARGS_MAX = 256;
/** Nested deeper, a manifest says nothing that is read here. */
const TOML_DEPTH_MAX = 32;

/** Source of a dependency, as its value in `mops.toml` or `mops.lock` says. */
export type DependencySource =
  | { readonly kind: 'registry'; readonly version: string }
  | { readonly kind: 'github'; readonly branch: string; readonly commit: string }
  /** Path as written: relative to the manifest that has it. */
  | { readonly kind: 'local'; readonly path: string };

export interface Dependency {
  /** Name that imports use; `name@0.1.0` is a name of its own. */
  readonly name: string;
  /** Value as written. */
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
  /** Other lists of flags that the manifest has, each with its place: `[build] args (line 3)`. */
  readonly unusedArgs: readonly string[];
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
    unusedArgs: unusedArgsIn(table, origin),
  };
}

/** The file that is read, for errors. */
interface Origin {
  readonly file: string;
  /** ` (line N)` of a table or of a key in it; empty where that is not known. */
  readonly place: (section: string, key?: string) => string;
}

/** Returns the line of a key, found by how tables and keys are usually written, because the parser does not tell it. */
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
    const [, quoted, literal, plain] = /^(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*[=.]/u.exec(line) ?? [];
    const name = quoted ?? literal ?? plain;
    if (
      name !== undefined &&
      (key === undefined ? current === '' && name === section : current === section && name === key)
    )
      return ` (line ${k + 1})`;
  }
  return '';
}

/**
 * Returns the id by which mops calls a package of its registry: without what follows `@` in the name that it is
 * imported by.
 */
export function packageId(name: string, version: string): string {
  const [short = name] = name.split('@');
  return `${short}@${version}`;
}

/** The folder of packages from GitHub, beside those of the registry. */
export const GITHUB_FOLDER = '_github';

/** As mops names a folder of its own. */
export function folderOf({ name, source }: Dependency): string | undefined {
  switch (source.kind) {
    case 'registry':
      return packageId(name, source.version);
    case 'github': {
      const commit = source.commit === '' ? '' : `@${source.commit}`;
      return `${GITHUB_FOLDER}/${name}#${source.branch.replaceAll('/', '___')}${commit}`;
    }
    case 'local':
      return undefined;
  }
}

function argsIn(section: unknown, { file, place }: Origin): readonly string[] {
  const args: unknown = field(section, 'args') ?? [];
  if (!Array.isArray(args) || !args.every((arg) => typeof arg === 'string'))
    throw invalid(file, `args in [moc]${place('moc', 'args')} is not a list of texts; write args = ["-W=M0223"]`);
  if (args.length > COMPILER_ARGS_MAX)
    throw invalid(file, `[moc]${place('moc', 'args')} has more than ${COMPILER_ARGS_MAX} args`);
  return args;
}

/** Finds flags for `mops build` alone, and for one canister of it, whose migrations are a flag, too. */
function unusedArgsIn(table: unknown, { place }: Origin): readonly string[] {
  const has = (section: unknown, key: string): boolean => {
    const args = field(section, key);
    return Array.isArray(args) ? args.length > 0 : args !== undefined;
  };
  const canisters = Object.entries(field(table, 'canisters') ?? {}).map(
    ([name, section]) => [`canisters.${name.slice(0, 100)}`, section] as const,
  );
  return [['build', field(table, 'build')] as const, ...canisters].flatMap(([name, section]) =>
    ['args', 'migrations'].filter((key) => has(section, key)).map((key) => `[${name}] ${key}${place(name, key)}`),
  );
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
    if (!isPackageName(name))
      throw invalid(
        file,
        `${JSON.stringify(place.slice(0, 200))}${at()} is not a package name: letters, digits and _ . - @ are`,
      );
    if (typeof value !== 'string') throw invalid(file, `${place}${at()} is not a text; write ${name} = "1.0.0"`);
    const dependency = dependencyOf(name, value);
    if (dependency !== undefined) return dependency;
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

function isPackageName(name: string): boolean {
  return /^[\p{L}\p{N}_][\p{L}\p{N}_.@-]*$/u.test(name) && name.length <= 128;
}

/** Returns the dependency that a value describes, or undefined if the value describes none. */
export function dependencyOf(name: string, value: string): Dependency | undefined {
  const source = isPackageName(name) ? sourceOf(value) : undefined;
  return source && { name, value, source };
}

function sourceOf(value: string): DependencySource | undefined {
  if (/^\.{0,2}\//u.test(value)) return { kind: 'local', path: value };
  if (value.startsWith('https://github.com/')) {
    const [branch = '', commit = ''] = value.split('#', 2)[1]?.split('@', 2) ?? [];
    return { kind: 'github', branch: branch === '' ? 'master' : branch, commit };
  }
  // The version becomes a part of a folder's name.
  return /^[\w.+-]{1,128}$/u.test(value) ? { kind: 'registry', version: value } : undefined;
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
