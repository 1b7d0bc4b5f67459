/**
 * The main thread's end of the thread that reads folders (`assets-thread.ts`).
 *
 * The first folder starts the thread, which then lives as long as the server, since it knows the hashes of the files.
 * It keeps the process alive only while it works. A thread that ends under its work is replaced by the next work.
 */
import { Worker } from 'node:worker_threads';
import { ServerError } from '../../kernel/index.ts';
import { errorOf, failureOf } from '../threads/index.ts';
import type { AssetActor, AssetChanges, AssetFolders, AssetSource } from './asset-folders.ts';
import { METHODS_NEEDED, SEVERAL_CHUNKS } from './asset-methods.ts';
import type { CallAnswer, FolderWork, FromThread, ToThread } from './thread-messages.ts';

/** Heap of the thread: 200,000 files with long names take half of it. */
const HEAP_MB = 1024;

interface Job {
  readonly actor: AssetActor | undefined;
  readonly resolve: (done: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Each method does what the one of `AssetFolders` with the same name says. */
export class ThreadedFolders implements AssetFolders {
  readonly #script: URL;
  readonly #heapMb: number;
  #worker: Worker | undefined;
  readonly #jobs = new Map<number, Job>();
  #lastJob = 0;

  constructor(script = new URL('./assets-thread.ts', import.meta.url), heapMb = HEAP_MB) {
    this.#script = script;
    this.#heapMb = heapMb;
  }

  async check(source: AssetSource): Promise<void> {
    await this.#run({ kind: 'check', source });
  }

  async foldersOf(source: AssetSource): Promise<readonly string[]> {
    return (await this.#run({ kind: 'foldersOf', source })) as readonly string[];
  }

  async deploy(source: AssetSource, actor: AssetActor): Promise<AssetChanges> {
    const methods = [...METHODS_NEEDED, SEVERAL_CHUNKS].filter((method) => actor.has(method));
    return (await this.#run({ kind: 'deploy', source, name: actor.name, methods }, actor)) as AssetChanges;
  }

  #run(work: FolderWork, actor?: AssetActor): Promise<unknown> {
    const worker = (this.#worker ??= this.#start());
    const job = ++this.#lastJob;
    return new Promise((resolve, reject) => {
      this.#jobs.set(job, { actor, resolve, reject });
      worker.ref();
      worker.postMessage({ job, work } satisfies ToThread);
    });
  }

  #start(): Worker {
    const worker = new Worker(this.#script, {
      name: 'assets',
      // Not the process's own flags: some of them make no sense in a thread, and none is needed.
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: this.#heapMb },
    });
    worker.unref();
    worker.on('message', (message: FromThread) => this.#take(worker, message));
    worker.on('error', (cause) => this.#abandon(worker, 'has failed', cause));
    worker.on('exit', (code) => this.#abandon(worker, `has ended with code ${code}`));
    return worker;
  }

  #take(worker: Worker, message: FromThread): void {
    const job = this.#jobs.get(message.job);
    if (job === undefined) return;
    if ('call' in message) {
      void this.#call(job, message).then(([answer, transferred]) =>
        worker.postMessage({ job: message.job, call: message.call, answer } satisfies ToThread, transferred),
      );
      return;
    }
    this.#jobs.delete(message.job);
    if (this.#jobs.size === 0) worker.unref();
    if ('done' in message) job.resolve(message.done);
    else job.reject(errorOf('assets', message.failure));
  }

  /** Calls the actor of a job; resolves to its answer, and the buffers that are handed over with it. */
  async #call(
    { actor }: Job,
    { kind, method, argument }: Extract<FromThread, { readonly call: number }>,
  ): Promise<[CallAnswer, ArrayBuffer[]]> {
    try {
      const outcome = await actor?.call(kind, method, argument);
      if (outcome === undefined) throw new Error(`a job without an actor calls ${method}`);
      if (outcome.kind !== 'reply') return [{ reply: { kind: outcome.kind, message: outcome.message } }, []];
      const data = new Uint8Array(outcome.data);
      return [{ reply: { kind: 'reply', data } }, [data.buffer]];
    } catch (error) {
      return [{ failure: failureOf(error) }, []];
    }
  }

  /** Gives up a worker with its jobs; the next job gets a new one. */
  #abandon(worker: Worker, what: string, cause?: unknown): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    const text = `the thread that reads folders ${what}: the sites are as they were; deploy again`;
    for (const { reject } of this.#jobs.values())
      reject(new ServerError('unavailable', 'assets-failed', text, { cause }));
    this.#jobs.clear();
  }
}
