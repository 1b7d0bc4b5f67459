/** Adds plugins from outside to the kernel's list: their objects are checked, and their waits are limited. */
import type { PluginDefinition } from '../api/definition.ts';
import type { PluginAnswer, PluginRequest, PluginRoute } from '../api/routes.ts';
import {
  type Capability,
  type CreateContext,
  defineCapability,
  type Plugin,
  type StartContext,
} from '../../kernel/index.ts';
import type { PluginRouteSpec } from '../../subsystems/http/index.ts';
import type { BackupFile } from '../../subsystems/storage/index.ts';
import type { LoadedPlugin } from './loaded-plugin.ts';
import { shapeProblem } from './shapes.ts';
import { inNameOf } from './whose-fault.ts';

export interface ComposeOptions {
  readonly builtin: readonly Plugin[];
  readonly loaded: readonly LoadedPlugin[];
  /** Backup for a durable storage from outside, with `--restore`. */
  readonly backup?: BackupFile | undefined;
  /** Members that objects may lack, and that a flag needs; the part is a plugin of the server. */
  readonly needed?: readonly { readonly part: string; readonly member: string; readonly flag: string }[];
}

/**
 * Milliseconds within which a starting plugin has to report what it waits for. A database answers, or times out,
 * earlier.
 */
const START_SILENCE_MS = 60_000;
/** Milliseconds for drain and for stop, the same as for the server's own plugins. */
const STOP_DEADLINE_MS = 10_000;

export interface Composed {
  readonly plugins: readonly Plugin[];
  /** Routes of these plugins, for the listener. */
  readonly routes: readonly PluginRouteSpec[];
}

/**
 * Puts plugins in order. A plugin that replaces one of the server's own stands in the place of that one, behind it if
 * the plugin wraps it; other plugins come before the last one, which is the listener.
 */
export function composePlugins({ builtin, loaded, backup, needed = [] }: ComposeOptions): Composed {
  const external = loaded.map((each) => {
    const members = needed.filter(({ part }) => part === each.replaces);
    return new ExternalPlugin(each, { backup, needed: members });
  });
  const plugins = builtin.flatMap(
    (own) => external.find(({ replaces }) => replaces === own.name)?.inPlaceOf(own) ?? [own],
  );
  const added = external.filter(({ replaces }) => replaces === undefined).map(({ plugin }) => plugin);
  return {
    plugins: [...plugins.slice(0, -1), ...added, ...plugins.slice(-1)],
    routes: external.flatMap(({ routes }) => routes),
  };
}

/** One plugin from outside, in the form that the kernel takes. */
class ExternalPlugin {
  readonly replaces: string | undefined;
  readonly plugin: Plugin;
  readonly routes: readonly PluginRouteSpec[];
  readonly #loaded: LoadedPlugin;
  #made: unknown;

  constructor(loaded: LoadedPlugin, { backup, needed = [] }: Pick<ComposeOptions, 'backup' | 'needed'>) {
    const { file, definition, replaces, inherits } = loaded;
    const { name, provides, alsoProvides = [], requires = {}, isDurable = false, routes = [] } = definition;
    const { startSilenceMs = START_SILENCE_MS, stopDeadlineMs = STOP_DEADLINE_MS } = definition;
    this.#loaded = loaded;
    this.replaces = replaces;
    this.plugin = Object.freeze({
      name,
      origin: file,
      provides,
      alsoProvides: [...alsoProvides, ...inherits],
      requires,
      startSilenceMs,
      stopDeadlineMs,
      drainDeadlineMs: stopDeadlineMs,
      create: (granted, context) => {
        const made = inNameOf(loaded, () => definition.create(granted, context as CreateContext<never>));
        const narrow = inherits.map(({ capability }) => capability.name);
        const problem = shapeProblem(provides.name, made, narrow);
        if (problem !== undefined) throw new Error(problem);
        mustHave(made, provides.name, needed);
        this.#made = made;
        return made;
      },
      open: (made, context) => inNameOf(loaded, async () => definition.open?.(made, context)),
      start: (made, context) =>
        inNameOf(loaded, async () => {
          if (isDurable && backup !== undefined) await restore(definition, made, backup, context);
          await definition.start?.(made, context);
        }),
      ready: (made, context) => inNameOf(loaded, () => definition.ready?.(made, context)),
      drain: (made, context) => inNameOf(loaded, async () => definition.drain?.(made, context)),
      stop: (made, context) => inNameOf(loaded, async () => definition.stop?.(made, context)),
    } satisfies Plugin);
    this.routes = routes.map((route) => this.#served(name, route));
  }

  /** Returns the plugins that take the place of the server's own. */
  inPlaceOf(own: Plugin): readonly Plugin[] {
    const { wraps, definition } = this.#loaded;
    return wraps ? wrapped(own, this.plugin, takenFrom(own, definition)) : [this.plugin];
  }

  #served(plugin: string, { method, path, query = [], bodyBytesMax, ...route }: PluginRoute): PluginRouteSpec {
    const answer = (request: PluginRequest): Promise<PluginAnswer> =>
      inNameOf(this.#loaded, async () => route.answer(this.#made, request));
    return { plugin, method, path, query, bodyBytesMax, answer };
  }
}

/** Throws for a flag that would have no effect because the object lacks a member. */
function mustHave(made: unknown, capability: string, needed: NonNullable<ComposeOptions['needed']>): void {
  for (const { member, flag } of needed)
    if ((made as Readonly<Record<string, unknown>>)[member] === undefined)
      throw new Error(
        `what its create returned lacks ${member}, which ${flag} needs of '${capability}': add it (a plugin that wraps ` +
          `the server's own hands it on, as around does), or start without ${flag}`,
      );
}

async function restore(
  definition: PluginDefinition,
  made: unknown,
  backup: BackupFile,
  context: StartContext,
): Promise<void> {
  if (definition.restore === undefined) throw new Error('it cannot restore backups: start without --restore');
  context.readiness.waiting(`restoring ${backup.path}`);
  const { entries, bytes } = await definition.restore(made, backup, context);
  context.log.announce(`restored ${entries} entries (${bytes} bytes) from ${backup.path}`);
}

// ---- the server's own plugin below the one that wraps it

/**
 * Returns the names that both provide. The others get these from the plugin; only the plugin gets them from the server.
 */
function takenFrom(own: Plugin, definition: PluginDefinition): ReadonlySet<string> {
  const theirs = new Set(namesOf(definition));
  return new Set(namesOf(own).filter((name) => theirs.has(name)));
}

function namesOf({ provides, alsoProvides = [] }: Pick<Plugin, 'provides' | 'alsoProvides'>): readonly string[] {
  return [provides.name, ...alsoProvides.map(({ capability }) => capability.name)];
}

/**
 * Returns the server's own plugin unchanged, with its section of the configuration and its life cycle, followed by the
 * plugin that wraps it, which is granted the capabilities it takes over. Narrow capabilities that the plugin does not
 * take over stay available to all.
 */
function wrapped(own: Plugin, plugin: Plugin, taken: ReadonlySet<string>): readonly Plugin[] {
  const ofServer = (each: Capability<unknown>): Capability<unknown> =>
    taken.has(each.name) ? defineCapability(`${each.name} of the server`) : each;
  const faces = (own.alsoProvides ?? []).map((each) => ({ ...each, capability: ofServer(each.capability) }));
  const requires = Object.entries(plugin.requires).map(([key, each]) => [key, ofServer(each)] as const);
  return [
    Object.freeze({ ...own, provides: ofServer(own.provides), alsoProvides: faces }),
    Object.freeze({ ...plugin, requires: Object.fromEntries(requires) }),
  ];
}
