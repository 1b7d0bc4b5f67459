/**
 * Modules that the main thread can describe before anybody has their code: the description comes from an earlier
 * process (code-cache.ts), and their code is made when the first of their canisters wakes. Then each is loaded like any
 * other module: decoded, validated, its instrumented code looked up under its tag or made, compiled. So nothing runs
 * that has not passed in this process what an upload has to pass.
 *
 * Main thread; asks the module loader.
 */
import { isDeepStrictEqual } from 'node:util';
import { ServerError } from '../../../kernel/index.ts';
import type { ModuleInfo } from '../index.ts';
import type { LoadedModule } from './module-loader.ts';

interface Described {
  readonly bytes: Uint8Array;
  /** Set while the module is being loaded; stays set if the module was refused. */
  loading: Promise<LoadedModule> | undefined;
}

export class DescribedModules {
  readonly #load: (bytes: Uint8Array) => Promise<LoadedModule>;
  readonly #described = new WeakMap<ModuleInfo, Described>();

  constructor(load: (bytes: Uint8Array) => Promise<LoadedModule>) {
    this.#load = load;
  }

  add(module: ModuleInfo, bytes: Uint8Array): void {
    this.#described.set(module, { bytes, loading: undefined });
  }

  /**
   * Loads a described module; undefined: its code is there. Rejects with a ServerError that has the reason; a load that
   * only lacked room may be tried again.
   */
  load(module: ModuleInfo): Promise<LoadedModule> | undefined {
    const described = this.#described.get(module);
    if (described === undefined) return undefined;
    return (described.loading ??= this.#loadOnce(module, described));
  }

  async #loadOnce(module: ModuleInfo, described: Described): Promise<LoadedModule> {
    try {
      const loaded = await this.#load(described.bytes);
      // A tag says who has written the description, not that it was right.
      if (!isDeepStrictEqual(loaded.info, module)) throw otherThanKept(module);
      this.#described.delete(module);
      return { info: module, code: loaded.code };
    } catch (error) {
      if (!(error instanceof ServerError) || error.kind !== 'invalid') described.loading = undefined;
      throw error;
    }
  }
}

function otherThanKept({ hash }: ModuleInfo): ServerError {
  return new ServerError(
    'invalid',
    'state-unfit',
    `the stored facts of its module did not equal the module, and have been corrected: start the server again: modules/${hash}.info`,
  );
}
