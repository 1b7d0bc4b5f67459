/**
 * Object graphs inside one plugin. tsyringe and reflect-metadata live here and nowhere else.
 *
 * A class says once what its constructor takes (`injects`), in terms of capabilities and of other such classes; the
 * compiler checks the list against the constructor. `assemble` builds the graph from exactly what it is granted, in a
 * container of its own that is dropped afterwards: every class of the graph is built once, and a grant that is missing
 * is named before anything is built. The global container stays empty, and no decorator syntax is needed, which Node
 * could not strip.
 *
 *     class RoundScheduler { constructor(storage: Storage, clock: Clock) { … } }
 *     injects(RoundScheduler, Storage, Clock);
 *     assemble(RoundScheduler, grant(Storage, storage), grant(Clock, clock));
 *
 * A plugin may be given as such a class (`defineClassPlugin`). A class from another package may be decorated instead,
 * if it is compiled and its decorators name its parameters with `injectionToken`.
 *
 * Not part of the kernel's face, so that only code that uses tsyringe loads it: import this file by name.
 */
import 'reflect-metadata';
import { container, type DependencyContainer, inject, injectable, type InjectionToken, Lifecycle } from 'tsyringe';
import { assert } from './assert.ts';
import type { Capability } from './capability.ts';
import { type CreateContext, definePlugin, type Plugin, type Requirements } from './plugin.ts';

export { inject, injectable };

/** A class that can be built from values of the types `A`. */
export type Class<T, A extends readonly unknown[] = readonly never[]> = new (...parameters: [...A]) => T;

/** Source of a constructor parameter of type `T`: a capability, or another class of the graph. */
export type Key<T> = Capability<T> | Class<T>;

/** One value handed to `assemble`. */
interface Grant {
  readonly capability: Capability<unknown>;
  readonly value: unknown;
}

const keysOf = new WeakMap<Class<unknown>, readonly Key<unknown>[]>();

/** Declares the sources of the constructor's parameters, in order. */
export function injects<T, A extends readonly unknown[]>(
  target: Class<T, A>,
  ...keys: { [I in keyof A]: Key<A[I]> }
): void {
  const list: readonly Key<unknown>[] = keys;
  for (const [index, key] of list.entries()) inject(tokenOf(key))(target, undefined, index);
  injectable()(target);
  keysOf.set(target, list);
}

/** Pairs a capability with its value. */
export function grant<T>(capability: Capability<T>, value: NoInfer<T>): Grant {
  return { capability, value };
}

/**
 * Builds `target` and every class it needs from exactly these grants. Throws if a grant is missing, with the name of
 * the class that needs it. The caller owns the built objects and disposes of them.
 */
export function assemble<T, A extends readonly unknown[]>(target: Class<T, A>, ...grants: readonly Grant[]): T {
  return assembleIn(containerOf(grants), target, grants);
}

function assembleIn<T, A extends readonly unknown[]>(
  graph: DependencyContainer,
  target: Class<T, A>,
  grants: readonly Grant[],
): T {
  const classes = collectClasses(target, new Set(grants.map(({ capability }) => capability.name)));
  for (const member of classes) graph.register(member, { useClass: member }, { lifecycle: Lifecycle.ContainerScoped });
  return graph.resolve<T>(target);
}

/** A plugin whose object is an instance of a class. */
interface ClassPlugin<P, T extends P, R extends Requirements, C> extends Omit<Plugin<P, T, R, C>, 'create'> {
  /**
   * Class of the plugin's object. Its constructor, and those of other classes that it needs, take only what `requires`
   * lists. Parameters are declared with `injects` or by decorators: `@injectable()`, and `@inject(…)` with a token of
   * `injectionToken` at each parameter.
   */
  readonly made: Class<T>;
}

/** Defines a plugin whose `create` builds the class from what the plugin requires. */
export function defineClassPlugin<P, T extends P, R extends Requirements, C>({
  made,
  ...plugin
}: ClassPlugin<P, T, R, C>): Plugin<P, T, R, C> {
  return definePlugin({
    ...plugin,
    create: (granted, context) => instantiate(made, grantsOf(plugin.requires, granted), context.owns),
  });
}

/** Returns the granted values of a plugin as grants for its classes. */
export function grantsOf(requires: Requirements, granted: Readonly<Record<string, unknown>>): readonly Grant[] {
  return Object.entries(requires).map(([key, capability]) => grant(capability, granted[key]));
}

/**
 * Builds a class whose parameters are declared with `injects` or by decorators, from exactly these grants. Built
 * objects that have a `dispose` are disposed of when the plugin has stopped.
 */
export function instantiate<T>(made: Class<T>, grants: readonly Grant[], owns: CreateContext<unknown>['owns']): T {
  const graph = owns(containerOf(grants), (built) => built.dispose());
  if (keysOf.has(made)) return assembleIn(graph, made, grants);
  try {
    return graph.resolve<T>(tokenOf(made));
  } catch (error) {
    if (!(error instanceof Error) || !error.message.includes('TypeInfo not known')) throw error;
    const text = 'is not decorated, or by another copy of tsyringe: take inject and injectable from svc/plugin/classes';
    throw new Error(`${made.name} ${text} (${error.message})`, { cause: error });
  }
}

/**
 * Returns the key that plugin classes of other packages pass to `@inject(…)`: the same key for every token of that
 * name.
 */
export function injectionToken(capability: Capability<unknown>): symbol {
  return Symbol.for(`svc.capability.${capability.name}`);
}

function containerOf(grants: readonly Grant[]): DependencyContainer {
  const graph = container.createChildContainer();
  for (const { capability, value } of grants) graph.registerInstance(tokenOf(capability), value);
  return graph;
}

function tokenOf(key: Key<unknown>): InjectionToken {
  return typeof key === 'function' ? key : injectionToken(key);
}

/**
 * Returns every class of the graph once; finds missing grants, undeclared classes and cycles before anything is built.
 */
function collectClasses(root: Class<unknown>, granted: ReadonlySet<string>): readonly (new () => unknown)[] {
  const found = new Set<Class<unknown>>();
  const visit = (member: Class<unknown>, path: readonly Class<unknown>[]): void => {
    const here = [...path, member];
    const isCircle = path.includes(member);
    assert(!isCircle, `classes need each other in a circle: ${here.map(({ name }) => name).join(' → ')}`);
    if (found.has(member)) return;
    const keys = keysOf.get(member);
    assert(keys !== undefined, `${member.name} does not say what it needs: call injects(${member.name}, …)`);
    for (const key of keys) {
      if (typeof key === 'function') visit(key, here);
      else assert(granted.has(key.name), `${member.name} needs '${key.name}', which was not granted`);
    }
    found.add(member);
  };
  visit(root, []);
  return [...found];
}
