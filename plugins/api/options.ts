/** Options that a plugin declares: `--plugin-option <capability>.<name>=<value>`, and the same in svc.config.json. */

interface Common {
  /** One sentence or two, for `--help`. */
  readonly summary: string;
  /** The environment variable that is read where the command line does not have the option. */
  readonly variable?: string;
  /** Refuse to start without it. Not with a default. */
  readonly required?: boolean;
}

export interface TextOption extends Common {
  readonly type: 'text';
  /** What stands for the value in `--help`, as `URL`. */
  readonly placeholder?: string;
  readonly default?: string;
  /** Never printed: not by `--print-config`, not in errors. */
  readonly isSecret?: boolean;
}

export interface IntegerOption extends Common {
  readonly type: 'integer';
  /** What it counts: `ms`, `bytes`. */
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly default?: number;
}

export interface ChoiceOption extends Common {
  readonly type: 'choice';
  readonly choices: readonly [string, ...string[]];
  readonly default?: string;
}

/** Off unless it is turned on: `=true`, `=false`. */
export interface SwitchOption extends Common {
  readonly type: 'switch';
  readonly default?: boolean;
}

export type OptionSpec = TextOption | IntegerOption | ChoiceOption | SwitchOption;
/** By name: small letters, digits and `-`. */
export type OptionSpecs = Readonly<Record<string, OptionSpec>>;

type IsGiven<S extends OptionSpec> = S extends { readonly required: true } | { readonly default: string | number }
  ? true
  : false;
type Maybe<S extends OptionSpec, V> = IsGiven<S> extends true ? V : V | undefined;
type OptionValue<S extends OptionSpec> = S extends SwitchOption
  ? boolean
  : S extends IntegerOption
    ? Maybe<S, number>
    : S extends { readonly choices: readonly (infer C)[] }
      ? Maybe<S, C>
      : Maybe<S, string>;

/** What `create` gets as `config`: checked, with defaults; undefined where an option is not given and has none. */
export type OptionValues<O extends OptionSpecs> = { readonly [N in keyof O]: OptionValue<O[N]> };
