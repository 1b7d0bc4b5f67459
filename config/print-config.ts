/** `--print-config`: each value and its source. Secrets are never printed. */
import { FLAGS, flagsByName, VARIABLES } from './flags.ts';
import type { ParsedFlags } from './parse-flags.ts';
import type { OptionValue } from './plugin-options.ts';

interface Row {
  readonly name: string;
  readonly value: string;
  readonly source: string;
}

/** Flags that ask for something other than a server. */
const NO_VALUES: ReadonlySet<string> = new Set([
  'help',
  'version',
  'print-config',
  'check',
  'capacity',
  'replay',
  'profile',
  'make-token',
]);
const HIDDEN = '(secret)';

/**
 * Prints one line for each value: name, value as JSON (`-` for none), source. `effective` has values of flags that
 * follow from others.
 */
export function printConfig(
  { flags, variables, sources, disabled }: ParsedFlags,
  options: readonly OptionValue[],
  effective: Readonly<Partial<Record<keyof typeof FLAGS, unknown>>>,
): string {
  const rows: Row[] = [];
  const add = (name: string, value: unknown, source = 'default', isSecret = false): void => {
    rows.push({ name, value: isSecret && value !== undefined ? HIDDEN : shown(value), source });
  };
  for (const name of Object.keys(FLAGS)) {
    const flag = name as keyof typeof FLAGS;
    const value: unknown = effective[flag] ?? flags[flag];
    if (NO_VALUES.has(name)) continue;
    if (!Array.isArray(value)) add(name, value, sources.get(name), flagsByName.get(name)?.isSecret);
    else if (name === 'plugin')
      for (const each of flags.plugin) add(`plugin ${each.name}`, each.value, sources.get(`plugin ${each.name}`));
  }
  for (const { name, value, source, isSecret } of options) add(`plugin-option ${name}`, value, source, isSecret);
  for (const name of Object.keys(VARIABLES)) add(name, variables[name as keyof typeof VARIABLES], sources.get(name));
  for (const name of disabled) add(name, false, sources.get(`no-${name}`));
  const width = (column: 'name' | 'value'): number => Math.max(...rows.map((row) => row[column].length));
  const [names, values] = [width('name'), width('value')];
  return rows.map(({ name, value, source }) => `${name.padEnd(names)}  ${value.padEnd(values)}  ${source}\n`).join('');
}

function shown(value: unknown): string {
  if (value === undefined) return '-';
  return typeof value === 'bigint' ? String(value) : JSON.stringify(value);
}
