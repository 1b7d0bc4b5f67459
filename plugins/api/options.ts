/** Options that a plugin declares: `--plugin-option <capability>.<name>=<value>`, and the same in svc.config.json. */

interface Common {
  /** One or two sentences, for `--help`. */
  readonly summary: string;
  /** Environment variable that is read if the option is not on the command line. */
  readonly variable?: string;
  /** True if the server must not start without the option. Not allowed together with a default. */
  readonly required?: boolean;
}

export interface TextOption extends Common {
  readonly type: 'text';
  /** Placeholder for the value in `--help`, such as `URL`. */
  readonly placeholder?: string;
  readonly default?: string;
  /** True if the value is never printed, neither by `--print-config` nor in errors. */
  readonly isSecret?: boolean;
}

export interface IntegerOption extends Common {
  readonly type: 'integer';
  /** Unit of the number: `ms`, `bytes`. */
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

/** A switch that is off by default: `=true`, `=false`. */
export interface SwitchOption extends Common {
  readonly type: 'switch';
  readonly default?: boolean;
}

export type OptionSpec = TextOption | IntegerOption | ChoiceOption | SwitchOption;
/** Options by name: lower-case letters, digits and `-`. */
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

/**
 * Options as `create` gets them in `config`: checked, with defaults; undefined if an option is not given and has no
 * default.
 */
export type OptionValues<O extends OptionSpecs> = { readonly [N in keyof O]: OptionValue<O[N]> };
