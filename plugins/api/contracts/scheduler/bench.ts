/** Common parts of the suite: canisters that do what the test says, and everybody whom a scheduler tells of them. */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, Logger } from '../../../../kernel/index.ts';
import type { ModuleInfo } from '../../../../subsystems/execution/index.ts';
import {
  type CanisterStatus,
  idToText,
  type NotedMessage,
  NOTHING_RAN,
  type Outcome,
  type OutgoingCall,
  type Step,
  type StepFault,
  type Task,
} from '../../../../subsystems/ic/index.ts';
import type {
  AdmitOptions,
  DeliveredMessage,
  Scheduler,
  SchedulerSetup,
  StepCount,
} from '../../../../subsystems/scheduler/index.ts';
import type { Storage } from '../../../../subsystems/storage/index.ts';
import { MemoryTables } from '../../../../subsystems/storage/memory-tables.ts';
import { NoStorage } from '../../../../subsystems/storage/no-storage.ts';
import { TablesStorage } from '../../../../subsystems/storage/tables-storage.ts';
import type { SuiteContext } from '../runner.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { HeldExecution } from './held-execution.ts';

/** Everything that a scheduler of the suite is made of. */
export interface SchedulerParts {
  readonly execution: HeldExecution;
  readonly clock: Clock;
  /** Keeps what is committed if the test is one of durability. */
  readonly storage: Storage;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** Milliseconds between heartbeats. */
  readonly heartbeatMs: number;
  /** Milliseconds between looks at timers and deadlines. */
  readonly timerMs: number;
  /** The most canisters that are live at once; 0: no limit. For schedulers that put canisters to sleep. */
  readonly liveCap: number;
}

export interface MadeScheduler {
  readonly scheduler: Scheduler & SchedulerSetup;
  /** Begins with heartbeats and timers, as the plugin's `ready` does. */
  begin(): void;
  /** As the plugin's `drain` does. */
  drain(): Promise<void>;
}

export type MakeScheduler = (t: SuiteContext, parts: SchedulerParts) => MadeScheduler;

export const HEARTBEAT_MS = 10;
export const TIMER_MS = 5;
const START_MS = 1_000_000;
/** Turns of the event loop after which whatever could follow has followed. */
const TURNS = 12;
const TURNS_MAX = 200;
export const CLIENT = Uint8Array.of(4);
export const NONE = new Uint8Array(0);

/** Returns the id of the canister with that handle. */
export const idOf = (handle: number): Uint8Array => Uint8Array.of(0, 0, 0, 0, 0, 0, 0, handle, 1, 1);

// ---- modules and steps

const METHODS = [
  ['m', 'update'],
  ['n', 'update'],
  ['q', 'query'],
  ['c', 'composite_query'],
] as const;
export const HEARTBEAT = 'canister_heartbeat';
export const TIMER = 'canister_global_timer';
export const INSPECT = 'canister_inspect_message';
export const LOW_MEMORY = 'canister_on_low_wasm_memory';

/** Returns a module with the methods m, n (updates), q (query) and c (composite query); numbers begin at `first`. */
export function moduleOf(first: number, hooks: readonly string[] = []): ModuleInfo {
  const names = [...METHODS.map(([name, kind]) => `canister_${kind} ${name}`), ...hooks];
  return {
    hash: String(first).padStart(64, '0'),
    pointerWidth: 32,
    methods: new Map(METHODS),
    entries: new Map(names.map((name, at) => [name, first + at])),
    globals: [],
    globalsBytes: 0,
    metadata: new Map(),
    candid: undefined,
    candidArgs: undefined,
  };
}

export const MODULE = moduleOf(10);

export const RAN: Step = { ...NOTHING_RAN, instructions: 10, charge: 7 };
export const replied = (data: Uint8Array = NONE, more: Partial<Step> = {}): Step => ({
  ...RAN,
  answer: { kind: 'reply', data },
  ...more,
});
export const faulted = (kind: StepFault['kind'], message = 'it fell'): Step => ({
  ...RAN,
  fault: { kind, code: kind === 'outOfCycles' ? 2 : 5, message },
});

let callbacksMade = 0;

/** Returns a call of m that nothing is attached to, with callbacks of its own. */
export function callOf(callee: Uint8Array, more: Partial<OutgoingCall> = {}): OutgoingCall {
  const callbacks = new Uint8Array(56);
  new DataView(callbacks.buffer).setUint32(0, ++callbacksMade);
  new DataView(callbacks.buffer).setUint32(52, 1, true);
  return { callee, method: 'm', payload: NONE, cycles: 0n, timeoutSeconds: undefined, callbacks, ...more };
}

/** Returns a step that makes these calls. */
export const calling = (...calls: readonly OutgoingCall[]): Step => ({ ...RAN, calls });

