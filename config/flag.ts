/** Flags and the kinds of values that they take. `flags.ts` declares the flags of this server with them. */

/** Parts of the server that flags belong to: `--help` groups flags by them. */
export type FlagGroup =
  | 'general'
  | 'manifest'
  | 'http'
  | 'auth'
  | 'agents'
  | 'cluster'
  | 'execution'
  | 'metering'
  | 'canisters'
  | 'scheduler'
  | 'storage'
  | 'outcalls'
  | 'gateway'
  | 'mops-closure'
  | 'compiler';

/** Description that flags and environment variables have in common. */
export interface Described {
  readonly group: FlagGroup;
  /** One or two sentences, for `--help` and the documents. */
  readonly summary: string;
  /** Letter for the short form, `-x`. */
  readonly short?: string;
  /** The environment variable that is read when the flag is not given. */
  readonly variable?: string;
  /** Another flag: if that is on the command line, the variable is not read. */
  readonly variableYieldsTo?: string;
  /** True if the value is never printed and must not be in a file. */
  readonly isSecret?: boolean;
}

/**
 * Kinds of values in `svc.config.json`: text, a whole number (also as text), true or false, or a text for each name.
 */
type ValueKind = 'text' | 'number' | 'switch' | 'names';

/** A flag whose parsed value is a `T`. */
export interface Flag<T> extends Described {
  readonly kind: ValueKind;
  /**
   * True if the flag may be given more than once: `parse` returns a list of one, and the lists are joined; texts are
   * joined with spaces.
   */
  readonly isRepeatable?: boolean;
  /** Placeholder for the value in `--help`; undefined for a switch. */
  readonly placeholder: string | undefined;
  readonly defaultValue: T;
  /** The default with its unit, for people; undefined if `--help` shows none. */
  readonly defaultText: string | undefined;
  /** Parses the value. Throws a `FlagProblem` with the reason and the fix. A switch is given `true` or `false`. */
  parse(text: string): T;
}

/** Reason why a value is refused; the caller prepends the flag's name. */
export class FlagProblem extends Error {
  override readonly name = 'FlagProblem';
}

interface TextOptions<D extends string | undefined> extends Described {
  readonly placeholder: string;
  readonly defaultValue: D;
  readonly defaultText?: string;
  /** True if the flag may be given more than once; the texts are joined with spaces. */
  readonly isRepeatable?: boolean;
}

/** Declares a flag for any non-empty text. */
export function text(options: TextOptions<string>): Flag<string>;
export function text(options: TextOptions<undefined>): Flag<string | undefined>;
export function text(options: TextOptions<string | undefined>): Flag<string | undefined> {
  return {
    kind: 'text',
    defaultText: options.defaultValue,
    ...options,
    parse(value) {
      if (value === '') throw new FlagProblem(`the value is empty: give a ${options.placeholder}, or leave it out`);
      return value;
    },
  };
}

interface IntegerOptions extends Described {
  readonly placeholder: string;
  readonly defaultValue: number;
  /** Unit of the number: `bytes`, `ms`, …. */
  readonly unit: string;
  readonly min: number;
  readonly max?: number;
  /** Shown instead of the default with its unit. */
  readonly defaultText?: string;
}

/** Declares a flag for a whole number in plain decimal digits. */
export function integer(options: IntegerOptions): Flag<number> {
  const { min, max = Number.MAX_SAFE_INTEGER, unit, defaultValue } = options;
  return {
    kind: 'number',
    defaultText: `${formatNumber(defaultValue)} ${unit}`,
    ...options,
    parse: (value) => Number(parseDecimal(value, BigInt(min), BigInt(max), unit)),
  };
}

interface BigIntegerOptions extends Described {
  readonly placeholder: string;
  readonly defaultValue: bigint;
  readonly unit: string;
  readonly min: bigint;
  readonly max: bigint;
}

