/**
 * Modules that canisters have, and those that they may get: loaded once for all, and let go when nobody has used them
 * for a while.
 *
 * Main thread; asks the module loader.
 */
import type { Clock } from '../../../kernel/index.ts';
import type { ModuleInfo } from '../index.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { DescribedModules } from './described-modules.ts';
import { IdleModules } from './idle-modules.ts';
import type { LoadedModule, ModuleLoader } from './module-loader.ts';

export type UsedLoader = Pick<ModuleLoader, 'prepare' | 'load' | 'describe' | 'storedIs' | 'forget' | 'close'>;

interface ModuleEvents {
  /** Resolves when code may run, before it is there for anybody; undefined: it may. */
  readonly readyFor: (code: InstrumentedCode) => Promise<void> | undefined;
  /** Called when the loader has forgotten a module; a holder of its description may install it all the same. */
  readonly release: (hash: string) => void;
}

export class PoolModules {
  readonly uses: IdleModules;
  readonly #loader: UsedLoader;
  readonly #readyFor: ModuleEvents['readyFor'];
  readonly #described: DescribedModules;
  readonly #loaded = new WeakMap<ModuleInfo, LoadedModule>();

  constructor(loader: UsedLoader, { readyFor, release }: ModuleEvents, clock: Clock, idleMs?: number) {
    this.#loader = loader;
    this.#readyFor = readyFor;
    this.#described = new DescribedModules((bytes) => this.#load(bytes));
    const forget = (hash: string): void => {
      void loader.forget(hash);
      release(hash);
    };
    this.uses = new IdleModules(forget, clock, idleMs);
  }

  async prepare(bytes: Uint8Array): Promise<ModuleInfo> {
    return this.#take(await this.#load(bytes));
  }

  async describe(bytes: Uint8Array): Promise<ModuleInfo> {
    const module = await this.#loader.describe(bytes);
    if (module === undefined) return await this.prepare(bytes);
    this.#described.add(module, bytes);
    return module;
  }

  async complete(module: ModuleInfo): Promise<void> {
    const loading = this.#described.load(module);
    if (loading !== undefined) this.#take(await loading);
  }

  async #load(bytes: Uint8Array): Promise<LoadedModule> {
    const loaded = await this.#loader.load(bytes);
    await this.#readyFor(loaded.code);
    return loaded;
  }

  #take(loaded: LoadedModule): ModuleInfo {
    this.#loaded.set(loaded.info, loaded);
    this.uses.seen(loaded.info.hash);
    return loaded.info;
  }

  keep({ hash }: ModuleInfo): Disposable {
    this.uses.take(hash);
    return { [Symbol.dispose]: () => this.uses.free(hash) };
  }

  codeOf(module: ModuleInfo): InstrumentedCode {
    const loaded = this.#loaded.get(module);
    if (loaded === undefined) throw new Error(`module ${module.hash} does not come from prepare`);
    return loaded.code;
  }

  close(): Promise<void> {
    this.uses.close();
    return this.#loader.close();
  }
}
