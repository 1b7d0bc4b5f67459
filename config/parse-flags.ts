/**
 * Turns a command line and an environment into values. `util.parseArgs` only splits the arguments (its tokens say
 * exactly what was written). Unknown, repeated, missing and out-of-range flags are reported in our own words, all at
 * once, so that an operator does not have to fix one flag at a time.
 */
import { parseArgs, type ParseArgsConfig } from 'node:util';
import type { ConfigFile } from './config-file.ts';
import type { Flag, NamedValue } from './flag.ts';
import {
  type FlagName,
  FLAGS,
  flagsByName,
  type FlagValues,
  VARIABLES,
  variablesByName,
  type VariableValues,
} from './flags.ts';
import { suggestionFor } from '../kernel/index.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface ParsedFlags {
  readonly flags: FlagValues;
  readonly variables: VariableValues;
  /** Flags that were on the command line, or in the file. */
  readonly given: ReadonlySet<FlagName>;
  /**
   * Source of each value that is no default: `--state`, `SVC_TOKEN`, `svc.config.json:3:5`. The key of a named value
   * has the form `plugin storage`.
   */
  readonly sources: ReadonlyMap<string, string>;
  /** Plugins turned off with `--no-<plugin>`. */
  readonly disabled: ReadonlySet<string>;
  /** Every problem as one sentence; empty if there are none. */
  readonly problems: readonly string[];
}

type Token = ReturnType<typeof tokenize>[number];
type OptionToken = Extract<Token, { kind: 'option' }>;

/**
 * Parses the flags. `pluginNames` are the names that `--no-<plugin>` accepts; `readFile` reads the file of `--config`.
 */
export function parseFlags(
  argv: readonly string[],
  environment: Environment,
  pluginNames: readonly string[],
  readFile?: (path: string) => ConfigFile,
): ParsedFlags {
  const parser = new FlagParser(pluginNames);
  for (const token of tokenize(argv)) parser.take(token);
  parser.readEnvironment(environment);
  const file = parser.configFile;
  if (file !== undefined && readFile !== undefined) parser.takeFile(readFile(file));
  return parser.result();
}

function tokenize(argv: readonly string[]) {
  const options: NonNullable<ParseArgsConfig['options']> = {};
  for (const [name, { placeholder, short }] of flagsByName) {
    options[name] = { type: placeholder === undefined ? 'boolean' : 'string', ...(short !== undefined && { short }) };
  }
  return parseArgs({ args: argv, options, strict: false, allowNegative: true, tokens: true }).tokens;
}

class FlagParser {
  readonly #pluginNames: readonly string[];
  readonly #problems: string[] = [];
  /** The flag that was parsed last, if it has a problem. */
  #refused: string | undefined;
  readonly #seen = new Set<string>();
  readonly #disabled = new Set<string>();
  readonly #values = new Map<string, unknown>();
  readonly #sources = new Map<string, string>();

  constructor(pluginNames: readonly string[]) {
    this.#pluginNames = pluginNames;
  }

  take(token: Token): void {
    const before = this.#problems.length;
    if (token.kind === 'positional') this.#problems.push(strayWord(token.value, this.#refused));
    else if (token.kind === 'option') {
      const { rawName } = token;
      // A flag of its own may begin so, too (`--no-claims`), and parseArgs takes the name apart.
      const isOwn = flagsByName.has(rawName.slice('--'.length));
      if (rawName.startsWith('--no-') && !isOwn) this.#negated(token);
      else this.#positive(isOwn ? { ...token, name: rawName.slice('--'.length) } : token);
    }
    this.#refused = token.kind === 'option' && this.#problems.length > before ? token.rawName : undefined;
  }

