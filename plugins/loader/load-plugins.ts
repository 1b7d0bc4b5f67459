/** Turns `storage=./my-storage.js` into a checked definition, or into the reason why it cannot be loaded. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { PluginDefinition } from '../api/definition.ts';
import * as api from '../api/plugin.ts';
import {
  Clock,
  type Face,
  Logger,
  messageOf,
  type Plugin,
  Random,
  Readiness,
  sleep,
  suggestionFor,
  systemClock,
} from '../../kernel/index.ts';
import { isPluginLike, judge, type JudgeOptions, kindOf } from './judge.ts';
import type { LoadedPlugin, PluginRequest } from './loaded-plugin.ts';
import { importFrom, OWN_MODULES } from './own-modules.ts';
import { NOT_REPLACEABLE, REPLACEABLE } from './shapes.ts';
import { type StrayFault, StrayFaults } from './stray-faults.ts';
import { inNameOf } from './whose-fault.ts';

export interface PluginsFound {
  readonly loaded: readonly LoadedPlugin[];
  /** One or more sentences for each plugin that cannot be used. */
  readonly problems: readonly string[];
}

interface LoadPluginsOptions {
  /** Directory that relative paths start from, and from which packages are looked for. */
  readonly directory: string;
  /** The server's own plugins. */
  readonly builtin: readonly Plugin[];
  /** Milliseconds that a module may take to load; default: LOAD_DEADLINE_MS. */
  readonly loadDeadlineMs?: number;
  readonly clock?: Pick<Clock, 'after'>;
}

/** Milliseconds that a module may take to load, with all it imports: a large one takes a second. */
const LOAD_DEADLINE_MS = 30_000;

/** Names of the capabilities that the kernel itself provides. */
const AMBIENT = [Clock, Random, Logger, Readiness].map(({ name }) => name);

/** Reason why a plugin cannot be used; its message continues `plugin storage=./x.js: `. */
class Unusable extends Error {
  override readonly name = 'Unusable';
}

/** Loads the plugins one after the other, in their order. */
export async function loadPlugins(
  requests: readonly PluginRequest[],
  options: LoadPluginsOptions,
): Promise<PluginsFound> {
  const loaded: LoadedPlugin[] = [];
  const problems: string[] = [];
  const report = (request: PluginRequest, text: string): void =>
    void problems.push(`plugin ${request.capability}=${request.module}: ${text}`);
  const strays = new StrayFaults();
  try {
    for (const request of requests) {
      try {
        loaded.push(await load({ ...options, request, strays }));
      } catch (error) {
        if (!(error instanceof Unusable)) throw error;
        report(request, error.message);
      }
    }
    // Lets timers fire that became due while the last module was loaded.
    if (requests.length > 0) await setTimeout(1);
  } finally {
    strays.close();
  }
  for (const { error, begun } of strays.left()) {
    if (begun === undefined) throw error;
    report(begun, `throws after it was loaded: ${loadErrorText(error, begun.module)}`);
  }
  return { loaded, problems: [...problems, ...problemsTogether(loaded, options)] };
}

/** Options of one plugin's loading. */
interface LoadOptions extends LoadPluginsOptions {
  readonly request: PluginRequest;
  readonly strays: StrayFaults;
}

async function load(options: LoadOptions): Promise<LoadedPlugin> {
  const { request } = options;
  const target = targetOf(request.capability, options.builtin);
  const { file, exports } = await inNameOf(request, () => importModule(options));
  const definition = await inNameOf(request, () => definitionIn(exports, file, options));
  const [first, ...more] = judged(definition, file, { capability: target.capability, key: request.capability });
  if (first !== undefined) throw new Unusable(`${file} ${[first, ...more].join('; it ')}`);
  const checked = definition as PluginDefinition;
  const wrapping = wraps(checked, target);
  const inherits = wrapping ? [] : inherited(checked, target);
  return { ...request, file, definition: checked, replaces: target.replaces, wraps: wrapping, inherits };
}

function wraps({ requires = {} }: PluginDefinition, { capability, replaces }: Target): boolean {
  return replaces !== undefined && Object.values(requires).some(({ name }) => name === capability);
}

function inherited({ alsoProvides = [] }: PluginDefinition, { narrow }: Target): readonly Face<unknown>[] {
  const named = new Set(alsoProvides.map(({ capability }) => capability.name));
  return narrow.filter(({ capability }) => !named.has(capability.name));
}

/** Judges the definition, whose getters may throw. */
function judged(definition: object, file: string, options: JudgeOptions): readonly string[] {
  try {
    return judge(definition, options);
  } catch (error) {
    return [`throws while it is read: ${loadErrorText(error, file)}`];
  }
}

interface Target {
  readonly capability: string;
  readonly replaces: string | undefined;
  /** Narrow capabilities of the plugin that provides it now. */
  readonly narrow: readonly Face<unknown>[];
}

