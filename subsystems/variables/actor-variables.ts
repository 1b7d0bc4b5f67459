import { type Clock, ServerError, sleep } from '../../kernel/index.ts';
import type { Canister, Canisters, StateCopy } from '../canisters/index.ts';
import type { SharedMemory } from '../execution/index.ts';
import { JobThread } from '../threads/index.ts';
import type { AskedValue, Variables } from './index.ts';
import type { VariablesRequest } from './read-variables.ts';

/** The longest that a request waits for a copy; the copy is finished all the same. */
const COPY_MS_MAX = 900;
/** Time for which a copy is kept after it was last read. */
const KEPT_MS = 10_000;
/** Largest state that is copied. */
const STATE_BYTES_MAX = 2 ** 30;
const JOB_DEADLINE_MS = 5_000;
const WAITING_JOBS_MAX = 16;
const THREAD_HEAP_MB = 256;
const THREAD_STACK_MB = 4;
const LAYOUT = '64-bit, layout version 1';

/** Returns the error of a request that finds too many before it. */
export function tooManyWait(): ServerError {
  const text = `${WAITING_JOBS_MAX} requests for variables wait; try again in a second`;
  return new ServerError('unavailable', 'variables-busy', text);
}

interface ActorVariablesNeeds {
  readonly canisters: Pick<Canisters, 'copyState' | 'watch'>;
  readonly memory: Pick<SharedMemory, 'holdMemory'>;
  readonly clock: Clock;
}

/** A copy that is being made, or kept. */
interface KeptCopy {
  readonly number: number;
  readonly idHex: string;
  readonly copy: Promise<StateCopy>;
  /** True if the actor has changed since. */
  isStale: boolean;
  /** True if the copy is finished, and somebody has had it. */
  isRead: boolean;
  isFinished: boolean;
  timer: Disposable | undefined;
  readonly release: () => void;
}

/** Reads variables in a thread of its own; keeps the copy that was read last for a while. */
export class ActorVariables implements Variables {
  readonly #needs: ActorVariablesNeeds;
  readonly #thread: JobThread<VariablesRequest, Uint8Array>;
  #kept: KeptCopy | undefined;
  #copies = 0;

