import { type ChildProcess, fork } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { availableParallelism, totalmem } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { MOC_MEMORY_MB, type MocReply, type MocRequest, type MocResponse } from './moc-protocol.ts';
import { lowerPriority } from './process-priority.ts';

export interface MocProcessesOptions {
  /** Milliseconds that one compilation may take. */
  readonly timeLimitMs: number;
  /**
   * Milliseconds that a new process has besides, until it has loaded the compiler and begins to compare. Default: 0.
   */
  readonly startMsMax?: number;
  /** Milliseconds that an idle process is kept for the next source file. */
  readonly idleMs: number;
  /**
   * Milliseconds that an idle process of lowered priority is kept at most, even where others stay longer: later work
   * is to find processes that are not lowered. Default: two seconds.
   */
  readonly loweredIdleMsMax?: number;
  readonly processesMax: number;
  /**
   * True if a process keeps the memory that a compilation has needed for the next one, for two minutes: some 650 MB.
   * Taking it from the system again, page by page, is a tenth of a compilation.
   */
  readonly keepsMemory: boolean;
}

export const MOC_PROCESSES_DEFAULTS: MocProcessesOptions = {
  // Ordinary actors take one to three seconds, the largest known projects under a minute.
  timeLimitMs: 5 * 60_000,
  // Long enough for a start that alternates between compiling and installing; an idle process holds some 200 MB.
  idleMs: 2000,
  // Compiling an actor of a few hundred lines takes up to 0.8 GB for some seconds.
  processesMax: totalmem() < 4e9 ? 1 : Math.min(2, availableParallelism()),
  keepsMemory: false,
};

/**
 * V8 is to collect the old generation first when it has 768 MB, which most compilations never reach, and to collect
 * type feedback from a function's first call on: an eighth of a compilation (ADR 50).
 */
const V8_FLAGS = ['--initial-heap-size=768', '--no-lazy-feedback-allocation'];
/** Node opens no debugger to every user of this machine for a signal. */
const NODE_FLAGS = ['--disable-sigusr1', ...V8_FLAGS];
/** V8 gives idle memory back after seconds otherwise. */
const KEEPS_MEMORY = ['--no-memory-reducer', '--memory-pool-timeout=120'];
/**
 * Niceness of the smaller of two compilations: the larger one uses more than one processor while V8, in threads of
 * its own, compiles the compiler's code.
 */
const SMALLER_NICENESS = 10;

interface Job {
  readonly request: MocRequest;
  readonly resolve: (response: MocResponse) => void;
  readonly reject: (error: Error) => void;
}
interface MocProcess {
  readonly child: ChildProcess;
  job: Job | undefined;
  /** True if the process has done a job: if it dies now, that may have happened before it saw the next one. */
  hasAnswered: boolean;
  /**
   * True if the process has only what others leave of the processors, until it ends: only root could raise its
   * priority again.
   */
  isLowered: boolean;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Runs compilations in processes that are started when there is work and end when there is none for a while. Their
 * memory ends with them: V8 and the C library would keep what a thread has left behind for the rest of the server's
 * life (ADR 50). An idle process never keeps the server alive, and no process outlives it.
 */
export class MocProcesses {
  readonly #options: MocProcessesOptions;
  readonly #processes = new Set<MocProcess>();
  readonly #waiting: Job[] = [];
  #isClosed = false;

  constructor(options: MocProcessesOptions) {
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

  /** Ends the processes; what is being compiled is given up. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const job of this.#waiting.splice(0)) job.reject(closedError());
    await Promise.all([...this.#processes].map((moc) => this.#end(moc, closedError())));
  }

  #dispatch(): void {
    while (this.#waiting.length > 0) {
      let moc;
      try {
        moc = this.#free();
      } catch (error) {
        this.#waiting.shift()?.reject(notStartedError(messageOf(error)));
        continue;
      }
      const job = moc === undefined ? undefined : this.#waiting.shift();
      if (moc === undefined || job === undefined) return;
      this.#begin(moc, job);
    }
  }

  /**
   * Returns a process without a job, whose priority is not lowered if possible, or undefined if there are as many
   * processes as there may be. Throws when none can be started.
   */
  #free(): MocProcess | undefined {
    const free = [...this.#processes].filter(({ job }) => job === undefined);
    const unlowered = free.find(({ isLowered }) => !isLowered);
    if (unlowered !== undefined) return unlowered;
    return this.#processes.size < this.#options.processesMax ? this.#start() : free[0];
  }

  #start(): MocProcess {
    const child = fork(fileURLToPath(new URL('./moc-process.ts', import.meta.url)), {
      execArgv: this.#options.keepsMemory ? [...NODE_FLAGS, ...KEEPS_MEMORY] : NODE_FLAGS,
      env: compileCacheEnvironment(),
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const moc: MocProcess = { child, job: undefined, hasAnswered: false, isLowered: false, timer: undefined };
    this.#processes.add(moc);
    child.on('message', (reply: MocReply) => {
      if ('failure' in reply) void this.#end(moc, failureError(reply));
      else if (reply.response !== 'begun') this.#finish(moc, reply.response);
      else if (moc.job !== undefined) this.#limit(moc, moc.job, 0);
    });
    child.on('error', (error) => {
      if (child.pid === undefined) void this.#end(moc, notStartedError(messageOf(error)));
      else this.#died(moc, messageOf(error));
    });
    child.on('exit', (code, signal) => {
      this.#died(moc, `its process ended ${signal === null ? `with code ${code}` : `by ${signal}`}`);
    });
    return moc;
  }

  #begin(moc: MocProcess, job: Job): void {
    moc.job = job;
    refer(moc, true);
    this.#limit(moc, job, moc.hasAnswered ? 0 : (this.#options.startMsMax ?? 0));
    // One that could not be started says so in a moment, and has no way to send.
    if (moc.child.pid !== undefined) moc.child.send(job.request);
    if (job.request.kind === 'compile') this.#lowerSmaller();
  }

  /** Gives the job its time from now on. */
  #limit(moc: MocProcess, { request }: Job, startMsMax: number): void {
    const { timeLimitMs } = this.#options;
    clearTimeout(moc.timer);
    moc.timer = setTimeout(() => {
      void this.#end(moc, lateError(request, timeLimitMs));
    }, timeLimitMs + startMsMax);
  }

