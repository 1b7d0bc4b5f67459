/** The registry of published capabilities. awilix lives here and nowhere else. */
import { type AwilixContainer, asFunction, asValue, createContainer } from 'awilix/browser';
import { assert } from './assert.ts';
import type { Capability } from './capability.ts';
import type { Granted, Requirements } from './plugin.ts';

/** Private parts of one plugin, disposed of when it has stopped. */
export interface PluginScope {
  readonly owns: <P>(part: P, dispose: (part: P) => void | Promise<void>) => P;
  /** Starts every disposer at once; rejects at the first failure. */
  dispose(): Promise<void>;
}

/** One root that holds what plugins published, and a scope for each plugin's private parts. */
export class Registry {
  readonly #root: AwilixContainer = createContainer({ strict: true });

  publish<T>(capability: Capability<T>, value: T): void {
    this.#root.register(capability.name, asValue(value));
  }

  get<T>(capability: Capability<T>): T {
    const isThere = this.#root.hasRegistration(capability.name);
    assert(isThere, `nothing provides '${capability.name}', or it has not been created yet`);
    return this.#root.resolve<T>(capability.name);
  }

  /** Returns exactly the named values, never the container. */
  grant<R extends Requirements>(requires: R): Granted<R> {
    const granted = Object.entries(requires).map(([key, capability]) => [key, this.get(capability)] as const);
    return Object.freeze(Object.fromEntries(granted)) as Granted<R>;
  }

  createScope(): PluginScope {
    const scope = this.#root.createScope();
    let parts = 0;
    return {
      owns<P>(part: P, dispose: (part: P) => void | Promise<void>): P {
        const name = `part ${++parts}`;
        const resolver = asFunction(() => part).scoped();
        scope.register(name, resolver.disposer(dispose));
        // A container disposes only of what it has handed out.
        return scope.resolve<P>(name);
      },
      dispose: () => scope.dispose(),
    };
  }
}
