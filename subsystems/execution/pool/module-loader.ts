/**
 * The main thread's end of the module worker: bytes from outside in, checked and compiled modules out.
 *
 * Hashing, unpacking, checking and instrumenting a module takes up to a second, and its author may be hostile: all of
 * it happens in a thread of its own, one module at a time, with a time limit that ends the thread. A module that was
 * seen before is found by its hash and not processed again. If an earlier process has seen it, its instrumented code is
 * found on disk (code-cache.ts), as long as the module is in use or in the state.
 *
 * Main thread: touches the worker that it starts, and no canister.
 */
import { Worker } from 'node:worker_threads';
import { type ErrorKind, ServerError } from '../../../kernel/index.ts';
import { copyInSlices } from '../../bytes/index.ts';
import { keepOnlyCode, removeCode } from '../wire/code-cache.ts';
import type { ModuleInfo } from '../index.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { TypeBudget } from '../wire/type-budget.ts';

/** A module ready to run: the host's facts about it, and the code for executors. */
export interface LoadedModule {
  readonly info: ModuleInfo;
  readonly code: InstrumentedCode;
}

/** Answer of the worker to the bytes of one module. */
export type ModuleAnswer =
  | {
      readonly kind: 'loaded';
      readonly module: LoadedModule;
      readonly types: Float64Array;
      /** Reason why the next start has to instrument the module again; undefined: it was kept. */
      readonly notKept: string | undefined;
    }
  /** `info` is undefined if nothing is kept of the module. */
  | { readonly kind: 'described'; readonly info: ModuleInfo | undefined }
  /** The worker has sent this module before. */
  | { readonly kind: 'known'; readonly hash: string }
  | {
      readonly kind: 'refused';
      /** Fingerprints of the types that V8 has seen; undefined: unknown. */
      readonly types: Float64Array | undefined;
      readonly error: { readonly kind: ErrorKind; readonly code: string; readonly message: string };
    };

export type ModuleRequest =
  | { readonly kind: 'load' | 'describe'; readonly bytes: Uint8Array; readonly wasmStackBytes: number }
  | { readonly kind: 'forget'; readonly hash: string };

export interface ModuleWorkerData {
  readonly cacheDirectory: string | undefined;
  readonly sharedCacheDirectory: string | undefined;
}

interface ModuleLoaderOptions {
  readonly wasmStackBytes: number;
  /** Directory in which instrumented modules outlive the process; undefined: they do not. */
  readonly cacheDirectory?: string | undefined;
  /** Directory of instrumented modules of all servers of this user; looked at behind the first. */
  readonly sharedCacheDirectory?: string | undefined;
  /** Called once with the reason if modules cannot be kept there. */
  readonly onCacheFailure?: (reason: string) => void;
  readonly types?: TypeBudget;
  /** Time for which the worker is kept without work. */
  readonly idleMs?: number;
}

/** A module that takes longer to check is no program but an attack; the largest real ones take a second. */
const LOAD_DEADLINE_MS = 60_000;
/** An idle worker would hold some 50 MB for nothing. */
const IDLE_MS = 5_000;
const OLD_GENERATION_MB = 2048;

