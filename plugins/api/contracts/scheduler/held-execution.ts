/**
 * An execution whose work ends when the test says so. It keeps the promises of executors that a scheduler relies on,
 * and notes where a scheduler does not keep its own: each call gets one callback, nobody is given work while it sleeps
 * or while its work is taken back.
 */
import { ServerError } from '../../../../kernel/index.ts';
import type {
  CanisterSettings,
  CodeChange,
  Executing,
  ExecutionListener,
  ModuleInfo,
  Recall,
} from '../../../../subsystems/execution/index.ts';
import {
  type EndedStep,
  hexOf,
  NOTHING_RAN,
  type OutputLine,
  REJECT_CODE,
  returnedTask,
  type Step,
  TAKEN_BACK,
  type Task,
} from '../../../../subsystems/ic/index.ts';
import type { ScheduledExecution } from '../../../../subsystems/scheduler/index.ts';
import { toldStep } from '../support/told-step.ts';

/** Larger arguments are handed over to the executor's thread: the scheduler's array is empty then. */
const HANDED_OVER_BYTES = 65_536;

const DIED: Step = {
  ...NOTHING_RAN,
  fault: { kind: 'unavailable', code: REJECT_CODE.SYS_TRANSIENT, message: 'the thread died' },
};

/** Work in the order in which it was given; the first of a canister has begun. */
interface Given {
  readonly what: Task | CodeChange['mode'];
  readonly module: ModuleInfo | undefined;
  readonly argument: Uint8Array | undefined;
  readonly ended: (ended: EndedStep) => Promise<void> | void;
}

export class HeldExecution implements ScheduledExecution {
  readonly executorCount: number;
  readonly violations: string[] = [];
  readonly configured: { readonly handle: number; readonly settings: CanisterSettings }[] = [];
  readonly credited = new Map<number, bigint>();
  readonly ahead = new Map<number, number>();
  readonly memory = { bytesMax: 1 << 30, bytesHigh: 1 << 29, bytesUsed: 0, refusals: 0 };
  readonly asleep = new Set<number>();
  isRefusing = false;
  #listener: ExecutionListener | undefined;
  readonly #given = new Map<number, Given[]>();
  readonly #recalled = new Map<number, Recall>();
  readonly #lost = new Set<number>();
  /** Callbacks that have not been given back, by canister and bytes. */
  readonly #open: Set<string>;
  /** Number of tasks that are on their way back, by canister. */
  readonly #returning = new Map<number, number>();

  /** `owed`: as `owed` of the process before says. */
  constructor(executorCount = 1, owed: Iterable<string> = []) {
    this.executorCount = executorCount;
    this.#open = new Set(owed);
  }

  // ---- the part of a scheduler

  attend(listener: ExecutionListener): void {
    this.#listener = listener;
  }

  executorOf(handle: number): number {
    return handle % this.executorCount;
  }

  aheadOf(handle: number): number {
    return this.ahead.get(handle) ?? 0;
  }