  constructor(needs: ActorVariablesNeeds) {
    this.#needs = needs;
    this.#thread = new JobThread({
      name: 'variables',
      script: new URL('./variables-worker.ts', import.meta.url),
      jobDeadlineMs: JOB_DEADLINE_MS,
      waitingJobsMax: WAITING_JOBS_MAX,
      heapMb: THREAD_HEAP_MB,
      stackMb: THREAD_STACK_MB,
      refusals: {
        busy: tooManyWait,
        late: () =>
          new ServerError(
            'invalid',
            'variables-slow',
            `reading took longer than ${JOB_DEADLINE_MS} ms: ask for a part`,
          ),
        failed: (what, cause) =>
          new ServerError('unavailable', 'variables-failed', `the thread that reads variables ${what}; try again`, {
            cause,
          }),
        closed: () =>
          new ServerError('unavailable', 'variables-closed', 'the server is stopping: no variables are read any more'),
      },
    });
  }

  list(canister: Canister): Promise<Uint8Array> {
    return this.#read(canister, undefined, undefined);
  }

  valueAt(
    canister: Canister,
    { path, from = 0, count = Number.MAX_SAFE_INTEGER, copy }: AskedValue,
  ): Promise<Uint8Array> {
    return this.#read(canister, { path, from, count }, copy);
  }

  async close(): Promise<void> {
    this.#drop(this.#kept);
    await this.#thread.close();
  }

  async #read(canister: Canister, asked: VariablesRequest['asked'], number: number | undefined): Promise<Uint8Array> {
    const kept = await this.#copyFor(canister, number);
    const copy = await this.#inTime(kept, canister);
    this.#keepOn(kept);
    const { module, heap, stable, certifiedData } = copy;
    const section = module.metadata.get('motoko:stable-types')?.content;
    const layout = module.metadata.get('enhanced-orthogonal-persistence')?.content;
    const persistence = section === undefined ? null : layout === undefined ? 'classical' : 'enhanced';
    const facts = {
      copy: kept.number,
      module: module.hash,
      persistence,
      heapBytes: canister.heapBytes,
      stableBytes: canister.stableBytes,
      stableUsedBytes: stable.reduce((sum, { bytes }) => sum + bytes.length, 0),
      certifiedData: Buffer.from(certifiedData).toString('hex'),
    };
    const signature = section && Buffer.from(section).toString('utf8');
    return await this.#thread.run({ signature, reason: reasonOf(persistence, layout), heap, facts, asked });
  }

  /** Returns the copy with that number, or one of the actor as it is now; copies are made one after the other. */
  async #copyFor(canister: Canister, number: number | undefined): Promise<KeptCopy> {
    const { idHex } = canister;
    const kept = this.#kept;
    if (number !== undefined) {
      if (kept?.number === number && kept.idHex === idHex) return kept;
      throw new ServerError(
        'missing',
        'variables-copy-gone',
        `the copy ${number} is not kept any more: ask without copy`,
      );
    }
    // One that is being made is of the actor as it was a moment ago, and may never be new enough for a busy actor.
    if (kept?.idHex === idHex && (!kept.isFinished || !kept.isStale || !kept.isRead)) return kept;
    if (kept !== undefined && !kept.isFinished) {
      await Promise.race([kept.copy.catch(() => undefined), sleep(this.#needs.clock, COPY_MS_MAX)]);
      if (!kept.isFinished)
        throw new ServerError(
          'unavailable',
          'variables-busy',
          'the state of another actor is being copied; try again in a second',
        );
    }
    return this.#kept === kept ? this.#begin(canister) : await this.#copyFor(canister, undefined);
  }

  #begin(canister: Canister): KeptCopy {
    this.#drop(this.#kept);
    const { canisters, memory } = this.#needs;
    const bytes = canister.heapBytes + canister.stableBytes;
    if (bytes > STATE_BYTES_MAX) {
      const text = `the state of actor ${canister.name} has ${bytes} bytes; at most ${STATE_BYTES_MAX} are copied to read variables`;
      throw new ServerError('invalid', 'variables-too-large', text);
    }
    const release = memory.holdMemory(bytes);
    const watch = canisters.watch(canister, {
      changed: () => (kept.isStale = true),
      codeChanged: () => (kept.isStale = true),
      removed: () => this.#drop(kept),
    });
    const kept: KeptCopy = {
      number: ++this.#copies,
      idHex: canister.idHex,
      copy: canisters.copyState(canister),
      isStale: false,
      isRead: false,
      isFinished: false,
      timer: undefined,
      release: () => {
        watch[Symbol.dispose]();
        release();
      },
    };
    this.#kept = kept;
    kept.copy.then(
      () => {
        kept.isFinished = true;
        this.#keepOn(kept);
      },
      () => {
        // Kept for whoever asks next, who is told why.
        kept.isFinished = true;
        this.#keepOn(kept);
      },
    );
    return kept;
  }

  async #inTime(kept: KeptCopy, { name }: Canister): Promise<StateCopy> {
    let copy: StateCopy | void;
    try {
      copy = await Promise.race([kept.copy, sleep(this.#needs.clock, COPY_MS_MAX)]);
    } catch (error) {
      this.#drop(kept);
      throw error;
    }
    if (copy === undefined)
      throw new ServerError(
        'unavailable',
        'variables-copying',
        `the state of actor ${name} is still being copied; try again in a second`,
      );
    kept.isRead = true;
    return copy;
  }

  /** Keeps a copy from now on for KEPT_MS. */
  #keepOn(kept: KeptCopy): void {
    if (this.#kept !== kept) return;
    kept.timer?.[Symbol.dispose]();
    kept.timer = this.#needs.clock.after(KEPT_MS, () => this.#drop(kept));
  }

  #drop(kept: KeptCopy | undefined): void {
    if (kept === undefined || this.#kept !== kept) return;
    this.#kept = undefined;
    kept.timer?.[Symbol.dispose]();
    kept.release();
  }
}

function reasonOf(persistence: string | null, layout: Uint8Array | undefined): string | undefined {
  if (persistence === null)
    return 'the module has no section motoko:stable-types: it is not Motoko, or its compiler did not write one';
  if (persistence === 'classical')
    return 'the actor has classical persistence, whose stable format is not decoded: its variables have names and types only';
  const text = Buffer.from(layout ?? []).toString('latin1');
  if (text === LAYOUT) return undefined;
  return `the module's heap has the layout ${JSON.stringify(text.slice(0, 80))}; this server reads ${JSON.stringify(LAYOUT)}`;
}
