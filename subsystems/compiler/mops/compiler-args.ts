/**
 * Reads the arguments of compilations from `[moc] args` in a project's `mops.toml`. Each flag of moc is one of four:
 * the flag says what a source means and goes to the compiler; it changes no module and goes nowhere; moc.js has another
 * entry for it; or it cannot be had, and is refused by name with what to do instead. The first flag that is refused
 * ends compilations, but not closures.
 */
import { posix } from 'node:path';
import { ServerError } from '../../../kernel/index.ts';
import { parsePrincipal } from '../../ic/index.ts';
import type { Persistence } from '../moc-protocol.ts';

export interface CompilerArgs {
  /** Flags as the compiler takes them, `-W=M0223` as one. */
  readonly flags: readonly string[];
  /** Undefined if the arguments say nothing of it. */
  readonly persistence: Persistence | undefined;
  /** The collector of a classical module, as moc.js calls it; undefined: moc.js's own choice. */
  readonly collector: string | undefined;
  /** The folder with interfaces of principals (`--actor-idl`): absolute. */
  readonly interfaces: string | undefined;
  /** Principals by the names that `--actor-alias` gives them. */
  readonly aliases: ReadonlyMap<string, string>;
  /** The folder with migrations (`--enhanced-migration`): absolute. */
  readonly migrations: string | undefined;
  /** Packages whose modules serve without an import. */
  readonly implicitPackages: readonly string[];
  /** Metadata that everybody may read. */
  readonly publicMetadata: readonly string[];
  /** Error that says why nothing can be compiled with these arguments. */
  readonly refusal: ServerError | undefined;
  /** The manifest that has them: absolute. */
  readonly file: string;
  /** Other lists of flags that the manifest has, which have no effect, each with its place. */
  readonly unused: readonly string[];
}

export const NO_ARGS: CompilerArgs = {
  flags: [],
  persistence: undefined,
  collector: undefined,
  interfaces: undefined,
  aliases: new Map(),
  migrations: undefined,
  implicitPackages: [],
  publicMetadata: [],
  refusal: undefined,
  file: '/',
  unused: [],
};

export const WARNINGS_ARE_ERRORS = '-Werror';
export const WARNINGS_ARE_HIDDEN = '--hide-warnings';
export const MIGRATIONS = '--enhanced-migration';
export const IMPLICIT = '--implicit-package';
export const ALIAS = '--actor-alias';
const CODES = /^M\d{4}(?:,M\d{4})*$/u;

const PERSISTENCE: ReadonlyMap<string, Persistence> = new Map([
  ['--enhanced-orthogonal-persistence', 'enhanced'],
  ['--legacy-persistence', 'classical'],
]);
const INCREMENTAL_GC = '--incremental-gc';
/** Names that moc.js has for collectors, by flag. With enhanced persistence there is only one collector. */
const COLLECTORS: ReadonlyMap<string, string> = new Map([
  [INCREMENTAL_GC, 'incremental'],
  ['--copying-gc', 'copying'],
  ['--compacting-gc', 'marking'],
  ['--generational-gc', 'generational'],
]);
const PASSED = new Set([
  '--default-persistent-actors',
  '--legacy-actors',
  '--require-persistent-actors',
  WARNINGS_ARE_HIDDEN,
  WARNINGS_ARE_ERRORS,
]);
/** Flags that say how faults are reported, or that ask the compiler to check itself. */
const WITHOUT_EFFECT = new Set([
  '-no-check-ir',
  '--all-libs',
  '--ai-errors',
  '--debug',
  '--error-recovery',
  '--print-source-on-error',
]);
/** Flags of the same kind that have a value. */
const WITHOUT_EFFECT_VALUED = new Set(['--error-detail', '--error-format']);

const ELSEWHERE = 'compile it elsewhere (`mops build`) and name the module with `wasm`';
const MADE = 'says what is to be made, and that is always the module with its interface; remove it';
const NEWER =
  'is of a newer compiler than the bundled one; use --actor-idl and "ic:<principal>", or name the actor in the manifest';
const INSTEAD: ReadonlyMap<string, string> = new Map([
  ['--release', `cannot be had in moc.js, whose modules keep \`debug\` expressions; remove it, or ${ELSEWHERE}`],
  ['--package', 'names a package; write it below [dependencies] as NAME = "./FOLDER"'],
  ['--actor-id-alias', NEWER],
  ['--actor-env-alias', NEWER],
  ['--args', 'reads flags from a file; write them here'],
  ['--args0', 'reads flags from a file; write them here'],
  ['-g', 'cannot be had in moc.js, which writes no debug information; remove it'],
  ...['-c', '-o', '-r', '-i', '--check', '--idl', '--candid', '--map', '--stable-types', '--print-deps'].map(
    (flag): [string, string] => [flag, MADE],
  ),
]);

/** Returns the error for a flag that the compiler itself does not take; `file` is the manifest as messages name it. */
export function flagRefused(flag: string, reason: string, file: string): ServerError {
  const [code] = /(?<=warning code: )M\d{4}/u.exec(reason) ?? [];
  const why =
    code === undefined
      ? `is refused by the compiler: ${reason}`
      : `has ${code}, which is no warning of the bundled compiler`;
  const message = `cannot use ${file}: ${JSON.stringify(flag)} in [moc] args ${why}; remove it`;
  return new ServerError('invalid', 'mops-invalid', message);
}

