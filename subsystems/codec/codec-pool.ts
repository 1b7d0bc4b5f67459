import { ServerError } from '../../kernel/index.ts';
import { JobThread } from '../threads/index.ts';
import type { CodecRequest, CodecResult, ConversionRequest, ParseRequest, TableRequest } from './codec-job.ts';
import { unreachable } from './faults.ts';
import type { FlatInterface } from './flat-interface.ts';

/* Conversions of large bodies, and parsing of large interfaces, in a worker thread, one after the other. */

/** Longest time that one conversion may take; 64 MiB take about two seconds. */
const JOB_DEADLINE_MS = 20_000;
/** Jobs that may wait; each holds a body of up to 64 MiB. */
const WAITING_JOBS_MAX = 32;
/** Heap of the worker without the bodies themselves; a conversion uses hardly any. */
const WORKER_HEAP_MB = 256;
const WORKER_STACK_MB = 4;

interface CodecPoolOptions {
  readonly jobDeadlineMs?: number;
}

export class CodecPool {
  readonly #thread: JobThread<CodecRequest, CodecResult>;

  constructor({ jobDeadlineMs = JOB_DEADLINE_MS }: CodecPoolOptions = {}) {
    this.#thread = new JobThread({
      name: 'codec',
      script: new URL('./codec-worker.ts', import.meta.url),
      jobDeadlineMs,
      waitingJobsMax: WAITING_JOBS_MAX,
      heapMb: WORKER_HEAP_MB,
      stackMb: WORKER_STACK_MB,
      refusals: {
        busy: () => {
          const text = `${WAITING_JOBS_MAX} large bodies and interfaces are waiting to be converted; try again later`;
          return new ServerError('unavailable', 'codec-busy', text);
        },
        late: () => {
          const text = `the conversion took longer than ${jobDeadlineMs} ms: send less at once`;
          return new ServerError('invalid', 'codec-timeout', text);
        },
        failed: (what, cause) => {
          if ((cause as NodeJS.ErrnoException | undefined)?.code === 'ERR_WORKER_OUT_OF_MEMORY') {
            const text = `the conversion takes more than ${WORKER_HEAP_MB} MiB of memory: send less at once, or Candid bytes`;
            return new ServerError('invalid', 'codec-quota', text, { cause });
          }
          return new ServerError('unavailable', 'codec-failed', `the codec thread ${what}; try again`, { cause });
        },
        closed: () => {
          const text = 'the server is stopping: no body is converted any more';
          return new ServerError('unavailable', 'codec-closed', text);
        },
      },
    });
  }

  /** Converts in the worker; rejects with the ServerError that the conversion itself would throw. */
  async run(request: ConversionRequest): Promise<Uint8Array> {
    const refusal = this.#thread.refusal();
    if (refusal !== undefined) throw refusal;
    // A view may be part of a larger buffer, which must not be transferred with it.
    const bytes = new Uint8Array(request.bytes);
    const converted = await this.#thread.run({ ...request, bytes }, [bytes.buffer]);
    return converted instanceof Uint8Array ? converted : unreachable('a conversion made an interface');
  }

  /** Parses in the worker; rejects with the ServerError that parsing itself would throw. */
  async parse(request: ParseRequest): Promise<FlatInterface> {
    const parsed = await this.#thread.run(request);
    return parsed instanceof Uint8Array ? unreachable('an interface became bytes') : parsed;
  }

  /** Makes a table of types in the worker; rejects with the ServerError that parsing itself would throw. */
  async describe(request: TableRequest): Promise<Uint8Array> {
    const table = await this.#thread.run(request);
    return table instanceof Uint8Array ? table : unreachable('a table became an interface');
  }

  /** Ends the worker; jobs that have not ended are rejected. */
  close(): Promise<void> {
    return this.#thread.close();
  }
}
