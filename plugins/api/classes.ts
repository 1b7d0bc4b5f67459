/**
 * `svc/plugin/classes`: plugins that are classes. tsyringe builds them from what the plugin requires, and from nothing else.
 * Decorators name what they want (`@inject(injectionToken(Clock))`); nothing relies on emitted types, so any compiler will do.
 */
import { type Capability, defineCapability, type Requirements } from '../../kernel/index.ts';
import { type Class, grant, grantsOf, instantiate } from '../../kernel/injection.ts';
import { definePlugin, type PluginDefinition } from './definition.ts';
import type { OptionSpecs } from './options.ts';

export { type Class, inject, injectable, injectionToken, injects, type Key } from '../../kernel/injection.ts';

/** What a class asks for to get the plugin's options: the same object that `create` would get as `config`. */
export const Options: Capability<unknown> = defineCapability<unknown>('options');

/** A plugin whose object is an instance of a class. */
export interface ClassDefinition<P, T extends P, R extends Requirements, O extends OptionSpecs> extends Omit<
  PluginDefinition<P, T, R, O>,
  'create'
> {
  /** Its constructor, and those of the classes that it needs, take what is in `requires`, and Options. */
  readonly made: Class<T>;
}

/** A plugin that `create`s its object by building the class. What was built and has a `dispose()` is disposed of after `stop`. */
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