/** Declares a flag for a whole number that may be larger than a double represents exactly. */
export function bigInteger(options: BigIntegerOptions): Flag<bigint> {
  const { min, max, unit, defaultValue } = options;
  return {
    kind: 'number',
    defaultText: `${formatNumber(defaultValue)} ${unit}`,
    ...options,
    parse: (value) => parseDecimal(value, min, max, unit),
  };
}

interface ChoiceOptions<C extends string, D> extends Described {
  readonly choices: readonly [C, ...C[]];
  readonly defaultValue: D;
  readonly defaultText?: string;
}

/** Declares a flag whose value is one of a few words. */
export function choice<const C extends string>(options: ChoiceOptions<C, NoInfer<C>>): Flag<C>;
export function choice<const C extends string>(options: ChoiceOptions<C, undefined>): Flag<C | undefined>;
export function choice<const C extends string>(options: ChoiceOptions<C, C | undefined>): Flag<C | undefined> {
  return {
    kind: 'text',
    placeholder: options.choices.join('|'),
    defaultText: options.defaultValue,
    ...options,
    parse(value) {
      const found = options.choices.find((word) => word === value);
      if (found === undefined) throw new FlagProblem(`'${value}' is not one of ${options.choices.join(', ')}`);
      return found;
    },
  };
}

/** Declares a switch, off by default. */
export function toggle(options: Described): Flag<boolean> {
  return {
    kind: 'switch',
    placeholder: undefined,
    defaultValue: false,
    defaultText: undefined,
    ...options,
    parse: (value) => value === 'true',
  };
}

/** A value for each of several names: `NAME=VALUE`. */
export interface NamedValue {
  readonly name: string;
  readonly value: string;
}

interface NamedOptions extends Described {
  readonly placeholder: string;
  /** Pattern of a name, and its description in messages. */
  readonly name: RegExp;
  readonly nameText: string;
  /** True if an empty value is refused. */
  readonly isValueNeeded?: boolean;
}

/** Declares a flag `NAME=VALUE` that may be given once for each name. */
export function named({
  name: pattern,
  nameText,
  isValueNeeded = false,
  ...described
}: NamedOptions): Flag<readonly NamedValue[]> {
  return {
    kind: 'names',
    isRepeatable: true,
    defaultValue: [],
    defaultText: undefined,
    ...described,
    parse(written) {
      const equals = written.indexOf('=');
      const name = written.slice(0, Math.max(0, equals));
      const value = written.slice(equals + 1);
      if (equals < 0 || !pattern.test(name) || (isValueNeeded && value === '')) {
        throw new FlagProblem(`'${withoutValue(written)}' is not of the form ${described.placeholder}: ${nameText}`);
      }
      return [{ name, value }];
    },
  };
}

/** Returns the printable part of `NAME=VALUE`: a value may hold a password, even where its `=` was forgotten. */
function withoutValue(written: string): string {
  const [name = ''] = /^[\w.-]{0,80}=?/.exec(written) ?? [];
  return name.length < written.length ? `${name}…` : name;
}

function parseDecimal(value: string, min: bigint, max: bigint, unit: string): bigint {
  const fix = `give a whole number of ${unit} from ${min} to ${max}, in plain digits`;
  if (/^-\d+$/.test(value)) throw new FlagProblem(`${value} is negative: ${fix}`);
  if (!/^\d+$/.test(value)) throw new FlagProblem(`'${value}' is not a whole number: ${fix}`);
  // BigInt takes long for a million digits; none of the ranges has more than 39.
  const number = value.length > 64 ? max + 1n : BigInt(value);
  if (number < min || number > max) throw new FlagProblem(`${value.slice(0, 64)} is out of range: ${fix}`);
  return number;
}

/**
 * Formats 100000000000000 as `100,000,000,000,000`. `toLocaleString` would load the data of all languages: 10 ms of
 * every start.
 */
function formatNumber(value: number | bigint): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ',');
}