/** Returns the capability that the word before `=` means, and the plugin that provides it now. */
function targetOf(key: string, builtin: readonly Plugin[]): Target {
  const own = builtin.find(
    ({ name, provides, alsoProvides = [] }) =>
      name === key || [provides, ...alsoProvides.map(({ capability }) => capability)].some((each) => each.name === key),
  );
  if (own === undefined) return { capability: key, replaces: undefined, narrow: [] };
  const { alsoProvides: narrow = [] } = own;
  if (REPLACEABLE.includes(own.provides.name)) return { capability: own.provides.name, replaces: own.name, narrow };
  const reason = NOT_REPLACEABLE[own.provides.name];
  throw new Unusable(
    `the server's own '${own.name}' cannot be replaced${reason === undefined ? '' : `: ${reason}`}; ` +
      `these can be replaced: ${REPLACEABLE.join(', ')}`,
  );
}

// ---- loading the module

interface FoundModule {
  readonly file: string;
  readonly exports: Readonly<Record<string, unknown>>;
}

async function importModule(options: LoadOptions): Promise<FoundModule> {
  const { directory } = options;
  const { module } = options.request;
  const path = pathOf(module, directory);
  if (path !== undefined) await checkFile(path, module, directory);
  const imported = importFrom(directory, path === undefined ? module : pathToFileURL(path).href);
  const file = (): string => (imported.url?.startsWith('file:') === true ? fileURLToPath(imported.url) : module);
  const late = (): Unusable => {
    const text = 'has not finished loading: does it wait at its top level for what never comes? Wait in start instead';
    return new Unusable(`${file()} ${text} (given up after ${deadlineMsOf(options)} ms)`);
  };
  const threw = (error: unknown): Unusable =>
    new Unusable(`${file()} throws while it is loaded: ${loadErrorText(error, file())}`);
  const outcome = await within(imported.outcome, options, { file, late, threw });
  if ('exports' in outcome) return { file: file(), exports: outcome.exports };
  if (imported.url === undefined) throw new Unusable(await notFoundText(module, directory, outcome.error));
  throw threw(outcome.error);
}

/** Returns the path of a module given as a path; undefined for the name of a package. */
function pathOf(module: string, directory: string): string | undefined {
  if (module.startsWith('file:')) {
    try {
      return fileURLToPath(module);
    } catch (error) {
      throw new Unusable(`${module} names no file of this machine: ${messageOf(error)}`);
    }
  }
  return /^\.{0,2}\//.test(module) ? resolve(directory, module) : undefined;
}

async function checkFile(path: string, module: string, directory: string): Promise<void> {
  const status = await stat(path).catch(() => undefined);
  if (status === undefined) {
    const from = module.startsWith('.') ? ` (relative paths start at ${directory})` : '';
    throw new Unusable(`there is no file ${path}: correct the path${from}`);
  }
  if (!status.isFile()) throw new Unusable(`${path} is not a file: name the module in it, such as ${module}/index.js`);
}

async function notFoundText(module: string, directory: string, error: unknown): Promise<string> {
  const status = await stat(resolve(directory, module)).catch(() => undefined);
  if (status?.isFile() === true) return `there is no package of this name; for the file, write ./${module}`;
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND')
    return `the package cannot be used: ${messageOf(error)}`;
  const own = suggestionFor(module, Object.keys(OWN_MODULES));
  return `there is no such package to be found from ${directory}${own}: install it there (npm install ${module}), or give a path that begins with ./`;
}

/** Returns the error's text, with its place as far as Node gives it. */
function loadErrorText(error: unknown, file: string): string {
  if (!(error instanceof Error)) return String(error);
  // Skips places in `node:internal/modules/…`, which say nothing about the plugin.
  const place = /(?<![\w:])((?:file:\/\/)?\/[^\s():]+:\d+(?::\d+)?)/.exec(error.stack ?? '')?.[1];
  const text = `${error.name}: ${error.message}`;
  if (place !== undefined) return `${text} (${place.replace('file://', '')})`;
  // Node gives the place of a syntax error in a module only when it ends because of the error.
  return error instanceof SyntaxError ? `${text} (node --check ${file} shows where)` : text;
}

// ---- the module's exports

async function definitionIn(
  exports: Readonly<Record<string, unknown>>,
  file: string,
  options: LoadOptions,
): Promise<object> {
  const found = [...new Set(Object.values(exports))].filter(isPluginLike);
  const [first, second] = found;
  if (second !== undefined) {
    const names = Object.keys(exports).filter((name) => isPluginLike(exports[name]));
    throw new Unusable(
      `${file} exports ${found.length} plugins (${names.join(', ')}): export one, and the others from modules of their own`,
    );
  }
  if (first !== undefined) return first;
  const { default: made } = exports;
  if (typeof made === 'function') return await definitionBy(made, file, options);
  const names = Object.keys(exports);
  const what = names.length === 0 ? 'exports nothing' : `exports no plugin, only ${names.slice(0, 5).join(', ')}`;
  throw new Unusable(`${file} ${what}: export default definePlugin({ apiVersion: ${api.API_VERSION}, … })`);
}

