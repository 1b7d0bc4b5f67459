/** Common parts of the suites: an execution with the module in it, and ways to drive its canisters. */
import assert from 'node:assert/strict';
import { ServerError } from '../../../../kernel/index.ts';
import type {
  CanisterSpec,
  CodeChange,
  Execution,
  ModuleInfo,
  SleepingCanister,
} from '../../../../subsystems/execution/index.ts';
import {
  type ContextView,
  type EndedStep,
  FULL_LIMIT,
  type Step,
  type Task,
  type ToldStep,
  numbersOf,
} from '../../../../subsystems/ic/index.ts';
import { META, metaKey } from '../../../../subsystems/storage/keyspace.ts';
import type { Overlay } from '../../../../subsystems/storage/overlay.ts';
import { CONTRACT_CANISTER } from '../support/contract-canister.ts';
import type { SuiteContext } from '../runner.ts';

export interface MadeExecution {
  /** An execution with metering, and with room for at least two canisters of a megabyte. It ends with the test. */
  readonly execution: Execution;
  /** Lets everything happen that can, in a simulation. Undefined: things happen by themselves. */
  readonly turn?: () => Promise<void>;
}

/** Makes the execution that a test uses. `isOwn`: the test leaves it unable to take any more work. */
export type MakeExecution = (context: SuiteContext, isOwn: boolean) => Promise<MadeExecution>;

export const NONE = new Uint8Array(0);
export const CALLER = Uint8Array.of(4);
export const CALLEE = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 9, 1, 1);
const BALANCE = 1_000_000_000_000n;
export const PAGE_BYTES = 65_536;
export const INSTALL: CodeChange = { mode: 'install', argument: NONE, caller: CALLER };
export const upgrade = (keepsHeap: boolean, argument = NONE): CodeChange => ({
  mode: 'upgrade',
  keepsHeap,
  skipsPreUpgrade: false,
  argument,
  caller: CALLER,
});

export interface Canister {
  readonly handle: number;
  readonly spec: CanisterSpec;
  readonly lines: string[];
  /** Reports of the canister, in order. */
  readonly diary: string[];
  /** The end of its last step. */
  readonly last: () => ToldStep;
  readonly balance: () => bigint;
  readonly hears: Hears;
}

/** Hears what a canister's executor says of the canister. */
interface Hears {
  readonly ended: (ended: EndedStep) => void;
  readonly changed: (changes: readonly Uint8Array[]) => void;
  readonly credited: (balance: bigint) => void;
  readonly lost: () => void;
}

/** An execution with the module in it. */
export class Bench {
  readonly execution: Execution;
  readonly module: ModuleInfo;
  readonly #turn: (() => Promise<void>) | undefined;
  #canisters = 0;
  readonly #hears = new Map<number, Hears>();

  private constructor({ execution, turn }: MadeExecution, module: ModuleInfo) {
    this.execution = execution;
    this.module = module;
    this.#turn = turn;
    execution.attend({
      changed: (handle, changes) => this.#hears.get(handle)?.changed(changes),
      settled: () => Promise.resolve(),
      credited: (handle, balance) => this.#hears.get(handle)?.credited(balance),
      lost: (handle) => this.#hears.get(handle)?.lost(),
    });
  }

  static async over(made: MadeExecution): Promise<Bench> {
    return new Bench(made, await until(made.execution.prepare(CONTRACT_CANISTER), made.turn));
  }

