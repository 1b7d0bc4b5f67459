/** What a flag is, and the kinds of values there are. `flags.ts` declares the flags of this server with them. */

/** Parts of the server that flags belong to: `--help` groups by them. */
export type FlagGroup =
  | 'general'
  | 'manifest'
  | 'http'
  | 'auth'
  | 'execution'
  | 'metering'
  | 'canisters'
  | 'scheduler'
  | 'storage'
  | 'outcalls'
  | 'gateway'
  | 'mops-closure'
  | 'compiler';

/** What every flag and every variable says of itself. */
export interface Described {
  readonly group: FlagGroup;
  /** One sentence or two, for `--help` and the documents. */
  readonly summary: string;
  /** A letter for `-x`. */
  readonly short?: string;
  /** The environment variable that is read when the flag is not given. */
  readonly variable?: string;
  /** The value is printed nowhere, and does not belong into a file. */
  readonly isSecret?: boolean;
}

/** What a value looks like in `svc.config.json`: text, a whole number (also as text), true or false, or text for each name. */
export type ValueKind = 'text' | 'number' | 'switch' | 'names';

/** One flag, whose parsed value is a `T`. */
export interface Flag<T> extends Described {
  readonly kind: ValueKind;
  /** May be given more than once: `parse` gives a list of one, and all of them make one list. */
  readonly isRepeatable?: boolean;
  /** What stands for the value in `--help`; undefined: a switch. */
  readonly placeholder: string | undefined;
  readonly defaultValue: T;
  /** The default with its unit, for people; undefined: there is nothing to say. */
  readonly defaultText: string | undefined;
  /** Throws a `FlagProblem` with the reason and the fix. A switch is handed `true` or `false`. */
  parse(text: string): T;
}

/** Why a value is refused; the caller puts the flag's name in front. */
export class FlagProblem extends Error {
  override readonly name = 'FlagProblem';
}

interface TextOptions<D extends string | undefined> extends Described {
  readonly placeholder: string;
  readonly defaultValue: D;
  readonly defaultText?: string;
}

/** Any text but the empty one. */
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
  /** `bytes`, `ms`, …: what the number counts. */
  readonly unit: string;
  readonly min: number;
  readonly max?: number;
  /** Instead of the default with its unit. */
  readonly defaultText?: string;
}

/** A whole number in plain decimal digits. */
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

/** A whole number that may be larger than a double holds exactly. */
export function bigInteger(options: BigIntegerOptions): Flag<bigint> {
  const { min, max, unit, defaultValue } = options;
  return {
    kind: 'number',
    defaultText: `${formatNumber(defaultValue)} ${unit}`,
    ...options,
    parse: (value) => parseDecimal(value, min, max, unit),
  };
}

interface ChoiceOptions<C extends string> extends Described {
  readonly choices: readonly [C, ...C[]];
  readonly defaultValue: NoInfer<C>;
}

/** One of a few words. */
export function choice<const C extends string>(options: ChoiceOptions<C>): Flag<C> {
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

/** On or off; off by default. */
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
  /** What a name looks like, and how that is said. */
  readonly name: RegExp;
  readonly nameText: string;
  /** A value that is empty says nothing. */
  readonly isValueNeeded?: boolean;
}

/** `NAME=VALUE`, as often as there are names. */
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

/** Of `NAME=VALUE` what may be printed: a value may hold a password, also where its `=` was forgotten. */
function withoutValue(written: string): string {
  const [name = ''] = /^[\w.-]{0,80}=?/.exec(written) ?? [];
  return name.length < written.length ? `${name}…` : name;
}

function parseDecimal(value: string, min: bigint, max: bigint, unit: string): bigint {
  const fix = `give a whole number of ${unit} from ${min} to ${max}, in plain digits`;
  if (/^-\d+$/.test(value)) throw new FlagProblem(`${value} is negative: ${fix}`);
  if (!/^\d+$/.test(value)) throw new FlagProblem(`'${value}' is not a whole number: ${fix}`);
  // A million digits would take BigInt a while; none of the ranges has more than 39.
  const number = value.length > 64 ? max + 1n : BigInt(value);
  if (number < min || number > max) throw new FlagProblem(`${value.slice(0, 64)} is out of range: ${fix}`);
  return number;
}

/** 100000000000000 → `100,000,000,000,000`. `toLocaleString` would load what all languages need: 10 ms of every start. */
function formatNumber(value: number | bigint): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ',');
}