export class ModuleLoader {
  readonly #options: ModuleLoaderOptions;
  readonly #loaded = new Map<string, LoadedModule>();
  /** Hashes of modules that the next start will need. */
  readonly #stored = new Set<string>();
  readonly #types: TypeBudget;
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;
  #isLoading = false;
  #hasToldFailure = false;
  /** Settles before the next load starts: one module at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: ModuleLoaderOptions) {
    this.#options = options;
    this.#types = options.types ?? new TypeBudget();
  }

  /** Starts the worker, or lets it stay, for modules that are about to come. */
  prepare(): void {
    if (this.#isLoading) return;
    if (this.#worker === undefined) {
      const worker = this.#start();
      worker.on('error', () => undefined).on('exit', () => this.#dropWorker(worker));
      this.#worker = worker;
    }
    // The timer of a worker that has died may still run. At a start all modules on disk stay: nobody has asked for any
    // of them yet.
    if (this.#idle !== undefined) this.#idle.refresh();
    else this.#idle = setTimeout(() => void this.close(), this.#options.idleMs ?? IDLE_MS).unref();
  }

  /** Loads a module. Rejects with a ServerError `invalid` that says what is wrong with the module. */
  load(bytes: Uint8Array): Promise<LoadedModule> {
    const loading = this.#last.then(() => this.#load(bytes));
    this.#last = loading.catch(() => undefined);
    return loading;
  }

  /** Reads the facts that an earlier process kept of these bytes, without their code; undefined: there are none. */
  describe(bytes: Uint8Array): Promise<ModuleInfo | undefined> {
    const describing = this.#last.then(async () => {
      const answer = await this.#work('describe', bytes);
      return answer.kind === 'described' ? answer.info : undefined;
    });
    this.#last = describing.catch(() => undefined);
    return describing;
  }

  /** Lets an unused module go, after the loads asked for so far: each side must know what the other one does. */
  forget(hash: string): Promise<void> {
    const forgetting = this.#last.then(async () => {
      this.#loaded.delete(hash);
      this.#worker?.postMessage({ kind: 'forget', hash } satisfies ModuleRequest);
      await this.#removeUnused(hash);
    });
    this.#last = forgetting;
    return forgetting;
  }

  /** Notes whether the next start will need the module. If so, its files on disk stay, even if nobody uses it now. */
  storedIs(hash: string, isStored: boolean): void {
    if (isStored) this.#stored.add(hash);
    else if (this.#stored.delete(hash)) this.#last = this.#last.then(() => this.#removeUnused(hash));
  }

  async #removeUnused(hash: string): Promise<void> {
    const { cacheDirectory } = this.#options;
    if (cacheDirectory === undefined || this.#loaded.has(hash) || this.#stored.has(hash)) return;
    await removeCode(cacheDirectory, hash);
  }

  /** Number of modules that the loader keeps. */
  get count(): number {
    return this.#loaded.size;
  }

  async close(): Promise<void> {
    this.#stay();
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }

  async #load(bytes: Uint8Array): Promise<LoadedModule> {
    if (!this.#types.hasRoom) throw tooManyTypes(this.#types.used);
    const answer = await this.#work('load', bytes);
    switch (answer.kind) {
      case 'refused':
        if (answer.types === undefined) this.#types.addUnknown();
        else this.#types.add(answer.types);
        throw new ServerError(answer.error.kind, answer.error.code, answer.error.message);
      case 'known': {
        const known = this.#loaded.get(answer.hash);
        if (known === undefined) throw new Error(`module ${answer.hash} was forgotten by one side only`);
        return known;
      }
      case 'loaded': {
        this.#types.add(answer.types);
        if (answer.notKept !== undefined) this.#tellOnce(answer.notKept);
        // A worker started anew does not know what its predecessor sent: the first object is kept.
        const first = this.#loaded.get(answer.module.info.hash) ?? answer.module;
        this.#loaded.set(first.info.hash, first);
        return first;
      }
      case 'described':
        throw new Error('a module was described instead of loaded');
    }
  }

  async #work(kind: 'load' | 'describe', bytes: Uint8Array): Promise<ModuleAnswer> {
    this.#stay();
    this.#isLoading = true;
    try {
      // The caller may need its bytes again, and a transfer takes them away.
      return await this.#ask(kind, await copyInSlices(bytes));
    } finally {
      this.#isLoading = false;
      this.#idle = setTimeout(() => this.#rest(), this.#options.idleMs ?? IDLE_MS).unref();
    }
  }

  /** Stops the timer that ends an idle worker. */
  #stay(): void {
    clearTimeout(this.#idle);
    this.#idle = undefined;
  }

  /** Ends an idle worker and removes unused files: all modules that the start needs are loaded by now. */
  #rest(): void {
    const { cacheDirectory } = this.#options;
    void this.close();
    if (cacheDirectory === undefined) return;
    this.#last = this.#last.then(() =>
      keepOnlyCode(cacheDirectory, new Set([...this.#stored, ...this.#loaded.keys()])),
    );
  }

  #tellOnce(reason: string): void {
    if (this.#hasToldFailure) return;
    this.#hasToldFailure = true;
    this.#options.onCacheFailure?.(reason);
  }

  #ask(kind: 'load' | 'describe', bytes: Uint8Array<ArrayBuffer>): Promise<ModuleAnswer> {
    const worker = (this.#worker ??= this.#start());
    return new Promise((resolve) => {
      const settle = (answer: ModuleAnswer): void => {
        clearTimeout(deadline);
        worker.removeAllListeners('message').removeAllListeners('error').removeAllListeners('exit');
        // A thread that dies later, while idle, is replaced at the next load.
        worker.on('error', () => undefined).on('exit', () => this.#dropWorker(worker));
        resolve(answer);
      };
      const giveUp = (reason: string): void => {
        // The module is not at fault if its thread was ended from here.
        const isClosed = this.#worker !== worker;
        this.#dropWorker(worker);
        void worker.terminate();
        settle({
          kind: 'refused',
          types: undefined,
          error: isClosed ? CLOSED : { kind: 'invalid', code: 'module-too-costly', message: reason },
        });
      };
      const deadline = setTimeout(
        () => giveUp(`checking the module took longer than ${LOAD_DEADLINE_MS / 1000} s`),
        LOAD_DEADLINE_MS,
      );
      worker.removeAllListeners('error').removeAllListeners('exit');
      worker.once('message', (answer: ModuleAnswer) => settle(answer));
      worker.once('error', (error: unknown) =>
        giveUp(`checking the module failed: ${error instanceof Error ? error.message : String(error)}`),
      );
      worker.once('exit', () => giveUp('checking the module ended its thread'));
      const { wasmStackBytes } = this.#options;
      worker.postMessage({ kind, bytes, wasmStackBytes } satisfies ModuleRequest, [bytes.buffer]);
    });
  }

  #start(): Worker {
    const { cacheDirectory, sharedCacheDirectory } = this.#options;
    const worker = new Worker(new URL('../thread/module-worker.ts', import.meta.url), {
      name: 'modules',
      workerData: { cacheDirectory, sharedCacheDirectory } satisfies ModuleWorkerData,
      resourceLimits: { maxOldGenerationSizeMb: OLD_GENERATION_MB, stackSizeMb: 16 },
    });
    worker.unref();
    return worker;
  }

  #dropWorker(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined;
  }
}

const CLOSED = new ServerError(
  'unavailable',
  'modules-closed',
  'the server is stopping: no module is prepared any more',
);

function tooManyTypes(used: number): ServerError {
  return new ServerError(
    'unavailable',
    'types-exhausted',
    `the modules that this process has compiled had about ${used} different function types, and V8 may have no room for more: restart the server`,
  );
}
