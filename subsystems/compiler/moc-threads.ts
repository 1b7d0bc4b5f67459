import { getCompileCacheDir } from 'node:module';
import { availableParallelism, totalmem } from 'node:os';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { messageOf, ServerError } from '../../kernel/index.ts';
import type { MocRequest, MocResponse } from './moc-protocol.ts';

export interface MocThreadsOptions {
  /** How long one compilation may take. */
  readonly timeLimitMs: number;
  /** How long an idle thread is kept for the next source file. */
  readonly idleMs: number;
  readonly threadsMax: number;
}

export const MOC_THREADS_DEFAULTS: MocThreadsOptions = {
  // Ordinary actors take one to three seconds, the largest known projects under a minute.
  timeLimitMs: 5 * 60_000,
  // Long enough for a start that alternates between compiling and installing; an idle thread holds some 200 MB.
  idleMs: 2000,
  // Compiling an actor of a few hundred lines takes up to 0.8 GB for some seconds.
  threadsMax: totalmem() < 4e9 ? 1 : Math.min(2, availableParallelism()),
};

/** Ordinary projects overflow V8's default stack of 1 MB: the compiler is written in recursive OCaml. */
export const MOC_STACK_MB = 64;
const RESOURCE_LIMITS = {
  stackSizeMb: MOC_STACK_MB,
  // A source file cannot take the server down with it: past this the thread ends and the others live.
  maxOldGenerationSizeMb: 3072,
  // The compiler allocates a lot that dies young; with V8's default a third of the time went into collecting it.
  maxYoungGenerationSizeMb: 96,
};

interface Job {
  readonly request: MocRequest;
  readonly resolve: (response: MocResponse) => void;
  readonly reject: (error: Error) => void;
}
interface Thread {
  readonly worker: Worker;
  job: Job | undefined;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Runs compilations on threads that are started when there is work and end when there is none for a while. An idle
 * thread never keeps the process alive.
 */
export class MocThreads {
  readonly #options: MocThreadsOptions;
  readonly #threads = new Set<Thread>();
  readonly #waiting: Job[] = [];
  #isClosed = false;

  constructor(options: MocThreadsOptions) {
    this.#options = options;
  }

  run(request: MocRequest): Promise<MocResponse> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) {
        reject(closedError());
        return;
      }
      this.#waiting.push({ request, resolve, reject });
      this.#dispatch();
    });
  }

  /** Ends the threads; what is being compiled is given up. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const job of this.#waiting.splice(0)) job.reject(closedError());
    await Promise.all([...this.#threads].map((thread) => this.#end(thread, closedError())));
  }

  #dispatch(): void {
    while (this.#waiting.length > 0) {
      const thread = this.#freeThread();
      const job = thread === undefined ? undefined : this.#waiting.shift();
      if (thread === undefined || job === undefined) return;
      this.#begin(thread, job);
    }
  }

  #freeThread(): Thread | undefined {
    for (const thread of this.#threads) if (thread.job === undefined) return thread;
    return this.#threads.size < this.#options.threadsMax ? this.#startThread() : undefined;
  }

  #startThread(): Thread {
    const worker = new Worker(new URL('./moc-thread.ts', import.meta.url), {
      name: 'motoko',
      resourceLimits: RESOURCE_LIMITS,
      execArgv: [],
      env: compileCacheEnvironment(),
      stdin: false,
    });
    const thread: Thread = { worker, job: undefined, timer: undefined };
    this.#threads.add(thread);
    worker.on('message', (response: MocResponse) => this.#finish(thread, response));
    worker.on('error', (error: unknown) => void this.#end(thread, crashError(error)));
    worker.on('exit', (code) => void this.#end(thread, crashError(new Error(`its thread ended with code ${code}`))));
    return thread;
  }

  #begin(thread: Thread, job: Job): void {
    clearTimeout(thread.timer);
    thread.job = job;
    thread.worker.ref();
    const { timeLimitMs } = this.#options;
    thread.timer = setTimeout(() => {
      void this.#end(thread, lateError(job.request, timeLimitMs));
    }, timeLimitMs);
    thread.worker.postMessage(job.request);
  }

  #finish(thread: Thread, response: MocResponse): void {
    clearTimeout(thread.timer);
    const { job } = thread;
    thread.job = undefined;
    if (response.kind === 'crashed') {
      // What overflowed or failed once may have left the thread's heap large: start afresh.
      void this.#end(thread, closedError());
    } else {
      thread.worker.unref();
      thread.timer = setTimeout(() => void this.#end(thread, closedError()), this.#options.idleMs);
      thread.timer.unref();
    }
    job?.resolve(response);
    this.#dispatch();
  }

  async #end(thread: Thread, reason: Error): Promise<void> {
    clearTimeout(thread.timer);
    const isFirst = this.#threads.delete(thread);
    const { job } = thread;
    thread.job = undefined;
    job?.reject(reason);
    if (!isFirst) return;
    if (!this.#isClosed) this.#dispatch();
    await thread.worker.terminate();
  }
}

/** All that the thread gets to see of the environment: where Node keeps compiled code. */
function compileCacheEnvironment(): Readonly<Record<string, string>> {
  const directory = getCompileCacheDir();
  // Node adds a folder for its version, and for the flags of V8 as they are then.
  return directory === undefined ? {} : { NODE_COMPILE_CACHE: dirname(directory) };
}

function lateError(request: MocRequest, timeLimitMs: number): ServerError {
  const late = `took longer than ${timeLimitMs} ms and was stopped`;
  const elsewhere = 'split the actor, or compile it elsewhere and name the module with `wasm`';
  // The third power of how many types lead from one to the next: benchmarks/README.md.
  let message = `comparing the stable signatures ${late}; this happens where hundreds of types lead from one to the next`;
  if (request.kind === 'compile') message = `compiling ${request.main} ${late}; ${elsewhere}`;
  if (request.kind === 'imports') message = `reading imports of ${request.texts.length} files ${late}; ${elsewhere}`;
  return new ServerError('invalid', 'compile-timeout', message);
}

function closedError(): ServerError {
  return new ServerError('unavailable', 'compiler-closed', 'the server is stopping: nothing is compiled any more');
}

function crashError(cause: unknown): ServerError {
  const isMemory = cause instanceof Error && 'code' in cause && cause.code === 'ERR_WORKER_OUT_OF_MEMORY';
  const message = isMemory
    ? `the compiler needed more than ${RESOURCE_LIMITS.maxOldGenerationSizeMb} MB of memory; split the actor, or compile it elsewhere and name the module with \`wasm\``
    : `the compiler stopped: ${messageOf(cause)}`;
  return new ServerError('invalid', 'compiler-crashed', message, { cause });
}