  until<T>(promise: Promise<T>): Promise<T> {
    return until(promise, this.#turn);
  }

  /** Resolves when requests that have no answer have been carried out. */
  async idle(): Promise<void> {
    await this.until(this.execution.trim());
  }

  async fails(promise: Promise<unknown>, kind: ServerError['kind'], code?: string): Promise<void> {
    await assert.rejects(
      this.until(promise),
      (error) =>
        error instanceof ServerError &&
        error.kind === kind &&
        error.message !== '' &&
        (code ?? error.code) === error.code,
    );
  }

  create(more: Partial<CanisterSpec> = {}, stored?: Overlay): Canister {
    const diary: string[] = [];
    const lines: string[] = [];
    let last: ToldStep | undefined;
    let balance = BALANCE;
    const spec = {
      id: Uint8Array.of(0, 0, 0, 0, 0, 0, 0, ++this.#canisters, 1, 1),
      balance,
      controllers: [CALLER],
      env: new Map<string, string>(),
      ...more,
    };
    const changed = (changes: readonly Uint8Array[]): void => {
      for (const piece of changes) {
        diary.push('changed');
        stored?.apply(piece.slice());
      }
    };
    const ended = (told: EndedStep): void => {
      if (told.isReturned) return;
      for (const { text } of told.lines) {
        diary.push(`debug ${text}`);
        lines.push(text);
      }
      changed(told.changes);
      diary.push('ended');
      last = told;
      balance = told.balance ?? balance - BigInt(told.step.charge);
    };
    const hears = { ended, changed, credited: (now: bigint) => void (balance = now), lost: () => diary.push('lost') };
    const lastStep = (): ToldStep => {
      assert.ok(last !== undefined, 'no step has ended');
      return last;
    };
    const handle = this.#heard(this.execution.create(spec), hears);
    return { handle, spec, hears, lines, diary, last: lastStep, balance: () => balance };
  }

  /** The same canister, as after a restart: nobody has seen it before. */
  bornAsleep(canister: Canister): Canister {
    const handle = this.execution.createAsleep(canister.last().instantMs);
    return { ...canister, handle: this.#heard(handle, canister.hears) };
  }

  #heard(handle: number, hears: Hears): number {
    this.#hears.set(handle, hears);
    return handle;
  }

  async installed(argument: Uint8Array = NONE, more: Partial<CanisterSpec> = {}, stored?: Overlay): Promise<Canister> {
    const canister = this.create(more, stored);
    const step = await this.change(canister, this.module, { ...INSTALL, argument });
    assert.equal(step.fault, undefined);
    return canister;
  }

  change({ handle, hears }: Canister, module: ModuleInfo, change: CodeChange): Promise<Step> {
    return this.#once(hears, (ended) => this.execution.change(handle, module, change, ended));
  }

  run({ handle, hears }: Canister, task: Task): Promise<Step> {
    return this.#once(hears, (ended) => this.execution.run(handle, task, ended));
  }

  update(canister: Canister, method: string, argument: Uint8Array = NONE): Promise<Step> {
    return this.run(canister, this.task('update', method, argument));
  }

  query(canister: Canister, method: string): Promise<Step> {
    return this.run(canister, this.task('query', method));
  }

  /** Returns the answer of each of these methods, called one after the other. */
  async counts(canister: Canister, ...methods: readonly string[]): Promise<number[]> {
    const counts: number[] = [];
    for (const method of methods) counts.push(countOf(await this.update(canister, method)));
    return counts;
  }

  task(kind: 'update' | 'query', method: string, argument: Uint8Array = NONE, more: Partial<ContextView> = {}): Task {
    const exported = this.module.methods.get(method) ?? 'update';
    const entry = this.entry(`canister_${exported} ${method}`);
    return { kind, entry, argument, context: { ...contextOf(), ...more }, instructionsMax: FULL_LIMIT };
  }

  entry(name: string): number {
    const entry = this.module.entries.get(name);
    assert.ok(entry !== undefined, name);
    return entry;
  }

  #once({ ended }: Hears, give: (ended: (ended: EndedStep) => void) => void): Promise<Step> {
    const step = new Promise<Step>((resolve) =>
      give((told) => {
        ended(told);
        resolve(told.step);
      }),
    );
    return this.until(step);
  }
}

async function until<T>(promise: Promise<T>, turn: (() => Promise<void>) | undefined): Promise<T> {
  if (turn === undefined) return promise;
  let isSettled = false;
  const settle = (): void => void (isSettled = true);
  promise.then(settle, settle);
  while (!isSettled) await turn();
  return promise;
}

export function contextOf(): ContextView {
  return { caller: CALLER, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };
}

/** Returns the canister's description for an execution that is to wake it, as it was told to sleep. */
export function asleep({ module }: Bench, { spec, last, balance }: Canister, stored: Overlay): SleepingCanister {
  const { heapBytes, stableBytes, instantMs, ...told } = last();
  const part = (letter: 'g' | 'd'): Uint8Array => stored.get('meta', metaKey(letter, spec.id)) ?? NONE;
  return {
    spec: { ...spec, balance: balance() },
    settings: {
      ...numbersOf(told),
      controllers: spec.controllers,
      env: spec.env,
      status: 'running',
      heapBytesMax: Number.POSITIVE_INFINITY,
    },
    timerNs: 0n,
    instantMs,
    heapBytes,
    stablePages: stableBytes / PAGE_BYTES,
    module,
    memory: stored.memoryOf(spec.id),
    copy: 0,
    globals: part(META.globals),
    certifiedData: part(META.certifiedData),
    openCalls: [],
    log: undefined,
  };
}

export function countIn(stored: Overlay): number {
  const [[, value] = []] = stored.range('meta', metaKey(META.globals));
  return value === undefined ? -1 : Buffer.from(value).readUInt32LE();
}

export function countOf({ answer, fault }: Step): number {
  assert.ok(answer?.kind === 'reply' && answer.data.length === 4, fault?.message ?? 'no reply of four bytes');
  return Buffer.from(answer.data).readUInt32LE();
}

export const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
export const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');