  #negated({ rawName, value }: OptionToken): void {
    // parseArgs leaves `no-` in the name if a value is attached.
    const name = rawName.slice('--no-'.length);
    const flag = flagsByName.get(name);
    const isPlugin = this.#pluginNames.includes(name);
    const isSwitch = flag?.placeholder === undefined && flag !== undefined && !['help', 'version'].includes(name);
    if (!isPlugin && !isSwitch) return this.#unknown(rawName);
    if (this.#isRepeated(isPlugin ? rawName : name, rawName)) return undefined;
    if (value !== undefined) this.#problems.push(`${rawName} takes no value: drop '=${value}'`);
    else if (isPlugin) this.#turnOff(name, rawName);
    else this.#set(name, false, rawName);
    return undefined;
  }

  #turnOff(name: string, source: string): void {
    this.#disabled.add(name);
    this.#sources.set(`no-${name}`, source);
  }

  #set(name: string, value: unknown, source: string): void {
    this.#values.set(name, value);
    this.#sources.set(name, source);
  }

  #positive({ name, rawName, value, inlineValue }: OptionToken): void {
    const flag = flagsByName.get(name);
    // parseArgs takes `--h` for the letter h, and `-manifest` for letters, too: only the exact form is accepted.
    const isWritten = rawName === `--${name}` || rawName === `-${flag?.short}`;
    if (flag === undefined || !isWritten) return this.#unknown(rawName);
    if (flag.isRepeatable !== true && this.#isRepeated(name, rawName)) return undefined;
    this.#seen.add(name);
    if (flag.placeholder === undefined) this.#takeSwitch(name, rawName, value);
    else if (value === undefined) this.#problems.push(`${rawName} needs a value: ${rawName} ${flag.placeholder}`);
    else if (!inlineValue && /^-(?!\d)/.test(value)) this.#problems.push(looksLikeFlag(name, rawName, flag, value));
    else this.#parse(name, rawName, flag, value);
    return undefined;
  }

  #takeSwitch(name: string, rawName: string, value: string | undefined): void {
    if (value === undefined) this.#set(name, true, rawName);
    else this.#problems.push(`${rawName} is a switch and takes no value: drop '=${value}'`);
  }

  #isRepeated(key: string, rawName: string): boolean {
    if (this.#seen.has(key)) this.#problems.push(`${rawName} is given more than once: keep one`);
    const isRepeated = this.#seen.has(key);
    this.#seen.add(key);
    return isRepeated;
  }

  #unknown(rawName: string): void {
    const known = [...flagsByName.keys()].map((name) => `--${name}`);
    const off = this.#pluginNames.map((name) => `--no-${name}`);
    this.#problems.push(`unknown flag ${rawName}${suggestionFor(rawName, [...known, ...off])}`);
  }

  readEnvironment(environment: Environment): void {
    for (const [name, flag] of flagsByName) {
      const value = flag.variable === undefined ? undefined : environment[flag.variable];
      const hasYielded = flag.variableYieldsTo !== undefined && this.#seen.has(flag.variableYieldsTo);
      if (value !== undefined && !this.#seen.has(name) && !hasYielded)
        this.#parse(name, flag.variable ?? name, flag, value);
    }
    for (const [name, variable] of variablesByName) {
      const value = environment[name];
      if (value === undefined) continue;
      this.#parse(name, name, variable, value);
    }
  }

  /** Returns the path given with `--config`, or undefined. */
  get configFile(): string | undefined {
    const file = this.#values.get('config');
    return typeof file === 'string' ? file : undefined;
  }

  /** Takes the file's values. Values from the command line or the environment have precedence. */
  takeFile({ values, disabled, problems }: ConfigFile): void {
    this.#problems.push(...problems);
    for (const [name, place] of disabled) if (!this.#disabled.has(name)) this.#turnOff(name, place);
    const earlier = new Set(this.#sources.keys());
    for (const { name, text, place } of values) {
      const flag = flagsByName.get(name);
      if (flag === undefined || ((flag.isRepeatable !== true || flag.kind === 'text') && earlier.has(name))) continue;
      this.#seen.add(name);
      this.#parse(name, `${place} ${name}`, flag, text, place);
    }
  }

  #parse(key: string, shown: string, flag: Flag<unknown>, value: string, source = shown): void {
    try {
      const parsed = flag.parse(value);
      if (flag.isRepeatable === true && flag.kind === 'text') this.#addText(key, parsed as string, source);
      else if (flag.isRepeatable === true) this.#addNamed(key, parsed as readonly NamedValue[], source);
      else this.#set(key, parsed, source);
    } catch (error) {
      this.#problems.push(`${shown}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** Adds a text behind a space: a file and a variable can hold several texts in one value, too. */
  #addText(key: string, added: string, source: string): void {
    const before = this.#values.get(key);
    this.#set(key, before === undefined ? added : `${before as string} ${added}`, source);
  }

  /** Adds a named value. Each name counts once, and the command line wins because it comes first. */
  #addNamed(key: string, [added]: readonly NamedValue[], source: string): void {
    if (added === undefined) return;
    const named = `${key} ${added.name}`;
    const before = this.#sources.get(named);
    if (before === undefined) {
      this.#values.set(key, [...((this.#values.get(key) ?? []) as readonly NamedValue[]), added]);
      this.#sources.set(named, source);
    } else if (source.startsWith('--')) {
      this.#problems.push(`${source} ${added.name}=… is given more than once: keep one`);
    }
  }

  result(): ParsedFlags {
    const valueOf = ([name, flag]: [string, Flag<unknown>]): [string, unknown] => [
      name,
      this.#values.has(name) ? this.#values.get(name) : flag.defaultValue,
    ];
    return {
      // Each value came from its own flag's `parse` or default, so it has the type that these casts claim.
      flags: Object.fromEntries(Object.entries(FLAGS).map(valueOf)) as unknown as FlagValues,
      variables: Object.fromEntries(Object.entries(VARIABLES).map(valueOf)) as unknown as VariableValues,
      given: this.#seen as ReadonlySet<string> as ReadonlySet<FlagName>,
      disabled: this.#disabled,
      sources: this.#sources,
      problems: this.#problems,
    };
  }
}

/** Reports a stray word. A word after a wrong flag is most likely that flag's value, and may be a token. */
function strayWord(word: string, refused: string | undefined): string {
  const shown = refused === undefined ? `'${word.replace(/=.+$/s, '=…')}'` : `what follows ${refused}`;
  return `${shown} is not a flag: svc takes flags only, no commands or file names`;
}

/** Reports a value that looks like a flag. A token may begin with a dash as well, so it is not printed. */
function looksLikeFlag(name: string, rawName: string, flag: Flag<unknown>, value: string): string {
  if (flag.isSecret === true || flag.kind === 'names')
    return `${rawName} needs a value, but what follows looks like a flag: write --${name}=${flag.placeholder} if it is the value`;
  return `${rawName} needs a value, but '${value}' looks like a flag: write --${name}=${value} if it is the value`;
}

// ---- variables that are mistyped

/** Variables of other programs may begin so, too (Kubernetes sets `SVC_PORT` for a service of that name). */
const PREFIX = /^svc_/i;

/**
 * Returns one sentence for each variable that is nearly one of the server's or of a plugin's: nothing reads it. An
 * unlike name is somebody else's.
 */
export function variableSlips(environment: Environment, ofPlugins: readonly string[]): string[] {
  const named = Object.keys(environment).filter((name) => environment[name] !== undefined && PREFIX.test(name));
  if (named.length === 0) return [];
  const flags = [...flagsByName.values()].map(({ variable }) => variable);
  const known = [...flags, ...ofPlugins, ...variablesByName.keys()].filter((name) => name !== undefined);
  return named
    .filter((name) => !known.includes(name))
    .map((name) => [name, suggestionFor(name, known)] as const)
    .filter(([, suggestion]) => suggestion !== '')
    .map(([name, suggestion]) => `the variable ${name} has no effect, since nothing reads it${suggestion}`);
}
