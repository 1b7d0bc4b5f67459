/** Options that loaded plugins declare: checked like flags, from the command line, the environment and the file. */
import type { PluginDefinition } from '../plugins/api/definition.ts';
import type { OptionSpec } from '../plugins/api/options.ts';
import { suggestionFor } from '../kernel/index.ts';
import { FlagProblem } from './flag.ts';
import type { Environment, ParsedFlags } from './parse-flags.ts';
import { flagOf } from './plugin-flag.ts';

/** The part of a loaded plugin that the configuration uses. */
export interface ConfiguredPlugin {
  /** The name before `=` in `--plugin`. */
  readonly capability: string;
  readonly module: string;
  readonly definition: PluginDefinition;
  /** The server's own plugin that it replaces. */
  readonly replaces: string | undefined;
  /** True if the replaced part still runs, below the plugin, and reads its flags. */
  readonly wraps: boolean;
}

export interface OptionValue {
  /** Full name, such as `storage.path`. */
  readonly name: string;
  readonly value: unknown;
  /** Source of the value. */
  readonly source: string;
  readonly isSecret: boolean;
}

export interface PluginSections {
  /** Sections by the plugin's own name, in the form in which the kernel hands them out; frozen. */
  readonly sections: Readonly<Record<string, unknown>>;
  readonly values: readonly OptionValue[];
  readonly problems: readonly string[];
}

export function pluginSections(
  plugins: readonly ConfiguredPlugin[],
  { flags, sources }: Pick<ParsedFlags, 'flags' | 'sources'>,
  environment: Environment,
): PluginSections {
  const given = new Map(flags['plugin-option'].map(({ name, value }) => [name, value]));
  const problems: string[] = [];
  const values: OptionValue[] = [];
  const sections: Record<string, unknown> = {};
  for (const { capability, definition } of plugins) {
    const section: Record<string, unknown> = {};
    for (const [name, spec] of Object.entries(definition.options ?? {})) {
      const full = `${capability}.${name}`;
      const variable = spec.variable === undefined ? undefined : environment[spec.variable];
      const written = given.get(full);
      const source = sources.get(`plugin-option ${full}`);
      const isFromLine = source?.startsWith('--') === true;
      const isFromVariable = variable !== undefined && !isFromLine;
      const from = isFromVariable ? (spec.variable ?? '') : source;
      const shown = from === undefined || isFromVariable ? (from ?? full) : `${from} ${full}`;
      const found = valueOf(spec, isFromVariable ? variable : written, shown);
      if ('problem' in found) problems.push(found.problem);
      else {
        section[name] = found.value;
        values.push({ name: full, value: found.value, source: from ?? 'default', isSecret: isSecret(spec) });
      }
      if (spec.required === true && written === undefined && variable === undefined) problems.push(missing(full, spec));
    }
    sections[definition.name] = Object.freeze(section);
  }
  for (const name of given.keys()) {
    const problem = strayProblem(name, plugins);
    if (problem !== undefined)
      problems.push(`${sources.get(`plugin-option ${name}`) ?? '--plugin-option'} ${name}: ${problem}`);
  }
  return { sections, values, problems };
}

function isSecret(spec: OptionSpec): boolean {
  return spec.type === 'text' && spec.isSecret === true;
}

function missing(full: string, { variable }: OptionSpec): string {
  const orVariable = variable === undefined ? '' : `, or ${variable} in the environment`;
  return `the plugin needs --plugin-option ${full}=…${orVariable}`;
}

/** Returns the problem of an option that no loaded plugin has. */
function strayProblem(name: string, plugins: readonly ConfiguredPlugin[]): string | undefined {
  const [capability = '', option = ''] = name.split('.', 2);
  const plugin = plugins.find((each) => each.capability === capability);
  if (plugin === undefined) {
    const loaded = plugins.map((each) => each.capability);
    const hint = loaded.length === 0 ? '' : `${suggestionFor(capability, loaded)} (loaded: ${loaded.join(', ')})`;
    return `no plugin is loaded for '${capability}'${hint}: add --plugin ${capability}=MODULE, or drop the option`;
  }
  const known = Object.keys(plugin.definition.options ?? {});
  if (known.includes(option)) return undefined;
  const has = known.length === 0 ? 'it has none' : `it has ${known.join(', ')}`;
  return `plugin '${plugin.definition.name}' has no option '${option}'${suggestionFor(option, known)} (${has})`;
}

function valueOf(
  spec: OptionSpec,
  written: string | undefined,
  shown: string,
): { readonly value: unknown } | { readonly problem: string } {
  if (written === undefined) return { value: defaultOf(spec) };
  try {
    return { value: flagOf(spec).parse(written) };
  } catch (error) {
    if (!(error instanceof FlagProblem)) throw error;
    // A reason may contain the value itself, so that of a secret is not shown.
    return { problem: `${shown}: ${isSecret(spec) && written !== '' ? 'the value cannot be used' : error.message}` };
  }
}

function defaultOf(spec: OptionSpec): unknown {
  return spec.type === 'switch' ? (spec.default ?? false) : spec.default;
}
