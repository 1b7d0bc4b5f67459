/**
 * Which plugin from outside an exception comes from that nobody has caught, so that the server can name it before it ends.
 *
 * Two things tell. The stack has a place below the plugin's folder. Or the plugin has begun the work: whatever it begins in
 * its module, its life cycle and its routes (timers, promises, sockets) runs under its name. Methods that the server calls
 * on what a plugin has made are called as they are, so of those the stack alone tells.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { existsSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { ServerError } from '../../kernel/index.ts';
import type { LoadedPlugin, PluginRequest } from './loaded-plugin.ts';

/** Node's name of how an exception came up that nobody has caught. */
export type FaultOrigin = 'uncaughtException' | 'unhandledRejection';

export interface Fault {
  /** Anything that can be thrown. */
  readonly error: unknown;
  readonly origin: FaultOrigin;
}

export interface FaultOptions {
  readonly loaded: readonly Pick<LoadedPlugin, 'capability' | 'module' | 'file' | 'definition'>[];
  /** Where the server itself lies. */
  readonly root: string;
}

type Suspect = FaultOptions['loaded'][number];

const names = new AsyncLocalStorage<PluginRequest>();

/** A text may hold a whole answer. */
const TEXT_MAX = 300;
/** Causes that are looked at: nobody has more, and a circle ends. */
const CAUSES_MAX = 8;

/** Does work of a plugin: what it begins, and what that begins, is known to be the plugin's. */
export function inNameOf<T>(plugin: PluginRequest, work: () => T): T {
  return names.run(plugin, work);
}

/** In whose name this runs; undefined: in no plugin's. */
export function nameNow(): PluginRequest | undefined {
  return names.getStore();
}

/**
 * The last thing that the server says. Called in the handler of the exception, which runs in the name of whoever began
 * what has failed.
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

/** The first place that is anybody's decides. Plugins whose files lie in one folder share what is beside them. */
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

/** Packages that are installed there are others'; so is the server, where the plugin lies above it. */
function hasBeside(folder: string, path: string, root: string): boolean {
  if (!isBelow(path, folder) || path.slice(folder.length).includes(`${sep}node_modules${sep}`)) return false;
  return !isBelow(path, root) || (folder !== root && isBelow(folder, root));
}

/** The plugin's package; without one that is not the server's, the folder of its file. */
function folderOf(file: string, root: string): string {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (isBelow(root, folder) || folder === dirname(folder)) return dirname(file);
    if (existsSync(join(folder, 'package.json'))) return folder;
  }
}

function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** Files that the stacks of an error and its causes name, from where it was thrown outwards; of one that throws itself none. */
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

/** An object may throw when it is looked at, also an error. */
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