/** `file` is the manifest's path; `unused` are other lists of flags in it. */
export function compilerArgsOf(
  { args, unused = [] }: { readonly args: readonly string[]; readonly unused?: readonly string[] },
  file: string,
): CompilerArgs {
  const reader = new ArgsReader(args, file);
  let refusal: ServerError | undefined;
  try {
    reader.readAll();
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    refusal = error;
  }
  return { ...reader.result(refusal), unused };
}

/** Reads the arguments, one flag after another. What a flag says stays read where a later one is refused. */
class ArgsReader {
  readonly #args: readonly string[];
  readonly #file: string;
  readonly #flags: string[] = [];
  readonly #aliases = new Map<string, string>();
  readonly #implicit = new Set<string>();
  readonly #metadata: string[] = [];
  #persistence: Persistence | undefined;
  #collector: string | undefined;
  #interfaces: string | undefined;
  #migrations: string | undefined;
  #at = 0;

  constructor(args: readonly string[], file: string) {
    this.#args = args;
    this.#file = file;
  }

  readAll(): void {
    while (this.#at < this.#args.length) this.#next();
    const collector = this.#collector;
    if (collector !== undefined && this.#persistence !== 'classical' && collector !== INCREMENTAL_GC)
      throw this.#refused(collector, 'is a collector of --legacy-persistence alone; remove it, or add that');
    if (this.#migrations !== undefined && this.#persistence === 'classical')
      throw this.#refused(MIGRATIONS, 'is not for classical modules; remove it, or remove --legacy-persistence');
  }

  result(refusal: ServerError | undefined): Omit<CompilerArgs, 'unused'> {
    return {
      flags: this.#flags,
      persistence: this.#persistence,
      collector: this.#persistence === 'classical' ? COLLECTORS.get(this.#collector ?? '') : undefined,
      interfaces: this.#interfaces,
      aliases: this.#aliases,
      migrations: this.#migrations,
      implicitPackages: [...this.#implicit],
      publicMetadata: this.#metadata,
      refusal,
      file: this.#file,
    };
  }

  #next(): void {
    const arg = this.#args[this.#at++] ?? '';
    const mode = PERSISTENCE.get(arg);
    if (mode !== undefined) {
      if (this.#persistence !== undefined && this.#persistence !== mode)
        throw this.#refused(arg, 'contradicts the one before it');
      this.#persistence = mode;
    } else if (COLLECTORS.has(arg)) this.#collector = arg;
    else if (PASSED.has(arg)) this.#flags.push(arg);
    else if (!WITHOUT_EFFECT.has(arg)) this.#valued(arg);
  }

  /** Handles a flag with a value, behind `=` or as the next argument. */
  #valued(arg: string): void {
    const equals = arg.indexOf('=');
    const name = equals === -1 ? arg : arg.slice(0, equals);
    const value = (needs: string): string => {
      const found = equals === -1 ? this.#args[this.#at++] : arg.slice(equals + 1);
      if (found === undefined || found === '') throw this.#refused(arg, `needs ${needs}`);
      return found;
    };
    switch (name) {
      case '-A':
      case '-W':
      case '-E': {
        const codes = value('codes of warnings, such as M0194,M0217');
        if (!CODES.test(codes)) throw this.#refused(arg, 'needs codes of warnings, such as M0194,M0217');
        this.#flags.push(`${name}=${codes}`);
        return;
      }
      case IMPLICIT: {
        const implicit = value('the name of a package, such as core');
        if (!this.#implicit.has(implicit)) this.#flags.push(`${name}=${implicit}`);
        this.#implicit.add(implicit);
        return;
      }
      case '--implicit-derivation-depth': {
        const depth = value('a number');
        if (!/^\d{1,6}$/u.test(depth)) throw this.#refused(arg, 'needs a number');
        this.#flags.push(`${name}=${depth}`);
        return;
      }
      case '--actor-idl':
        this.#interfaces = posix.resolve(posix.dirname(this.#file), value('a folder with interfaces'));
        return;
      case MIGRATIONS:
        this.#migrations = posix.resolve(posix.dirname(this.#file), value('a folder with migrations'));
        return;
      case ALIAS:
        this.#alias(arg, value('a name and a principal'));
        return;
      case '--public-metadata':
        this.#metadata.push(value('the name of a section, such as candid:service'));
        return;
      default:
        if (!WITHOUT_EFFECT_VALUED.has(name)) throw this.#unknown(name, arg);
        value('a value');
    }
  }

  #alias(arg: string, name: string): void {
    const principal = this.#args[this.#at++] ?? '';
    if (parsePrincipal(principal) === undefined) throw this.#refused(arg, `needs a name and a principal`);
    this.#aliases.set(name, principal);
  }

  #unknown(name: string, arg: string): ServerError {
    const instead =
      INSTEAD.get(name) ?? `is not one that the bundled compiler (moc.js) takes; remove it, or ${ELSEWHERE}`;
    return this.#refused(arg, instead);
  }

  #refused(arg: string, why: string): ServerError {
    const shown = JSON.stringify(arg.slice(0, 100));
    return new ServerError('invalid', 'mops-invalid', `cannot use ${this.#file}: ${shown} in [moc] args ${why}`);
  }
}
