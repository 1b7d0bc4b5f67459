/**
 * Module worker: looks for instrumented modules in the state directory, and then in the user's cache folder, which
 * servers without a state directory use alone. Touches files of both.
 */
import { codeVersion, type InstrumentedModule } from '../../instrument/index.ts';
import type { ModuleInfo } from '../index.ts';
import type { ModuleWorkerData } from '../pool/module-loader.ts';
import { CodeCache, pruneCode } from '../wire/code-cache.ts';

export class CodeCaches {
  readonly #own: CodeCache | undefined;
  readonly #shared: CodeCache | undefined;
  readonly #sharedDirectory: string | undefined;

  constructor({ cacheDirectory, sharedCacheDirectory }: ModuleWorkerData) {
    // A clone hashes its sources for it.
    const version = (cacheDirectory ?? sharedCacheDirectory) === undefined ? '' : codeVersion();
    const at = (directory: string | undefined): CodeCache | undefined =>
      directory === undefined ? undefined : new CodeCache(directory, version);
    this.#own = at(cacheDirectory);
    this.#shared = at(sharedCacheDirectory);
    this.#sharedDirectory = sharedCacheDirectory;
  }

  /**
   * Returns the instrumented module of the upload with this hash; undefined: none can be trusted. A module that only
   * the user's cache has is kept in the state directory, too; `notKept` is called with the reason if it could not be.
   */
  read(hash: string, notKept: (reason: unknown) => void): InstrumentedModule | undefined {
    const own = this.#own?.read(hash);
    if (own !== undefined) return own;
    const shared = this.#shared?.read(hash);
    if (shared === undefined) return undefined;
    this.#shared?.touch(hash);
    const reason = this.#own?.write(hash, shared);
    if (reason !== undefined) notKept(reason);
    return shared;
  }

  /** Returns the reason why the state directory did not keep the module, or undefined. */
  write(hash: string, module: InstrumentedModule): unknown {
    const directory = this.#sharedDirectory;
    if (directory !== undefined && this.#shared?.write(hash, module) === undefined)
      void pruneCode(directory).catch(() => undefined);
    return this.#own?.write(hash, module);
  }

  /** Returns the facts of the upload that the state directory has; undefined: there are none that can be trusted. */
  readInfo(hash: string): ModuleInfo | undefined {
    return this.#own?.readInfo(hash);
  }

  /** Returns the reason why the state directory did not keep the facts, or undefined. */
  writeInfo(info: ModuleInfo): unknown {
    return this.#own?.writeInfo(info);
  }
}
