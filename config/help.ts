/** `--help`, and the same facts as a document: both are made from the declarations in `flags.ts`. */
import type { Described, Flag, FlagGroup } from './flag.ts';
import { flagsByName, variablesByName } from './flags.ts';
import type { PartName } from './parts.ts';
import { flagOf } from './plugin-flag.ts';
import type { ConfiguredPlugin } from './plugin-options.ts';

export interface HelpOptions {
  readonly version: string;
  /** Columns of the terminal. */
  readonly width: number;
  readonly hasColor: boolean;
  readonly parts: readonly PartName[];
  /** Plugins that `--plugin` names on the same command line. */
  readonly loaded?: readonly Pick<ConfiguredPlugin, 'capability' | 'module' | 'definition'>[];
}

const GROUPS: Readonly<Record<FlagGroup, string>> = {
  general: 'General',
  manifest: 'manifest: which actors',
  http: 'http: where the server listens',
  auth: 'auth: who may use the server',
  agents: 'agents: clients of the Internet Computer',
  cluster: 'cluster: one service on several servers',
  execution: 'execution: running messages',
  metering: 'metering: what messages cost',
  canisters: 'canisters: the actors',
  scheduler: 'scheduler: which message is next',
  storage: 'storage: where actors are stored',
  outcalls: 'outcalls: requests of actors to the outside',
  gateway: 'gateway: websites of actors',
  'mops-closure': 'mops-closure: sources of a project',
  compiler: 'compiler: checking upgrades',
};

interface Entry {
  /** `-m, --manifest FILE`. */
  readonly usage: string;
  readonly summary: string;
  /** Default value, variable, and `Required.` for options that have no default. */
  readonly notes: readonly string[];
}

interface Section {
  readonly title: string;
  readonly entries: readonly Entry[];
}

function sectionsOf(parts: HelpOptions['parts'], loaded: HelpOptions['loaded'] = []): readonly Section[] {
  const sections = Object.entries(GROUPS).map(([group, title]) => ({
    title,
    entries: [
      ...[...flagsByName].filter(([, flag]) => flag.group === group).map(([name, flag]) => flagEntry(name, flag)),
      ...[...variablesByName].filter(([, flag]) => flag.group === group).map(([name, flag]) => entry(name, flag)),
    ],
  }));
  return [...sections, ...loaded.map(pluginSection), { title: 'Turning parts off', entries: turningOff(parts) }];
}

function pluginSection({ capability, module, definition }: NonNullable<HelpOptions['loaded']>[number]): Section {
  const options = Object.entries(definition.options ?? {});
  const entries = options.map(([name, spec]) => {
    const flag = flagOf(spec);
    const shown = entry(`    --plugin-option ${capability}.${name}=${flag.placeholder ?? 'true|false'}`, flag);
    return spec.required === true ? { ...shown, notes: [...shown.notes, 'Required.'] } : shown;
  });
  const routes = (definition.routes ?? []).map(({ method, path }) => ({
    usage: `    ${method} /x/${definition.name}${path}`,
    summary: 'A route of the plugin.',
    notes: [],
  }));
  return { title: `${definition.name}: plugin ${capability}=${module}`, entries: [...entries, ...routes] };
}

function flagEntry(name: string, flag: Flag<unknown>): Entry {
  const value = flag.placeholder === undefined ? '' : ` ${flag.placeholder}`;
  return entry(`${flag.short === undefined ? '    ' : `-${flag.short}, `}--${name}${value}`, flag);
}

function entry(usage: string, flag: Described & { readonly defaultText: string | undefined }): Entry {
  const notes: string[] = [];
  if (flag.defaultText !== undefined) notes.push(`Default: ${flag.defaultText}.`);
  if (flag.variable !== undefined) notes.push(`Also read from ${flag.variable}.`);
  return { usage, summary: flag.summary, notes };
}

function turningOff(parts: HelpOptions['parts']): readonly Entry[] {
  const optional = parts.filter(({ isOptional }) => isOptional).map(({ name }) => name);
  return optional.map((name) => ({ usage: `    --no-${name}`, summary: `Run without ${name}.`, notes: [] }));
}

const USAGE_COLUMN = 32;
const WIDTH_MIN = 60;
const WIDTH_MAX = 110;

/** Returns the text of `--help`. */
export function helpText(options: HelpOptions): string {
  const width = Math.min(Math.max(options.width, WIDTH_MIN), WIDTH_MAX);
  const paint = (code: number, text: string): string => (options.hasColor ? `\u001b[${code}m${text}\u001b[0m` : text);
  const lines = [
    ...wrap(`svc ${options.version}: hosts WebAssembly actors with Internet Computer canister semantics`, width),
    '',
    `${paint(1, 'Usage:')} svc [flags]`,
    '       npm run svc -- [flags]   from a checkout',
  ];
  for (const { title, entries } of sectionsOf(options.parts, options.loaded)) {
    if (entries.length === 0) continue;
    lines.push('', paint(1, title));
    for (const { usage, summary, notes } of entries) {
      const [first = '', ...rest] = wrap([summary, ...notes].join(' '), width - USAGE_COLUMN);
      const left = `  ${usage}`;
      const fits = left.length < USAGE_COLUMN;
      const painted = paint(36, left) + ' '.repeat(Math.max(0, USAGE_COLUMN - left.length));
      lines.push(...(fits ? [painted + first] : [painted, ' '.repeat(USAGE_COLUMN) + first]));
      lines.push(...rest.map((line) => ' '.repeat(USAGE_COLUMN) + line));
    }
  }
  return `${lines.join('\n')}\n`;
}

function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** Returns the text of `docs/flags.md`. */
export function flagsDocument(parts: HelpOptions['parts']): string {
  const lines = [
    '# Flags and environment variables',
    '',
    'Drawn from `config/flags.ts`; `svc --help` prints the same. To write it anew:',
    '`node --test --test-update-snapshots test/config/help.test.ts`.',
  ];
  for (const { title, entries } of sectionsOf(parts)) {
    if (entries.length === 0) continue;
    lines.push('', `## ${title}`, '', '| flag or variable | meaning | notes |', '|---|---|---|');
    for (const { usage, summary, notes } of entries) {
      const cells = [`\`${usage.trim()}\``, summary, notes.join(' ')].map((cell) => cell.replaceAll('|', '\\|'));
      lines.push(`| ${cells.join(' | ')} |`);
    }
  }
  return `${lines.join('\n')}\n`;
}
