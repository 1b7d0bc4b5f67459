/**
 * The boot plan: in which order plugins are created, opened and started, worked out from what they require and
 * provide. It is a stable topological sort: at every step the first plugin of the list whose requirements are all
 * placed comes next, so one configuration always boots the same way. Everything that makes a plan impossible is
 * found here, before anything runs, and all of it is named in one error.
 */
import type { Capability } from './capability.ts';
import { ServerError } from './errors.ts';
import type { Plugin } from './plugin.ts';

export interface PlannedPlugin {
  readonly plugin: Plugin;
  /** False: only its `disabled` object is provided. */
  readonly isEnabled: boolean;
}

export interface BootPlanOptions {
  readonly plugins: readonly Plugin[];
  /** Names of plugins that were turned off. */
  readonly disabled: ReadonlySet<string>;
  /** Capabilities that the kernel itself provides. */
  readonly ambient: readonly Capability<unknown>[];
}

/** Returns what a plugin provides, also if it is turned off. */
function capabilitiesOf({ plugin, isEnabled }: PlannedPlugin): readonly Capability<unknown>[] {
  const faces = (plugin.alsoProvides ?? []).filter(({ turnedOff }) => isEnabled || turnedOff !== undefined);
  return [plugin.provides, ...faces.map(({ capability }) => capability)];
}

/**
 * Orders the plugins. Throws a ServerError: `plugin-needed` if a plugin that the others need was turned off,
 * `boot-plan` for duplicates, gaps and cycles.
 */
export function planBoot(options: BootPlanOptions): readonly PlannedPlugin[] {
  refuseNeeded(options);
  const planned: PlannedPlugin[] = options.plugins
    .map((plugin) => ({ plugin, isEnabled: !options.disabled.has(plugin.name) }))
    .filter(({ plugin, isEnabled }) => isEnabled || plugin.disabled !== undefined);
  const gaps = findGaps(planned, options);
  if (gaps.turnedOff.length > 0) throw new ServerError('invalid', 'plugin-needed', gaps.turnedOff.join('\n'));

  const problems = [...findDuplicates(planned, options), ...gaps.missing, ...findCycles(planned)];
  if (problems.length > 0) throw new ServerError('invalid', 'boot-plan', problems.join('\n'));
  return sort(planned);
}

function refuseNeeded({ plugins, disabled }: BootPlanOptions): void {
  const refused = plugins
    .filter(({ name, neededBecause }) => disabled.has(name) && neededBecause !== undefined)
    .map(({ name, neededBecause }) => `cannot run without ${name}: ${neededBecause}`);
  for (const name of disabled) {
    if (plugins.some((plugin) => plugin.name === name)) continue;
    refused.push(`cannot turn off '${name}': there is no such plugin (${plugins.map((p) => p.name).join(', ')})`);
  }
  if (refused.length > 0) throw new ServerError('invalid', 'plugin-needed', refused.join('\n'));
}

function findDuplicates(planned: readonly PlannedPlugin[], { ambient }: BootPlanOptions): string[] {
  const problems: string[] = [];
  for (const [index, each] of planned.entries()) {
    const { plugin } = each;
    const earlier = planned.slice(0, index);
    if (earlier.some((other) => other.plugin.name === plugin.name)) {
      problems.push(`two plugins are called '${plugin.name}': give one of them another name`);
    }
    for (const { name: capability } of capabilitiesOf(each)) {
      for (const other of earlier.filter((one) => provides(one, capability))) {
        problems.push(
          `plugins '${other.plugin.name}' and '${plugin.name}' both provide '${capability}': keep one of them`,
        );
      }
      if (ambient.some(({ name }) => name === capability)) {
        problems.push(`plugin '${plugin.name}' provides '${capability}', which the kernel provides itself`);
      }
    }
  }
  return problems;
}

function provides(planned: PlannedPlugin, capability: string): boolean {
  return capabilitiesOf(planned).some(({ name }) => name === capability);
}

function findGaps(planned: readonly PlannedPlugin[], options: BootPlanOptions) {
  const provided = new Set([...options.ambient, ...planned.flatMap(capabilitiesOf)].map(({ name }) => name));
  const missing: string[] = [];
  const turnedOff: string[] = [];
  for (const { plugin } of planned) {
    for (const { name } of Object.values(plugin.requires)) {
      if (provided.has(name)) continue;
      const provider = options.plugins.find((other) => provides({ plugin: other, isEnabled: true }, name));
      if (provider === undefined) {
        missing.push(`plugin '${plugin.name}' requires '${name}', which no plugin provides`);
      } else {
        turnedOff.push(
          `cannot run without ${provider.name}: plugin '${plugin.name}' requires '${name}', ` +
            `which only plugin '${provider.name}' provides`,
        );
      }
    }
  }
  return { missing, turnedOff };
}

/** Returns problems that name every plugin of a cycle at least once, as `a → b → a`. */
function findCycles(planned: readonly PlannedPlugin[]): string[] {
  const edges = new Map(planned.map(({ plugin }) => [plugin, providersOf(plugin, planned)]));
  const named = new Set<Plugin>();
  const problems: string[] = [];
  for (const { plugin } of planned) {
    if (named.has(plugin)) continue;
    const circle = shortestCircle(plugin, edges);
    if (circle === undefined) continue;
    for (const member of circle) named.add(member);
    problems.push(
      `plugins require each other in a circle: ${[...circle, plugin].map(({ name }) => name).join(' → ')}; ` +
        'take one of these requirements out',
    );
  }
  return problems;
}

function providersOf(plugin: Plugin, planned: readonly PlannedPlugin[]): readonly Plugin[] {
  const required = new Set(Object.values(plugin.requires).map(({ name }) => name));
  const isRequired = ({ name }: Capability<unknown>): boolean => required.has(name);
  return planned.filter((other) => capabilitiesOf(other).some(isRequired)).map((other) => other.plugin);
}

/** Searches breadth first from `start` along requirements until it meets `start` again. */
function shortestCircle(start: Plugin, edges: ReadonlyMap<Plugin, readonly Plugin[]>): readonly Plugin[] | undefined {
  const paths: (readonly Plugin[])[] = [[start]];
  const seen = new Set<Plugin>();
  for (const path of paths) {
    for (const next of edges.get(path.at(-1) ?? start) ?? []) {
      if (next === start) return path;
      if (seen.has(next)) continue;
      seen.add(next);
      paths.push([...path, next]);
    }
  }
  return undefined;
}

/** Sorts the plugins. Called only when there are no cycles, so that every round places a plugin. */
function sort(planned: readonly PlannedPlugin[]): readonly PlannedPlugin[] {
  const order: PlannedPlugin[] = [];
  const rest = [...planned];
  while (rest.length > 0) {
    const waiting = new Set(rest.flatMap(capabilitiesOf).map(({ name }) => name));
    const index = rest.findIndex(({ plugin }) =>
      Object.values(plugin.requires).every(({ name }) => !waiting.has(name)),
    );
    order.push(...rest.splice(index, 1));
  }
  return order;
}
