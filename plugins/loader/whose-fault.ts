/**
 * Finds the plugin from outside that an uncaught exception comes from, so that the server can name it before it ends.
 *
 * There are two clues. The stack has a place below the plugin's folder. Or the plugin has begun the work: everything
 * begun in its module, its life cycle and its routes (timers, promises, sockets) runs under its name. Methods of a
 * plugin's object are called directly by the server, so for those the stack is the only clue.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { existsSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { ServerError } from '../../kernel/index.ts';
import type { LoadedPlugin, PluginRequest } from './loaded-plugin.ts';

/** Node's name for the way in which an uncaught exception arose. */
type FaultOrigin = 'uncaughtException' | 'unhandledRejection';

export interface Fault {
  /** Anything that can be thrown. */
  readonly error: unknown;
  readonly origin: FaultOrigin;
}

export interface FaultOptions {
  readonly loaded: readonly Pick<LoadedPlugin, 'capability' | 'module' | 'file' | 'definition'>[];
  /** Folder of the server itself. */
  readonly root: string;
}

type Suspect = FaultOptions['loaded'][number];

const names = new AsyncLocalStorage<PluginRequest>();

/** Characters of an error's text that are shown: it may hold a whole answer. */
const TEXT_MAX = 300;
/** Causes that are looked at: more than any error has, and a cycle ends. */
const CAUSES_MAX = 8;

/** Runs work of a plugin under its name: work that it begins, directly or indirectly, carries the name, too. */
export function inNameOf<T>(plugin: PluginRequest, work: () => T): T {
  return names.run(plugin, work);
}

/** Returns the plugin under whose name this code runs; undefined if there is none. */
export function nameNow(): PluginRequest | undefined {
  return names.getStore();
}

/**
 * Returns the last line that the server logs. To be called in the handler of the exception, which runs under the name
 * of the plugin that began the failed work.
 */
export function faultText({ error, origin }: Fault, { loaded, root }: FaultOptions): string {
  const begun = nameNow();
  const beginner = loaded.find(({ capability, module }) => capability === begun?.capability && module === begun.module);
  const files = filesIn(error);
  const culprits = culpritsOf(files, loaded, root, beginner);
  const isServers = files.some((file) => isBelow(file, root));
  if (error instanceof ServerError) {
    const known = culprits.length > 0 ? culprits : listOf(beginner);
    return `the server ends: ${error.message}${known.length === 0 ? '' : `; thrown by ${namesOf(known)}`}`;
  }
  const what = `${HAPPENED[origin]}: ${textOf(error)}`;
  if (culprits.length > 0) return `the server ends because of a bug of ${namesOf(culprits)}: ${what}`;
  if (beginner !== undefined)
    return isServers
      ? `the server ends because of a bug in what ${namesOf([beginner])} has begun: ${what}`
      : `the server ends because of a bug of ${namesOf([beginner])}: ${what}`;
  return isServers
    ? `the server ends because of a bug: ${what}`
    : `the server ends because of a bug: ${what}; nothing says whose it is, and loaded from outside is ${namesOf(loaded)}`;
}

const HAPPENED: Readonly<Record<FaultOrigin, string>> = {
  uncaughtException: 'nobody catches the exception',
  unhandledRejection: 'nobody handles the rejected promise',
};

function listOf<T>(one: T | undefined): readonly T[] {
  return one === undefined ? [] : [one];
}

function namesOf(plugins: readonly Suspect[]): string {
  return plugins.map(({ definition, file }) => `plugin '${definition.name}' (${file})`).join(' or ');
}

/**
 * Returns the plugins to blame: the first file that belongs to any plugin decides. Plugins in one folder share the
 * files beside them.
 */
function culpritsOf(
  files: readonly string[],
  loaded: readonly Suspect[],
  root: string,
  beginner: Suspect | undefined,
): readonly Suspect[] {
  for (const path of files) {
    const own = loaded.filter(({ file }) => file === path);
    const sharing = own.length > 0 ? own : loaded.filter(({ file }) => hasBeside(folderOf(file, root), path, root));
    if (sharing.length > 0) return beginner !== undefined && sharing.includes(beginner) ? [beginner] : sharing;
  }
  return [];
}

/**
 * Returns true if the path belongs to the folder's plugin. Packages installed there do not, and neither does the server
 * if the plugin's folder contains it.
 */
function hasBeside(folder: string, path: string, root: string): boolean {
  if (!isBelow(path, folder) || path.slice(folder.length).includes(`${sep}node_modules${sep}`)) return false;
  return !isBelow(path, root) || (folder !== root && isBelow(folder, root));
}

/** Returns the plugin's package; if it has none, or only the server's, the folder of its file. */
function folderOf(file: string, root: string): string {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (isBelow(root, folder) || folder === dirname(folder)) return dirname(file);
    if (existsSync(join(folder, 'package.json'))) return folder;
  }
}

function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/**
 * Returns the files that the stacks of an error and its causes name, innermost first; none if reading the error throws.
 */
function filesIn(error: unknown): readonly string[] {
  try {
    return filesInStacks(error);
  } catch {
    return [];
  }
}

function filesInStacks(error: unknown): readonly string[] {
  const files: string[] = [];
  let next: unknown = error;
  for (let causes = 0; causes < CAUSES_MAX && typeof next === 'object' && next !== null; causes++) {
    const { stack, cause } = next as { readonly stack?: unknown; readonly cause?: unknown };
    if (typeof stack === 'string') files.push(...placesIn(stack));
    next = cause;
  }
  return files;
}

function placesIn(stack: string): readonly string[] {
  const lines = stack.split('\n').filter((line) => /^\s+at /.test(line));
  return lines.flatMap((line) => {
    const [, url, path] = /(?:(file:\/\/[^\s()]+?)|(\/[^():]+?))(?:[?#][^\s():]*)?:\d+(?::\d+)?\)?$/.exec(line) ?? [];
    if (url !== undefined) return [fileURLToPath(url)];
    return path === undefined ? [] : [path];
  });
}

/** Returns the error's text. Reading any object, even an error, may throw. */
function textOf(error: unknown): string {
  try {
    const text =
      error instanceof Error ? `${error.name}: ${error.message}` : `${inspect(error, { depth: 2 })} was thrown`;
    const line = text.replaceAll(/\s+/g, ' ');
    return line.length > TEXT_MAX ? `${line.slice(0, TEXT_MAX)}…` : line;
  } catch {
    return 'what was thrown cannot be shown';
  }
}