/** A promise whose end can be looked at. */
export interface Watched<T> {
  readonly promise: Promise<T>;
  readonly value: T | undefined;
  readonly isSettled: boolean;
}

export function watch<T>(promise: Promise<T>): Watched<T> {
  const watched = { promise, value: undefined as T | undefined, isSettled: false };
  promise.then(
    (value) => Object.assign(watched, { value, isSettled: true }),
    () => Object.assign(watched, { isSettled: true }),
  );
  return watched;
}

// ---- the bench

interface BenchOptions {
  readonly isKept?: boolean;
  readonly tables?: MemoryTables;
  readonly liveCap?: number;
  readonly executors?: number;
  readonly nowMs?: number;
  /** Callbacks that the process before owes. */
  readonly owed?: Iterable<string>;
}

/** Everything that the listener was told, in order. */
interface Heard {
  readonly ended: { readonly handle: number; readonly step: Step; readonly count: StepCount }[];
  readonly answered: { readonly handle: number; readonly noted: NotedMessage; readonly outcome: Outcome }[];
  readonly records: {
    readonly handle: number;
    readonly status: CanisterStatus;
    readonly timerMs: number | undefined;
  }[];
  readonly lost: number[];
  readonly lowMemoryRan: number[];
}

export class Bench {
  readonly clock: FakeClock;
  readonly execution: HeldExecution;
  readonly storage: Storage;
  readonly scheduler: Scheduler & SchedulerSetup;
  readonly heard: Heard = { ended: [], answered: [], records: [], lost: [], lowMemoryRan: [] };
  /** Reason why canisters cannot be woken; undefined: they can. */
  wakeProblem: Error | undefined;
  readonly tables: MemoryTables;
  readonly #t: SuiteContext;
  readonly #make: MakeScheduler;
  readonly #made: MadeScheduler;
  readonly #modules = new Map<number, ModuleInfo | undefined>();

  private constructor(t: SuiteContext, make: MakeScheduler, storage: Storage, options: BenchOptions) {
    const { tables = new MemoryTables(), liveCap = 0, executors = 1, nowMs = START_MS, owed = [] } = options;
    this.#t = t;
    this.#make = make;
    this.tables = tables;
    this.storage = storage;
    this.clock = new FakeClock(nowMs);
    this.execution = new HeldExecution(executors, owed);
    const log = { info: () => undefined, warn: () => undefined };
    const { execution, clock } = this;
    const times = { heartbeatMs: HEARTBEAT_MS, timerMs: TIMER_MS };
    this.#made = make(t, { execution, clock, storage, log, liveCap, ...times });
    this.scheduler = this.#made.scheduler;
    this.#attach();
    t.after(() => assert.deepEqual(execution.violations, []));
  }

  /** Returns a scheduler with these canisters, which have code and are awake. */
  static async over(
    t: SuiteContext,
    make: MakeScheduler,
    handles: readonly number[],
    options: BenchOptions & { readonly module?: ModuleInfo } = {},
  ): Promise<Bench> {
    const bench = await Bench.#on(t, make, options);
    for (const handle of handles) bench.admit(handle, { module: options.module ?? MODULE });
    await bench.scheduler.restoreAnswers();
    bench.scheduler.restore([]);
    bench.begin();
    return bench;
  }

