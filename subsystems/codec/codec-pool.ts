import { Worker } from 'node:worker_threads';
import { ServerError } from '../../kernel/index.ts';
import type { CodecRequest, CodecResponse } from './codec-job.ts';

/*
 * Conversions of large bodies, done in a worker thread one after the other.
 *
 * The worker is started by the first job and reused. A job that takes too long ends with its worker, as does one that
 * crashes it (out of memory); the next job gets a new worker. The worker keeps the process alive only while a job runs,
 * and a job is bounded in time.
 */

/** The longest that one conversion may take; 64 MiB take about two seconds. */
const JOB_DEADLINE_MS = 20_000;
/** Jobs that wait; each holds a body of up to 64 MiB. */
const WAITING_JOBS_MAX = 32;
/** The worker's heap without the bodies themselves; a conversion hardly uses any. */
const WORKER_HEAP_MB = 256;

interface Job {
  readonly request: CodecRequest;
  readonly resolve: (bytes: Uint8Array) => void;
  readonly reject: (error: Error) => void;
}

export interface CodecPoolOptions {
  readonly jobDeadlineMs?: number;
}

export class CodecPool {
  readonly #jobDeadlineMs: number;
  readonly #waiting: Job[] = [];
  #worker: Worker | undefined;
  #running: Job | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: CodecPoolOptions = {}) {
    this.#jobDeadlineMs = options.jobDeadlineMs ?? JOB_DEADLINE_MS;
  }

  /** Converts in the worker; rejects with the ServerError that the conversion itself would throw. */
  run(request: CodecRequest): Promise<Uint8Array> {
    if (this.#isClosed) return Promise.reject(closed());
    if (this.#waiting.length >= WAITING_JOBS_MAX) {
      return Promise.reject(
        new ServerError(
          'unavailable',
          'codec-busy',
          `${WAITING_JOBS_MAX} large bodies are waiting to be converted; try again later`,
        ),
      );
    }
    // A view may be part of a larger buffer, which must not be handed over with it.
    const bytes = new Uint8Array(request.bytes);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ request: { ...request, bytes }, resolve, reject });
      this.#startNext();
    });
  }

  /** Ends the worker; jobs that have not ended are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const worker = this.#worker;
    this.#settle((job) => job.reject(closed()));
    for (const job of this.#waiting.splice(0)) job.reject(closed());
    this.#worker = undefined;
    await worker?.terminate();
  }

  #startNext(): void {
    if (this.#running !== undefined) return;
    const job = this.#waiting.shift();
    if (job === undefined) return;
    this.#running = job;
    const worker = (this.#worker ??= this.#startWorker());
    worker.ref();
    this.#deadline = setTimeout(() => {
      this.#abandon(
        worker,
        new ServerError(
          'invalid',
          'codec-timeout',
          `the conversion took longer than ${this.#jobDeadlineMs} ms: send less at once`,
        ),
      );
    }, this.#jobDeadlineMs);
    const { bytes } = job.request;
    worker.postMessage(job.request, bytes.buffer instanceof ArrayBuffer ? [bytes.buffer] : []);
  }

  #startWorker(): Worker {
    const worker = new Worker(new URL('./codec-worker.ts', import.meta.url), {
      name: 'codec',
      // Not the process's own flags: some of them make no sense in a thread, and none is needed.
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: WORKER_HEAP_MB, stackSizeMb: 4 },
    });
    worker.unref();
    worker.on('message', (response: CodecResponse) => {
      worker.unref();
      this.#settle((job) => finish(job, response));
      this.#startNext();
    });
    worker.on('error', (cause) => {
      this.#abandon(
        worker,
        new ServerError('unavailable', 'codec-failed', 'the codec thread has failed; try again', { cause }),
      );
    });
    worker.on('exit', (code) => {
      this.#abandon(
        worker,
        new ServerError('unavailable', 'codec-failed', `the codec thread has ended with code ${code}; try again`),
      );
    });
    return worker;
  }

  /** Gives up a worker with its job; the next job gets a new one. */
  #abandon(worker: Worker, error: ServerError): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    worker.unref();
    void worker.terminate();
    this.#settle((job) => job.reject(error));
    this.#startNext();
  }

  #settle(end: (job: Job) => void): void {
    const job = this.#running;
    this.#running = undefined;
    clearTimeout(this.#deadline);
    if (job !== undefined) end(job);
  }
}

function finish(job: Job, response: CodecResponse): void {
  if ('bytes' in response) job.resolve(response.bytes);
  else if ('code' in response) job.reject(new ServerError('invalid', response.code, response.message));
  else job.reject(new Error(`bug in the codec thread: ${response.bug}`));
}

function closed(): ServerError {
  return new ServerError('unavailable', 'codec-closed', 'the server is stopping: no body is converted any more');
}
