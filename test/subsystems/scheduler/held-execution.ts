/** An execution whose tasks end when the test says so, and the steps that tests of the scheduler give it. */
import type { Executing, ExecutionListener, ModuleInfo } from '../../../subsystems/execution/index.ts';
import {
  type EndedStep,
  NOTHING_RAN,
  type OutgoingCall,
  returnedTask,
  type Step,
  type Task,
} from '../../../subsystems/ic/index.ts';
import type { ScheduledExecution } from '../../../subsystems/scheduler/scheduled-execution.ts';
import { toldStep } from '../../support/told-step.ts';

export const STEP: Step = { ...NOTHING_RAN, instructions: 1, charge: 1 };
export const REPLY: Step = { ...STEP, answer: { kind: 'reply', data: new Uint8Array(0) } };

export const MODULE = {
  methods: new Map([
    ['m', 'update'],
    ['q', 'query'],
  ]),
  entries: new Map([
    ['canister_update m', 0],
    ['canister_query q', 1],
    ['canister_heartbeat', 2],
    ['canister_global_timer', 3],
  ]),
} as unknown as ModuleInfo;

export interface Started {
  readonly handle: number;
  readonly task: Task;
  readonly done: (step: Step) => void;
}

export class HeldExecution implements ScheduledExecution {
  readonly executorCount: number;
  readonly started: Started[] = [];
  readonly #running: Started[] = [];
  readonly configured: { readonly handle: number; readonly settings: unknown }[] = [];
  readonly credits: { readonly handle: number; readonly amount: bigint; readonly pay: (isPaid: boolean) => void }[] =
    [];
  refused = false;
  /** Reason why code cannot be dropped. */
  uninstallProblem: Error | undefined;
  readonly memory = { bytesMax: 1000, bytesHigh: 900, bytesUsed: 0, refusals: 0 };
  trims = 0;
  /** Asks for memory as an executor does; resolves when the executor should look again. */
  want: (bytes: number) => Promise<unknown> = () => Promise.resolve();

  /** Hears of deaths, and of cycles. */
  listener: ExecutionListener | undefined;

  attend(listener: ExecutionListener): void {
    this.listener = listener;
  }

  /** The executor of a canister dies. */
  lose(handle: number): void {
    this.listener?.lost(handle);
  }

  attendMemory(answer: (bytesWanted: number) => Promise<unknown>): void {
    this.want = answer;
  }

  trim(): Promise<void> {
    this.trims++;
    return Promise.resolve();
  }

  constructor(lanes = 1) {
    this.executorCount = lanes;
  }

  /** Milliseconds by which canisters are ahead of the clock. */
  readonly ahead = new Map<number, number>();

  aheadOf(handle: number): number {
    return this.ahead.get(handle) ?? 0;
  }

  executorOf(handle: number): number {
    return handle % this.executorCount;
  }

  run(handle: number, task: Task, ended: (ended: EndedStep) => void): void {
    const done = (step: Step): void => ended(endedStep(step));
    const started = { handle, task, done };
    this.started.push(started);
    this.#running.push(started);
  }

  change(_handle: number, _module: ModuleInfo, _change: unknown, ended: (ended: EndedStep) => void): void {
    queueMicrotask(() => ended(toldStep(STEP)));
  }

  configure(handle: number, settings: unknown): void {
    this.configured.push({ handle, settings });
  }

  addCycles(handle: number, amount: bigint): Promise<bigint> {
    return new Promise((resolve, reject) => {
      const pay = (isPaid: boolean): void => {
        if (isPaid) resolve(amount);
        else reject(new Error('died'));
      };
      this.credits.push({ handle, amount, pay });
    });
  }

  uninstall(): Promise<void> {
    // Code is dropped at once, unless the test has set a problem.
    return this.uninstallProblem === undefined ? Promise.resolve() : Promise.reject(this.uninstallProblem);
  }

  executing(): readonly Executing[] {
    return [];
  }

  /** All work that was given is done. */
  recall(): void {}

  refuseNew(): void {
    this.refused = true;
  }

  get running(): number {
    return this.#running.length;
  }

  endOne(step: Step = REPLY): void {
    this.#running.shift()?.done(step);
  }

  /** Ends the task that was given last. */
  endLast(step: Step = REPLY): void {
    this.#running.pop()?.done(step);
  }

  endAll(): void {
    while (this.#running.length > 0) this.endOne();
  }
}

/** The end of a step as an executor tells it; of a fault `unavailable`, as a dead executor gives the task back. */
export function endedStep(step: Step): EndedStep {
  return step.fault?.kind === 'unavailable' ? returnedTask(step) : toldStep(step);
}

/** Makes a call of `m`, with the given changes. */
export function callOf(callee: Uint8Array, more: Partial<OutgoingCall> = {}): OutgoingCall {
  const payload = new Uint8Array(0);
  const callbacks = new Uint8Array(56);
  return { callee, method: 'm', payload, cycles: 0n, timeoutSeconds: undefined, callbacks, ...more };
}

export const idOf = (handle: number): Uint8Array => Uint8Array.of(handle, 1, 1);