  static async #on(t: SuiteContext, make: MakeScheduler, options: BenchOptions): Promise<Bench> {
    const { isKept = false, tables = new MemoryTables() } = options;
    if (!isKept) return new Bench(t, make, new NoStorage(), { ...options, tables });
    const storage = new TablesStorage({ openTables: () => tables });
    await storage.open();
    t.after(() => storage.close());
    return new Bench(t, make, storage, { ...options, tables });
  }

  #attach(): void {
    const { execution, heard } = this;
    const wake = async (handle: number): Promise<void> => {
      await nextTurn();
      if (this.wakeProblem !== undefined) throw this.wakeProblem;
      execution.awake(handle);
    };
    const sleep = async (handle: number): Promise<void> => {
      execution.sleep(handle);
      await nextTurn();
    };
    this.scheduler.attachCanisters(
      { wake, sleep, bytesOf: () => 0, heapBytesOf: () => 0, storedStableBytesOf: () => 0 },
      {
        stepEnded: (handle, { step }, count) => void heard.ended.push({ handle, step, count }),
        answered: (handle, noted, outcome) => void heard.answered.push({ handle, noted, outcome }),
        traceOf: () => undefined,
        remembersCalls: true,
        changed: () => undefined,
        credited: () => undefined,
        lost: (handle) => void heard.lost.push(handle),
        recordChanged: (handle) => {
          const { storedStatus: status, storedTimerMs: timerMs } = this.scheduler.stateOf(handle);
          heard.records.push({ handle, status, timerMs });
        },
        lowMemoryRan: (handle) => void heard.lowMemoryRan.push(handle),
        nameOf: (handle) => `actor ${handle}`,
      },
    );
  }

  admit(handle: number, options: AdmitOptions = {}): void {
    this.#modules.set(handle, options.module);
    if (options.isAsleep === true) this.execution.asleep.add(handle);
    this.scheduler.admit(handle, idToText(idOf(handle)), options);
  }

  begin(): void {
    this.#made.begin();
  }

  drain(): Promise<void> {
    return this.#made.drain();
  }

  /** Returns the next process on what is durable: all canisters sleep, as they are stored now. */
  async restarted(): Promise<Bench> {
    await this.idle();
    await this.storage.settled();
    const stored = [...this.#modules].map(([handle, module]) => {
      const { storedStatus: status, storedTimerMs: timerMs } = this.scheduler.stateOf(handle);
      return [handle, { status, timerMs, module, isAsleep: true }] as const;
    });
    this.clock.dropTimers();
    const tables = MemoryTables.copyOf(this.tables);
    const [nowMs, owed] = [this.clock.nowMs(), this.execution.owed()];
    const next = await Bench.#on(this.#t, this.#make, { isKept: true, tables, nowMs, owed });
    for (const [handle, admitted] of stored) next.admit(handle, admitted);
    await next.scheduler.restoreAnswers();
    next.scheduler.restore(await next.storage.range('queue', NONE));
    next.begin();
    return next;
  }

  // ---- messages

  deliver(handle: number, method = 'm', more: Partial<DeliveredMessage> = {}): Watched<Outcome> {
    const message = { kind: 'update', method, caller: CLIENT, argument: NONE, ...more } as const;
    return watch(this.scheduler.deliver(handle, message));
  }

  query(handle: number, method = 'q', more: Partial<DeliveredMessage> = {}): Watched<Outcome> {
    return this.deliver(handle, method, { kind: 'query', ...more });
  }

  // ---- what executes

  async idle(): Promise<void> {
    for (let turns = 0; turns < TURNS; turns++) await nextTurn();
  }

  /** Resolves when that is so; fails if it never is. */
  async until(what: string, isSo: () => boolean): Promise<void> {
    for (let turns = 0; turns < TURNS_MAX; turns++) {
      if (isSo()) return;
      await nextTurn();
    }
    assert.ok(isSo(), what);
  }

  async settled<T>(watched: Watched<T>): Promise<T> {
    await this.until('it never ends', () => watched.isSettled);
    return watched.promise;
  }

  /** Returns the task that a canister executes, as soon as it does. */
  async task(handle: number): Promise<Task> {
    await this.until(`canister ${handle} is given nothing`, () => this.execution.head(handle) !== undefined);
    const what = this.execution.head(handle)?.what;
    assert.ok(typeof what === 'object', `canister ${handle} executes a change of code`);
    return what;
  }

  /** Ends the task that a canister executes; returns it. */
  async end(handle: number, step: Step = replied()): Promise<Task> {
    const task = await this.task(handle);
    await this.execution.end(handle, step);
    return task;
  }

  /** Ends the change of code that a canister executes; returns its mode. */
  async endChange(handle: number, step: Step = RAN): Promise<string> {
    const isChange = (): boolean => typeof this.execution.head(handle)?.what === 'string';
    await this.until(`canister ${handle} executes no change of code`, isChange);
    const what = this.execution.head(handle)?.what;
    assert.ok(typeof what === 'string');
    await this.execution.end(handle, step, [{ text: 'from the hook', record: undefined }]);
    return what;
  }

  /** Fails if the canister executes anything, or will without more being done. */
  async nothing(handle: number): Promise<void> {
    await this.idle();
    assert.equal(this.execution.head(handle), undefined, `canister ${handle} executes`);
  }

  /** Time goes on; timers see each of its steps. */
  async pass(ms: number, stepMs = ms): Promise<void> {
    for (let passed = 0; passed < ms; passed += stepMs) this.clock.advance(stepMs);
    await this.idle();
  }
}

/** Returns the argument of a method's task. */
export function argumentOf(task: Task): Uint8Array {
  assert.ok(task.kind === 'update' || task.kind === 'query' || task.kind === 'transform', task.kind);
  return task.argument;
}

/** Checks that it is a callback, and returns it. */
export function callbackOf(task: Task): Extract<Task, { kind: 'callback' }> {
  assert.ok(task.kind === 'callback', task.kind);
  return task;
}

/** Checks that an outcome has no reply; returns kind, code and message. */
export function refusalOf(outcome: Outcome): readonly [kind: string, code: number, message: string] {
  assert.ok(outcome.kind !== 'reply', 'it replied');
  return [outcome.kind, outcome.code, outcome.message];
}