  run(handle: number, task: Task, ended: Given['ended']): void {
    this.#checkGiven(handle, task.kind);
    if (task.kind === 'callback' && !this.#open.delete(tokenOf(handle, task.callbacks)))
      this.violations.push(`canister ${handle} got a callback that it was not owed`);
    const argument = 'argument' in task ? handOver(task.argument) : undefined;
    const what = argument === undefined ? task : ({ ...task, argument } as Task);
    this.#give(handle, { what, module: undefined, argument, ended });
  }

  change(handle: number, module: ModuleInfo, change: CodeChange, ended: (ended: EndedStep) => void): void {
    this.#checkGiven(handle, change.mode);
    this.#give(handle, { what: change.mode, module, argument: undefined, ended });
  }

  uninstall(handle: number): Promise<void> {
    if (!this.has(handle)) return Promise.reject(gone());
    return new Promise((resolve, reject) => {
      const ended = (told: EndedStep): void => (told.isReturned ? reject(gone()) : resolve());
      const given = { what: 'reinstall', module: undefined, argument: undefined, ended } as const;
      this.#give(handle, given);
      const end = (): void => {
        if (!this.#queueOf(handle).includes(given)) return;
        if (this.#queueOf(handle)[0] === given) void this.end(handle, NOTHING_RAN);
        else setImmediate(end);
      };
      setImmediate(end);
    });
  }

  configure(handle: number, settings: CanisterSettings): void {
    this.configured.push({ handle, settings });
  }

  addCycles(handle: number, amount: bigint): Promise<bigint> {
    if (!this.has(handle)) return Promise.reject(gone());
    const balance = (this.credited.get(handle) ?? 0n) + amount;
    this.credited.set(handle, balance);
    return Promise.resolve(balance);
  }

  recall(handle: number, recall: Recall): void {
    if (recall === 'nothing') {
      if (this.#queueOf(handle).length + (this.#returning.get(handle) ?? 0) > 0)
        this.violations.push(`canister ${handle} was to go on before its work had come back`);
      this.#recalled.delete(handle);
      return;
    }
    this.#recalled.set(handle, recall);
    const queue = this.#queueOf(handle);
    const isTaken = (given: Given, at: number): boolean =>
      recall === 'everything' || (at > 0 && typeof given.what === 'object');
    const taken = queue.filter(isTaken);
    // Nothing of that begins from now on; it comes back as the executor gets to it.
    this.#given.set(
      handle,
      queue.filter((given) => !taken.includes(given)),
    );
    this.#returnLater(handle, taken, TAKEN_BACK);
  }

  executing(): readonly Executing[] {
    return [...this.#given].flatMap(([handle, [first]]) =>
      first === undefined ? [] : [{ handle, what: first.what, sinceMs: 0 }],
    );
  }

  refuseNew(): void {
    this.isRefusing = true;
    for (const [handle, queue] of this.#given) {
      this.#returnLater(handle, queue.splice(1), DIED);
    }
  }

  attendMemory(): void {}

  trim(): Promise<void> {
    return Promise.resolve();
  }

  // ---- the test's part

  /** True if an executor has the canister. */
  has(handle: number): boolean {
    return !this.#lost.has(handle) && !this.asleep.has(handle);
  }

  /** Returns the work that a canister executes. */
  head(handle: number): Given | undefined {
    return this.#queueOf(handle)[0];
  }

  /** Number of tasks and changes that a canister was given and that have not ended. */
  underWay(handle: number): number {
    return this.#queueOf(handle).length;
  }

  /** Ends the work that a canister executes. */
  end(handle: number, step: Step, lines: readonly OutputLine[] = []): Promise<void> | void {
    const given = this.#queueOf(handle).shift();
    if (given === undefined) throw new Error(`canister ${handle} executes nothing`);
    for (const { callbacks } of step.calls) this.#open.add(tokenOf(handle, callbacks));
    return given.ended(toldStep(step, { lines }));
  }

  /** The executor of a canister dies. */
  lose(handle: number): void {
    const queue = this.#queueOf(handle).splice(0);
    this.#lost.add(handle);
    for (const given of queue) this.#giveBack(handle, given, DIED);
    this.#listener?.lost(handle);
  }

  /** Another executor has the canister. */
  awake(handle: number): void {
    this.#lost.delete(handle);
    this.asleep.delete(handle);
  }

  sleep(handle: number): void {
    if (this.#queueOf(handle).length > 0) this.violations.push(`canister ${handle} was put to sleep at work`);
    this.asleep.add(handle);
  }

  /** Returns the callbacks that are still to be given, or have not ended, for the next process. */
  owed(): readonly string[] {
    const executing = [...this.#given].flatMap(([handle, queue]) =>
      queue.flatMap(({ what }) =>
        typeof what === 'object' && what.kind === 'callback' ? [tokenOf(handle, what.callbacks)] : [],
      ),
    );
    return [...this.#open, ...executing];
  }

  #returnLater(handle: number, taken: readonly Given[], step: Step): void {
    const add = (count: number): void => void this.#returning.set(handle, (this.#returning.get(handle) ?? 0) + count);
    add(taken.length);
    setImmediate(() => {
      for (const given of taken) {
        add(-1);
        this.#giveBack(handle, given, step);
      }
    });
  }

  #checkGiven(handle: number, what: string): void {
    if (this.asleep.has(handle)) this.violations.push(`canister ${handle} sleeps, and was given: ${what}`);
    const isChange = ['install', 'reinstall', 'upgrade'].includes(what);
    const recalled = this.#recalled.get(handle);
    if (recalled === 'everything' || (recalled === 'unbegun' && !isChange))
      this.violations.push(`canister ${handle} was given what is taken back: ${what}`);
  }

  #give(handle: number, given: Given): void {
    if (this.#lost.has(handle) || this.isRefusing) this.#returnLater(handle, [given], DIED);
    else this.#queueOf(handle).push(given);
  }

  #giveBack(handle: number, { what, argument, ended }: Given, step: Step): void {
    if (typeof what === 'object' && what.kind === 'callback') this.#open.add(tokenOf(handle, what.callbacks));
    void ended(returnedTask(step, argument));
  }

  #queueOf(handle: number): Given[] {
    const queue = this.#given.get(handle) ?? [];
    this.#given.set(handle, queue);
    return queue;
  }
}

const tokenOf = (handle: number, callbacks: Uint8Array): string => `${handle} ${hexOf(callbacks)}`;

function handOver(argument: Uint8Array): Uint8Array {
  if (argument.length < HANDED_OVER_BYTES || !(argument.buffer instanceof ArrayBuffer)) return argument;
  return structuredClone(argument, { transfer: [argument.buffer] });
}

function gone(): ServerError {
  return new ServerError('unavailable', 'executor-stopped', 'the thread that held the actor has ended');
}
