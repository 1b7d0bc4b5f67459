/**
 * Jobs in one worker thread, one after the other, for work that is too long for the main thread and too rare for
 * several.
 *
 * The worker is started by the first job and reused. A job that takes too long ends with its worker, as does one that
 * crashes it (out of memory); the next job gets a new worker. The worker keeps the process alive only while a job runs,
 * and a job is bounded in time. The script gives its work to `serveJobs`.
 */
import { Worker } from 'node:worker_threads';
import type { ServerError } from '../../kernel/index.ts';
import { errorOf } from './job-failure.ts';
import type { JobOutcome } from './serve-jobs.ts';

interface JobThreadOptions {
  /** Name of the thread in tools. */
  readonly name: string;
  readonly script: URL;
  /** The longest that one job may take. */
  readonly jobDeadlineMs: number;
  /** Jobs that wait besides the one that runs. */
  readonly waitingJobsMax: number;
  /** The worker's heap, without the bytes of its jobs. */
  readonly heapMb: number;
  readonly stackMb: number;
  /** Errors with which a job is rejected that was not done. */
  readonly refusals: {
    /** As many jobs wait as may. */
    readonly busy: () => ServerError;
    /** The job took longer than `jobDeadlineMs`. */
    readonly late: () => ServerError;
    /** The thread has ended under it; `what` says how. */
    readonly failed: (what: string, cause?: unknown) => ServerError;
    readonly closed: () => ServerError;
  };
}

interface Job<Request, Done> {
  readonly request: Request;
  readonly transfer: readonly ArrayBuffer[];
  readonly resolve: (done: Done) => void;
  readonly reject: (error: Error) => void;
}

export class JobThread<Request, Done> {
  readonly #options: JobThreadOptions;
  readonly #waiting: Job<Request, Done>[] = [];
  #worker: Worker | undefined;
  #running: Job<Request, Done> | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: JobThreadOptions) {
    this.#options = options;
  }

  /** Returns the error with which a job would be refused now, for callers that have to copy much for a job. */
  refusal(): ServerError | undefined {
    const { refusals, waitingJobsMax } = this.#options;
    if (this.#isClosed) return refusals.closed();
    return this.#waiting.length >= waitingJobsMax ? refusals.busy() : undefined;
  }

  /**
   * Returns the worker's result; rejects with the ServerError that its work threw. `transfer` is handed over to the
   * worker.
   */
  run(request: Request, transfer: readonly ArrayBuffer[] = []): Promise<Done> {
    const refusal = this.refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ request, transfer, resolve, reject });
      this.#startNext();
    });
  }

  /** Ends the worker; jobs that have not ended are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const { closed } = this.#options.refusals;
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
    const { jobDeadlineMs, refusals } = this.#options;
    this.#deadline = setTimeout(() => this.#abandon(worker, refusals.late()), jobDeadlineMs);
    worker.postMessage(job.request, job.transfer);
  }

  #startWorker(): Worker {
    const { name, script, heapMb, stackMb, refusals } = this.#options;
    const worker = new Worker(script, {
      name,
      // Not the process's own flags: some of them make no sense in a thread, and none is needed.
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: heapMb, stackSizeMb: stackMb },
    });
    worker.unref();
    worker.on('message', (outcome: JobOutcome<Done>) => {
      worker.unref();
      this.#settle((job) => {
        if ('done' in outcome) job.resolve(outcome.done);
        else job.reject(errorOf(name, outcome));
      });
      this.#startNext();
    });
    worker.on('error', (cause) => this.#abandon(worker, refusals.failed('has failed', cause)));
    worker.on('exit', (code) => this.#abandon(worker, refusals.failed(`has ended with code ${code}`)));
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

  #settle(end: (job: Job<Request, Done>) => void): void {
    const job = this.#running;
    this.#running = undefined;
    clearTimeout(this.#deadline);
    if (job !== undefined) end(job);
  }
}
