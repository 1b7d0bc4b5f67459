/**
 * `svc/plugin/classes`: plugins that are classes. tsyringe builds them from the values that the plugin requires, and
 * from nothing else. Decorators name each value (`@inject(injectionToken(Clock))`); nothing relies on emitted types, so
 * any compiler will do.
 */
import { type Capability, defineCapability, type Requirements } from '../../kernel/index.ts';
import { type Class, grant, grantsOf, instantiate } from '../../kernel/injection.ts';
import { definePlugin, type PluginDefinition } from './definition.ts';
import type { OptionSpecs } from './options.ts';

export { type Class, inject, injectable, injectionToken, injects, type Key } from '../../kernel/injection.ts';

/** Capability by which a class gets the plugin's options: the same object that `create` would get as `config`. */
export const Options: Capability<unknown> = defineCapability<unknown>('options');

/** A plugin whose object is an instance of a class. */
export interface ClassDefinition<P, T extends P, R extends Requirements, O extends OptionSpecs> extends Omit<
  PluginDefinition<P, T, R, O>,
  'create'
> {
  /**
   * Class of the plugin's object. Its constructor, and those of the classes that it needs, take values of `requires`,
   * and Options.
   */
  readonly made: Class<T>;
}

/**
 * Defines a plugin whose `create` builds the class. Built objects that have a `dispose()` are disposed of after `stop`.
 */
export function defineClassPlugin<
  P,
  T extends P,
  const O extends OptionSpecs = Readonly<Record<string, never>>,
  R extends Requirements = Readonly<Record<string, never>>,
>({ made, ...rest }: ClassDefinition<P, T, R, O>): PluginDefinition<P, T, R, O> {
  return definePlugin<P, T, O, R>({
    ...rest,
    create: (granted, { config, owns }) =>
      instantiate(made, [...grantsOf(rest.requires ?? {}, granted), grant(Options, config)], owns),
  });
}
