/**
 * Modules of which the main thread knows what they are, and nobody has their code yet: what is known comes from an earlier process
 * (code-cache.ts), and their code is made when the first canister of theirs wakes. By then each is loaded as any other
 * module is: decoded, validated, its instrumented code looked up under its tag or made, compiled. So nothing runs that has not
 * passed in this process what an upload has to pass.
 *
 * Main thread; asks the module loader.
 */
import { isDeepStrictEqual } from 'node:util';
import { ServerError } from '../../../kernel/index.ts';
import type { ModuleInfo } from '../index.ts';
import type { LoadedModule } from './module-loader.ts';

interface Described {
  readonly bytes: Uint8Array;
  /** While it is being loaded; for good when it was refused. */
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

  /** Undefined: its code is there. Rejects with the ServerError why it cannot be; what only lacks room now may be tried again. */
  load(module: ModuleInfo): Promise<LoadedModule> | undefined {
    const described = this.#described.get(module);
    if (described === undefined) return undefined;
    return (described.loading ??= this.#loadOnce(module, described));
  }

  async #loadOnce(module: ModuleInfo, described: Described): Promise<LoadedModule> {
    try {
      const loaded = await this.#load(described.bytes);
      // A tag says who has written it, not that it was right.
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
    `what was kept of its module is not what the module has, and has been put right: start the server again: modules/${hash}.info`,
  );
}