/** Calls the module's exported function, which is given the exports of `svc/plugin` and returns the plugin. */
async function definitionBy(make: Function, file: string, options: LoadOptions): Promise<object> {
  if (/^class\b/.test(Function.prototype.toString.call(make))) {
    throw new Unusable(
      `${file} exports a class: export default defineClassPlugin({ made: ${make.name || 'TheClass'}, … }) from svc/plugin/classes`,
    );
  }
  let definition: unknown;
  try {
    const made: unknown = (make as (svc: typeof api) => unknown)(api);
    const late = (): Unusable =>
      new Unusable(`the function that ${file} exports has not returned a plugin after ${deadlineMsOf(options)} ms`);
    definition = await within(Promise.resolve(made), options, { file: () => file, late, threw: (error) => error });
  } catch (error) {
    if (error instanceof Unusable) throw error;
    throw new Unusable(`the function that ${file} exports throws: ${loadErrorText(error, file)}`);
  }
  if (isPluginLike(definition)) return definition;
  throw new Unusable(
    `the function that ${file} exports returned ${kindOf(definition)}, not a plugin: return definePlugin({ apiVersion: ${api.API_VERSION}, … })`,
  );
}

function deadlineMsOf({ loadDeadlineMs = LOAD_DEADLINE_MS }: LoadPluginsOptions): number {
  return loadDeadlineMs;
}

interface Faults {
  /** Returns the path of the module. */
  readonly file: () => string;
  /** Returns the error for the deadline. */
  readonly late: () => Error;
  /**
   * Returns the reason for a rejection when the module throws outside of its loading: in a timer, or in a promise that
   * is not awaited.
   */
  readonly threw: (error: unknown) => unknown;
}

async function within<T>(work: Promise<T>, options: LoadOptions, { file, late, threw }: Faults): Promise<T> {
  const { request, strays } = options;
  const reasonFor = ({ error, begun = request }: StrayFault): unknown => {
    if (begun === request) return threw(error);
    const other = `plugin ${begun.capability}=${begun.module}, loaded before it,`;
    return new Unusable(`${file()} was not loaded to its end: ${other} throws: ${loadErrorText(error, begun.module)}`);
  };
  // Keeps the process alive: timers of the system's clock do not, and neither does a module that waits for nothing.
  const alive = setInterval(() => undefined, 2 ** 30);
  const over = sleep(options.clock ?? systemClock, deadlineMsOf(options)).then(() => Promise.reject(late()));
  const stray = Promise.withResolvers<never>();
  strays.hear((fault) => stray.reject(reasonFor(fault)));
  try {
    return await Promise.race([work, over, stray.promise]);
  } finally {
    strays.hear(undefined);
    stray.promise.catch(() => undefined);
    clearInterval(alive);
    over.catch(() => undefined);
  }
}

// ---- checks of all plugins together

function problemsTogether(loaded: readonly LoadedPlugin[], { builtin }: LoadPluginsOptions): string[] {
  const replaced = new Set(loaded.filter((each) => !each.wraps).map(({ replaces }) => replaces));
  const kept = builtin.filter(({ name }) => !replaced.has(name));
  const provided = new Set([
    ...AMBIENT,
    ...kept
      .flatMap(({ provides, alsoProvides = [] }) => [provides, ...alsoProvides.map((each) => each.capability)])
      .map(({ name }) => name),
    ...loaded
      .flatMap(({ definition: { provides, alsoProvides = [] }, inherits }) => [
        provides,
        ...[...alsoProvides, ...inherits].map((each) => each.capability),
      ])
      .map(({ name }) => name),
  ]);
  const problems: string[] = [];
  for (const [index, { capability, module, file, replaces, definition }] of loaded.entries()) {
    const { name, requires = {} } = definition;
    const report = (text: string): void => void problems.push(`plugin ${capability}=${module}: ${file} ${text}`);
    const twin = kept.find((own) => own.name === name);
    if (twin !== undefined) report(`is called '${name}', as one of the server's own plugins is: give it another name`);
    const earlier = loaded
      .slice(0, index)
      .find(
        ({ definition: other, replaces: also }) => other.name === name || (also !== undefined && also === replaces),
      );
    if (earlier?.definition.name === name)
      report(`is called '${name}', as ${earlier.file} is: give one of them another name`);
    else if (earlier !== undefined)
      report(
        `takes the place of '${replaces}', as ${earlier.file} does: drop one of them, or write a plugin that is made of both`,
      );
    for (const required of Object.values(requires)) {
      if (provided.has(required.name)) continue;
      report(
        `requires '${required.name}', which nothing provides${suggestionFor(required.name, provided)}: take it out of requires, or load a plugin that provides it (--plugin ${required.name}=…)`,
      );
    }
  }
  return problems;
}
