/**
 * An execution without code: canisters whose steps are drawn at random, in lanes that run when the simulation says so.
 * It holds what the scheduler relies on (tasks of a lane in the order given, steps in that order) and checks what the
 * executors rely on: tasks are plain data, entry points belong to the code that is there, a call is answered once and
 * calls from one canister to another start in the order made.
 */
import assert from 'node:assert/strict';
import type { Execution, ModuleInfo, OutgoingCall, Step, Task } from '../../subsystems/execution/index.ts';
import { unavailableStep } from '../../subsystems/execution/unavailable-step.ts';

export type Draw = (below: number) => number;

/** Entry points have other numbers in each version: one that is run on the wrong code shows. */
const ENTRIES_PER_VERSION = 16;
const METHODS = [
  ['canister_update m', 'm', 'update'],
  ['canister_query q', 'q', 'query'],
  ['canister_composite_query c', 'c', 'composite_query'],
  ['canister_heartbeat'],
  ['canister_global_timer'],
  ['canister_inspect_message'],
] as const;

let versions = 0;
export function simulatedModule(): ModuleInfo & { readonly version: number } {
  const version = ++versions;
  const entries = new Map(METHODS.map(([exported], at) => [exported as string, version * ENTRIES_PER_VERSION + at]));
  // Every second version has no inspection and no heartbeat.
  if (version % 2 === 0) {
    entries.delete('canister_inspect_message');
    entries.delete('canister_heartbeat');
  }
  const methods = new Map(METHODS.flatMap(([, name, kind]) => (name === undefined ? [] : [[name, kind] as const])));
  return {
    version,
    hash: String(version),
    pointerWidth: 32,
    methods,
    entries,
    globals: [],
    globalsBytes: 0,
    metadata: new Map(),
    candid: undefined,
    candidArgs: undefined,
  };
}

export function simulatedId(handle: number): Uint8Array {
  return Uint8Array.of(handle >> 8, handle & 255, 1, 1);
}

interface Job {
  readonly handle: number;
  readonly work: () => Step;
  readonly done: (step: Step) => void;
}

interface Lane {
  jobs: Job[];
  /** Executed, and on their way back. */
  ended: (() => void)[];
  isAlive: boolean;
}

interface SimulatedCanister {
  readonly handle: number;
  readonly lane: Lane;
  readonly laneNumber: number;
  balance: bigint;
  version: number | undefined;
  isRemoved: boolean;
  /** Suspended composite queries, each with the number of its open calls. */
  readonly frames: Map<number, number>;
}

export interface SimulationOptions {
  readonly lanes: number;
  readonly hasTimeouts: boolean;
}

export class SimulatedExecution implements Partial<Omit<Execution, 'create'>> {
  readonly lanes: number;
  readonly canisters: SimulatedCanister[] = [];
  readonly #draw: Draw;
  readonly #options: SimulationOptions;
  readonly #lanes: Lane[];
  /** Calls made and not answered, by number. */
  readonly openCalls = new Set<number>();
  #calls = 0;
  #frames = 0;
  /** Calls per pair, and the last that started. */
  readonly #made = new Map<string, number>();
  readonly #startedOf = new Map<string, number>();
  #isStopping = false;
  /** Balances that went with deleted canisters and dead lanes. */
  destroyed = 0n;
  steps = 0;

  constructor(draw: Draw, options: SimulationOptions) {
    this.#draw = draw;
    this.#options = options;
    this.lanes = options.lanes;
    this.#lanes = Array.from({ length: options.lanes }, () => ({ jobs: [], ended: [], isAlive: true }));
  }

  create(balance: bigint): number {
    const handle = this.canisters.length;
    const laneNumber = handle % this.lanes;
    const lane = this.#lanes[laneNumber];
    assert.ok(lane !== undefined);
    const frames = new Map<number, number>();
    this.canisters.push({ handle, lane, laneNumber, balance, version: undefined, isRemoved: false, frames });
    return handle;
  }

  get balances(): bigint {
    return this.canisters.reduce((sum, { balance }) => sum + balance, 0n);
  }

  // ---- what the scheduler uses

  laneOf(handle: number): number {
    return this.#at(handle).laneNumber;
  }

  run(handle: number, task: Task, done: (step: Step) => void): void {
    // A large one crosses by structured clone: what does not survive that is a mistake.
    const copy = structuredClone(task);
    const canister = this.#at(handle);
    this.#push({ handle, work: () => this.#execute(canister, copy), done });
  }