  /**
   * Lowers the priority of the smaller of two compilations, so that the larger one, which the server waits for at the
   * end, has the processors first.
   */
  #lowerSmaller(): void {
    const unlowered = [...this.#processes].filter(
      (moc) => moc.child.pid !== undefined && !moc.isLowered && sizeOf(moc) > 0,
    );
    if (unlowered.length < 2) return;
    const smaller = unlowered.reduce((least, moc) => (sizeOf(moc) < sizeOf(least) ? moc : least));
    if (smaller.child.pid === undefined) return;
    smaller.isLowered = true;
    lowerPriority(smaller.child.pid, SMALLER_NICENESS);
  }

  #finish(moc: MocProcess, response: MocResponse): void {
    // The process has been ended, and somebody waits until it is gone.
    if (!this.#processes.has(moc)) return;
    clearTimeout(moc.timer);
    const { job } = moc;
    moc.job = undefined;
    moc.hasAnswered = true;
    if (response.kind === 'crashed') {
      // A failure, such as an overflow, may have left the process's heap large: start afresh.
      void this.#end(moc, closedError());
    } else {
      refer(moc, false);
      const { idleMs, loweredIdleMsMax = 2000 } = this.#options;
      const ms = moc.isLowered ? Math.min(idleMs, loweredIdleMsMax) : idleMs;
      moc.timer = setTimeout(() => void this.#end(moc, closedError()), ms);
      moc.timer.unref();
    }
    job?.resolve(ownBytes(response));
    this.#dispatch();
  }

  /**
   * Handles a process that died by itself. A job that was given to an idle process gets another process, which is
   * new: the job dies once at most.
   */
  #died(moc: MocProcess, reason: string): void {
    const { job } = moc;
    if (job !== undefined && moc.hasAnswered && !this.#isClosed) {
      moc.job = undefined;
      this.#waiting.unshift(job);
    }
    void this.#end(moc, crashError(reason));
  }

  async #end(moc: MocProcess, reason: Error): Promise<void> {
    clearTimeout(moc.timer);
    const isFirst = this.#processes.delete(moc);
    const { job } = moc;
    moc.job = undefined;
    job?.reject(reason);
    if (!isFirst) return;
    if (!this.#isClosed) this.#dispatch();
    await kill(moc.child);
  }
}

/** Returns all that a process gets to see of the environment: the folder where Node keeps compiled code. */
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

/** Returns true if a job was given up because of `close`. */
export function isClosed(error: unknown): boolean {
  return error instanceof ServerError && error.code === 'compiler-closed';
}

function closedError(): ServerError {
  return new ServerError('unavailable', 'compiler-closed', 'the server is stopping: nothing is compiled any more');
}

function notStartedError(reason: string): ServerError {
  return new ServerError('unavailable', 'compiler-not-started', `the compiler's process cannot be started: ${reason}`);
}

function failureError({ failure }: Extract<MocReply, { readonly failure: unknown }>): ServerError {
  if (failure !== 'memory') return crashError(failure.reason);
  const message = `the compiler needed more than ${MOC_MEMORY_MB} MB of memory; split the actor, or compile it elsewhere and name the module with \`wasm\``;
  return new ServerError('invalid', 'compiler-crashed', message);
}

function crashError(reason: string): ServerError {
  return new ServerError('invalid', 'compiler-crashed', `the compiler stopped: ${reason}`);
}

/** A module as bytes of its own: what came from the process are views into a message. */
function ownBytes(response: MocResponse): MocResponse {
  return response.kind === 'compiled' ? { ...response, wasm: new Uint8Array(response.wasm) } : response;
}

/** Characters that are being compiled, the library's included. */
function sizeOf({ job }: MocProcess): number {
  if (job?.request.kind !== 'compile') return 0;
  return [...job.request.files.values()].reduce((size, text) => size + text.length, 0);
}

/** Keeps the server alive for the process, or lets the server end without it. */
function refer({ child }: MocProcess, isNeeded: boolean): void {
  if (isNeeded) {
    child.ref();
    child.channel?.ref();
  } else {
    child.unref();
    child.channel?.unref();
  }
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.ref();
  child.kill('SIGKILL');
  await exited;
}
