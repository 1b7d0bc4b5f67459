/**
 * A copy of an actor that nobody can address: it runs in an executor, nothing of it is stored, and what it sends goes
 * nowhere. Its time stands where it is told.
 *
 * Main thread.
 */
import type { ServerError } from '../../kernel/index.ts';
import type {
  CanisterImage,
  CanisterSettings,
  CanisterSpec,
  CodeChange,
  Execution,
  ModuleInfo,
} from '../execution/index.ts';
import { type Step, TAKEN_BACK, type Task, type ToldStep } from '../ic/index.ts';

/** The part of Execution that copies use. */
type CopyExecution = Pick<
  Execution,
  'create' | 'restore' | 'capture' | 'run' | 'change' | 'configure' | 'recall' | 'remove'
>;

interface CopyTerms {
  /** When that is aborted, what the copy runs is taken back. */
  readonly signal: AbortSignal;
  /** Returns the error for a copy that runs nothing any more, for that reason. */
  readonly lost: (why: string) => ServerError;
}

export class ActorCopy {
  readonly #execution: CopyExecution;
  readonly #handle: number;
  readonly #terms: CopyTerms;
  #module: ModuleInfo;

  /** `handle` is the copy's own, and forgotten at the end. */
  constructor(execution: CopyExecution, handle: number, module: ModuleInfo, terms: CopyTerms) {
    this.#execution = execution;
    this.#handle = handle;
    this.#module = module;
    this.#terms = terms;
  }

  /** Resolves with a copy that has the state of the image; undefined: none, as before an installation. */
  static async withState(
    execution: CopyExecution,
    spec: CanisterSpec,
    module: ModuleInfo,
    image: Omit<CanisterImage, 'module'> | undefined,
    terms: CopyTerms,
  ): Promise<ActorCopy> {
    // Nobody stores a copy.
    const handle = execution.create({ ...spec, snapshotBelowBytes: undefined });
    const copy = new ActorCopy(execution, handle, module, terms);
    try {
      if (image !== undefined) await execution.restore(handle, { ...image, module });
      return copy;
    } catch (error) {
      copy.end();
      throw error;
    }
  }

  get module(): ModuleInfo {
    return this.#module;
  }

  /** Sets the time that the next message sees, ms since 1970, and other settings. */
  stand(standsAtMs: number, settings: Omit<CanisterSettings, 'standsAtMs'> = {}): void {
    this.#execution.configure(this.#handle, { ...settings, standsAtMs });
  }

  /**
   * Resolves with the step. Rejects with the reason of the signal once that is aborted, with the error of `lost` when
   * the executor has died or the server stops.
   */
  async run(task: Task): Promise<ToldStep> {
    return await this.#done((ended) => this.#execution.run(this.#handle, task, ended));
  }

  async change(module: ModuleInfo, change: CodeChange): Promise<ToldStep> {
    const told = await this.#done((ended) => this.#execution.change(this.#handle, module, change, ended));
    if (told.step.fault === undefined) this.#module = module;
    return told;
  }

  /** Resolves with the state. */
  capture(): Promise<CanisterImage> {
    return this.#execution.capture(this.#handle, this.#module);
  }

  async #done(run: (ended: Parameters<CopyExecution['change']>[3]) => void): Promise<ToldStep> {
    const { signal, lost } = this.#terms;
    signal.throwIfAborted();
    const recall = (): void => this.#execution.recall(this.#handle, 'everything');
    signal.addEventListener('abort', recall, { once: true });
    try {
      const ended = await new Promise<Parameters<Parameters<typeof run>[0]>[0]>((resolve) => run(resolve));
      signal.throwIfAborted();
      // Where nothing ran, the code is not to blame.
      if (!ended.isReturned && ended.step.fault?.kind !== 'unavailable') return ended;
      throw lost(faultText(ended.step));
    } finally {
      signal.removeEventListener('abort', recall);
    }
  }

  end(): void {
    this.#execution.remove(this.#handle);
  }
}

function faultText(step: Step): string {
  return step === TAKEN_BACK ? 'a copy of the actor was recalled' : (step.fault?.message ?? 'a copy was lost');
}
