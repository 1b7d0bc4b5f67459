/**
 * A copy of an actor that nobody can address: it runs in an executor, nothing of it is stored, and what it sends goes
 * nowhere. Its time stands where it is told.
 *
 * Main thread.
 */
import { ServerError } from '../../kernel/index.ts';
import type { CodeChange, Execution, ModuleInfo } from '../execution/index.ts';
import { type Step, TAKEN_BACK, type Task, type ToldStep } from '../ic/index.ts';

type CopyExecution = Pick<Execution, 'run' | 'change' | 'configure' | 'recall' | 'remove'>;

export class ActorCopy {
  readonly #execution: CopyExecution;
  readonly #handle: number;
  readonly #signal: AbortSignal;
  #module: ModuleInfo;

  /** `handle` is the copy's own, and forgotten at the end. When the signal is aborted, what it runs is taken back. */
  constructor(execution: CopyExecution, handle: number, module: ModuleInfo, signal: AbortSignal) {
    this.#execution = execution;
    this.#handle = handle;
    this.#module = module;
    this.#signal = signal;
  }

  get module(): ModuleInfo {
    return this.#module;
  }

  /** Sets the time that the next message sees, ms since 1970, and the version that the copy has at least. */
  stand(standsAtMs: number, version?: number): void {
    this.#execution.configure(this.#handle, { standsAtMs, ...(version !== undefined && { version }) });
  }

  /**
   * Resolves with the step. Rejects with the reason of the signal once that is aborted, with ServerError
   * `rehearsal-ended` when the executor has died or the server stops.
   */
  async run(task: Task): Promise<ToldStep> {
    return await this.#done((ended) => this.#execution.run(this.#handle, task, ended));
  }

  async change(module: ModuleInfo, change: CodeChange): Promise<ToldStep> {
    const told = await this.#done((ended) => this.#execution.change(this.#handle, module, change, ended));
    if (told.step.fault === undefined) this.#module = module;
    return told;
  }

  async #done(run: (ended: Parameters<CopyExecution['change']>[3]) => void): Promise<ToldStep> {
    this.#signal.throwIfAborted();
    const recall = (): void => this.#execution.recall(this.#handle, 'everything');
    this.#signal.addEventListener('abort', recall, { once: true });
    try {
      const ended = await new Promise<Parameters<Parameters<typeof run>[0]>[0]>((resolve) => run(resolve));
      this.#signal.throwIfAborted();
      // Where nothing ran, the code is not to blame.
      if (!ended.isReturned && ended.step.fault?.kind !== 'unavailable') return ended;
      throw new ServerError('unavailable', 'rehearsal-ended', `the rehearsal was ended: ${faultText(ended.step)}`);
    } finally {
      this.#signal.removeEventListener('abort', recall);
    }
  }

  end(): void {
    this.#execution.remove(this.#handle);
  }
}

function faultText(step: Step): string {
  return step === TAKEN_BACK ? 'a copy of the actor was recalled' : (step.fault?.message ?? 'a copy was lost');
}