  change(handle: number, module: ModuleInfo, _change: unknown, done: (step: Step) => void): void {
    const canister = this.#at(handle);
    const work = (): Step => {
      if (this.#draw(4) === 0) return faulted('trap');
      canister.version = Number(module.hash);
      return { ...NOTHING, timerNs: 0n };
    };
    this.#push({ handle, work, done });
  }

  uninstall(handle: number): void {
    const canister = this.#at(handle);
    this.#command(canister, () => (canister.version = undefined));
  }

  configure(handle: number): void {
    this.#at(handle);
  }

  addCycles(handle: number, amount: bigint): Promise<bigint> {
    const canister = this.#at(handle);
    return new Promise((resolve) => {
      this.#command(canister, () => {
        canister.balance += amount;
        resolve(canister.balance);
      });
    });
  }

  remove(handle: number): void {
    const canister = this.#at(handle);
    canister.isRemoved = true;
    this.#command(canister, () => {
      this.destroyed += canister.balance;
      canister.balance = 0n;
    });
  }

  refuseNew(): void {
    this.#isStopping = true;
  }

  // ---- what the simulation uses

  get isIdle(): boolean {
    return this.#lanes.every(({ jobs, ended }) => jobs.length === 0 && ended.length === 0);
  }

  /** One lane executes its next job, or hands back a step. */
  advance(): void {
    const lane = this.#lanes[this.#draw(this.lanes)];
    if (lane === undefined) return;
    if (this.#draw(2) === 0) {
      const ended = lane.ended.shift();
      ended?.();
      return;
    }
    const job = lane.jobs.shift();
    if (job === undefined) return;
    this.steps++;
    const step = job.work();
    lane.ended.push(() => job.done(step));
  }

  /** A lane dies, and is replaced: the handles that were in it. */
  kill(at: number): number[] {
    const lane = this.#lanes[at];
    assert.ok(lane !== undefined);
    lane.isAlive = false;
    for (const ended of lane.ended.splice(0)) ended();
    for (const { done } of lane.jobs.splice(0)) done(unavailableStep('died'));
    this.#lanes[at] = { jobs: [], ended: [], isAlive: true };
    const lost = this.canisters.filter((each) => each.lane === lane && !each.isRemoved);
    for (const each of lost) {
      this.destroyed += each.balance;
      each.balance = 0n;
    }
    return lost.map(({ handle }) => handle);
  }

  // ---- inside

  #at(handle: number): SimulatedCanister {
    const canister = this.canisters[handle];
    if (canister === undefined || canister.isRemoved) throw new Error(`no canister ${handle}`);
    return canister;
  }

  #push(job: Job): void {
    const { lane } = this.#at(job.handle);
    if (lane.isAlive) lane.jobs.push(job);
    else queueMicrotask(() => job.done(unavailableStep('died')));
  }

  #command({ lane, handle }: SimulatedCanister, work: () => void): void {
    const step = (): Step => {
      work();
      return NOTHING;
    };
    if (lane.isAlive) lane.jobs.push({ handle, work: step, done: () => undefined });
  }

  #execute(canister: SimulatedCanister, task: Task): Step {
    if (this.#isStopping) return unavailableStep('the server is stopping');
    if (task.kind === 'dropFrame') {
      assert.ok(canister.frames.delete(task.frame), 'a frame is dropped once');
      return NOTHING;
    }
    if (task.kind === 'callback') return this.#callback(canister, task);
    const version = Math.floor(task.entry / ENTRIES_PER_VERSION);
    // The engine's answer to a task whose code went while it was on its way.
    if (canister.version === undefined) return faulted('trap');
    assert.equal(version, canister.version, 'the entry point belongs to the code that is there');
    if (task.kind === 'inspect') {
      return this.#draw(5) === 0 ? faulted('trap') : { ...NOTHING, isAccepted: this.#draw(4) > 0 };
    }
    if (task.kind === 'system') return this.#step(canister, 2, false, 0n, false);
    this.#checkOrder(canister, task);
    assert.ok(task.context.canAnswer, 'a call starts unanswered');
    const fuel = task.argument[0] ?? 0;
    const isQuery = task.kind === 'query';
    const isComposite = isQuery && task.entry % ENTRIES_PER_VERSION === 2;
    if (isQuery && !isComposite) return { ...this.#step(canister, 0, true, 0n, false), timerNs: undefined };
    return this.#step(canister, fuel, true, task.context.cyclesAvailable, isComposite);
  }

  #callback(canister: SimulatedCanister, task: Extract<Task, { kind: 'callback' }>): Step {
    const view = new DataView(task.callbacks.buffer, task.callbacks.byteOffset);
    const call = view.getUint32(0);
    assert.ok(this.openCalls.delete(call), `call ${call} gets one response`);
    canister.balance += task.refunded;
    const { canAnswer, cyclesAvailable } = task.context;
    const isComposite = view.getUint8(5) === 1;
    let open = 0;
    if (isComposite) {
      open = (canister.frames.get(task.frame) ?? 0) - 1;
      assert.ok(open >= 0, `the frame ${task.frame} is there`);
      canister.frames.delete(task.frame);
    }
    return this.#step(canister, view.getUint8(4), canAnswer, cyclesAvailable, isComposite, open);
  }

  #checkOrder(
    canister: SimulatedCanister,
    { kind, argument, context }: Extract<Task, { kind: 'update' | 'query' }>,
  ): void {
    if (kind !== 'update' || argument.length < 8) return;
    const pair = `${Buffer.from(context.caller).toString('hex')} ${canister.handle}`;
    const number = new DataView(argument.buffer, argument.byteOffset).getUint32(4);
    assert.ok(number > (this.#startedOf.get(pair) ?? 0), `call ${number} of ${pair} starts after the ones before it`);
    this.#startedOf.set(pair, number);
  }

  #step(
    canister: SimulatedCanister,
    fuel: number,
    canAnswer: boolean,
    available: bigint,
    isComposite: boolean,
    openBefore = 0,
  ): Step {
    const draw = this.#draw;
    if (draw(8) === 0) return faulted(draw(2) === 0 ? 'trap' : 'limit');
    const cyclesAccepted = available > 0n ? BigInt(draw(Number(available) + 1)) : 0n;
    canister.balance += cyclesAccepted;
    const calls: OutgoingCall[] = [];
    if (fuel > 0) for (let n = draw(4); n > 0; n--) calls.push(this.#call(canister, fuel - 1, isComposite));
    let answer: Step['answer'];
    if (canAnswer && draw(3) > 0) {
      const data = new Uint8Array(8);
      answer = draw(2) === 0 ? { kind: 'reply', data } : { kind: 'reject', code: 4, message: 'no' };
    }
    let frame = 0;
    if (isComposite && answer !== undefined) {
      // A query that has answered makes no calls and waits for none.
      for (const { callbacks } of calls.splice(0)) this.openCalls.delete(new DataView(callbacks.buffer).getUint32(0));
    } else if (isComposite && calls.length + openBefore > 0) {
      frame = ++this.#frames;
      canister.frames.set(frame, calls.length + openBefore);
    }
    const timerNs = !isComposite && draw(6) === 0 ? BigInt(draw(5000)) * 1_000_000n : undefined;
    return { ...NOTHING, answer, calls, cyclesAccepted, timerNs, frame, instructions: 1, charge: 0 };
  }

  #call(canister: SimulatedCanister, fuel: number, isComposite: boolean): OutgoingCall {
    const draw = this.#draw;
    const call = ++this.#calls;
    this.openCalls.add(call);
    const callbacks = new Uint8Array(56);
    const view = new DataView(callbacks.buffer);
    view.setUint32(0, call);
    view.setUint8(4, fuel);
    view.setUint8(5, isComposite ? 1 : 0);
    const to = draw(12) === 0 ? 999 : draw(this.canisters.length);
    const callee = !isComposite && draw(10) === 0 ? new Uint8Array(0) : simulatedId(to);
    const cycles = isComposite ? 0n : BigInt(draw(Math.min(100, Number(canister.balance)) + 1));
    canister.balance -= cycles;
    const method = isComposite ? (draw(2) === 0 ? 'c' : 'q') : draw(15) === 0 ? 'missing' : draw(8) === 0 ? 'q' : 'm';
    const payload = new Uint8Array(8);
    payload[0] = fuel;
    const pair = `${canister.handle} ${to}`;
    const number = (this.#made.get(pair) ?? 0) + 1;
    this.#made.set(pair, number);
    new DataView(payload.buffer).setUint32(4, number);
    const timeoutSeconds = this.#options.hasTimeouts && draw(3) === 0 ? 1 + draw(3) : undefined;
    return { callee, method, payload, cycles, timeoutSeconds, callbacks };
  }
}

const NOTHING: Step = {
  fault: undefined,
  answer: undefined,
  calls: [],
  cyclesAccepted: 0n,
  timerNs: undefined,
  isAccepted: false,
  frame: 0,
  instructions: 0,
  charge: 0,
};

function faulted(kind: 'trap' | 'limit'): Step {
  return { ...NOTHING, fault: { kind, code: 5, message: kind } };
}
