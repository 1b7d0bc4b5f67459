/**
 * An execution without code: canisters whose steps are drawn at random, in lanes that run when the simulation says so.
 * It holds what the scheduler relies on (tasks of a lane in the order given, steps in that order) and checks what the
 * executors rely on: tasks are plain data, entry points belong to the code that is there, a call is answered once and
 * calls from one canister to another start in the order made.
 */
import assert from 'node:assert/strict';
import {
  type Execution,
  type ModuleInfo,
  NOTHING_RAN,
  type OutgoingCall,
  type Step,
  type Task,
} from '../../subsystems/execution/index.ts';
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

/** What is to be stored of a canister. */
export class Books {
  balance = 0n;
  version: number | undefined = undefined;
  /** Its calls that are not answered, by number. */
  openCalls = new Set<number>();
  /** Calls of others that have started here, by number. */
  started = new Set<number>();
  /** Calls to each canister, and the last that started of each. */
  made = new Map<number, number>();
  startedOf = new Map<string, number>();

  copy(): Books {
    const { balance, version, openCalls, started, made, startedOf } = this;
    return Object.assign(new Books(), {
      balance,
      version,
      openCalls: new Set(openCalls),
      started: new Set(started),
      made: new Map(made),
      startedOf: new Map(startedOf),
    });
  }
}

type Change = (books: Books) => void;

interface Lane {
  jobs: Job[];
  /** Executed, and on their way back, with what they change. */
  ended: { readonly job: Job; readonly step: Step; readonly changes: readonly Change[] }[];
  isAlive: boolean;
}

interface SimulatedCanister {
  readonly handle: number;
  lane: Lane;
  readonly laneNumber: number;
  /** As of what has executed, and as of what has been handed back. */
  books: Books;
  told: Books;
  isAsleep: boolean;
  isRemoved: boolean;
  /** Calls of its composite queries that are not answered. */
  readonly queryCalls: Set<number>;
  /** Suspended composite queries, each with the number of its open calls. */
  readonly frames: Map<number, number>;
}

export interface SimulationOptions {
  readonly lanes: number;
  readonly hasTimeouts: boolean;
  /** Calls before this one were made by another. */
  readonly firstCall?: number;
}

export class SimulatedExecution implements Partial<Omit<Execution, 'create' | 'sleep' | 'wake'>> {
  readonly lanes: number;
  readonly canisters: SimulatedCanister[] = [];
  readonly #draw: Draw;
  readonly #options: SimulationOptions;
  readonly #lanes: Lane[];
  #calls: number;
  #frames = 0;
  /** Of the job that executes. */
  #changes: Change[] = [];
  #isStopping = false;
  /** Balances that went with deleted canisters and dead lanes. */
  destroyed = 0n;
  steps = 0;

  constructor(draw: Draw, options: SimulationOptions) {
    this.#draw = draw;
    this.#options = options;
    this.lanes = options.lanes;
    this.#calls = options.firstCall ?? 0;
    this.#lanes = Array.from({ length: options.lanes }, () => ({ jobs: [], ended: [], isAlive: true }));
  }

  aheadOf(): number {
    return 0;
  }

  create(balance: bigint): number {
    const books = new Books();
    books.balance = balance;
    return this.add(books, false);
  }

  /** A canister that was there before. */
  add(books: Books, isAsleep: boolean): number {
    const handle = this.canisters.length;
    const laneNumber = handle % this.lanes;
    const lane = this.#lanes[laneNumber];
    assert.ok(lane !== undefined);
    const frames = new Map<number, number>();
    const told = books.copy();
    this.canisters.push({
      handle,
      lane,
      laneNumber,
      books,
      told,
      isAsleep,
      isRemoved: false,
      frames,
      queryCalls: new Set(),
    });
    return handle;
  }

  get balances(): bigint {
    return this.canisters.reduce((sum, { books }) => sum + books.balance, 0n);
  }

  get calls(): number {
    return this.#calls;
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
      this.#change(canister, (books) => (books.version = Number(module.hash)));
      return { ...NOTHING_RAN, timerNs: 0n };
    };
    this.#push({ handle, work, done });
  }

  uninstall(handle: number): Promise<void> {
    const canister = this.#at(handle);
    return new Promise((resolve, reject) => {
      const work = (): void => this.#change(canister, (books) => (books.version = undefined));
      this.#command(canister, work, (isDone) => (isDone ? resolve() : reject(new Error('died'))));
    });
  }

  configure(handle: number): void {
    this.#at(handle);
  }

  addCycles(handle: number, amount: bigint): Promise<bigint> {
    const canister = this.#at(handle);
    return new Promise((resolve, reject) => {
      const work = (): void => this.#change(canister, (books) => (books.balance += amount));
      this.#command(canister, work, (isDone) => {
        if (isDone) resolve(canister.told.balance);
        else reject(new Error('died'));
      });
    });
  }

  remove(handle: number): void {
    const canister = this.#at(handle);
    canister.isRemoved = true;
    this.#command(canister, () => {
      this.destroyed += canister.books.balance;
      this.#change(canister, (books) => (books.balance = 0n));
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
      this.#handBack(lane);
      return;
    }
    const job = lane.jobs.shift();
    if (job === undefined) return;
    this.steps++;
    this.#changes = [];
    const step = job.work();
    lane.ended.push({ job, step, changes: this.#changes });
  }

  #handBack(lane: Lane): void {
    const ended = lane.ended.shift();
    if (ended === undefined) return;
    const { job, step, changes } = ended;
    const { told } = this.#at(job.handle, true);
    for (const change of changes) change(told);
    job.done(step);
  }

  /** A lane dies, and is replaced: the handles that were in it. What it executed last it does not hand back any more. */
  kill(at: number, isKept = false): number[] {
    const lane = this.#lanes[at];
    assert.ok(lane !== undefined);
    lane.isAlive = false;
    const dropped = isKept ? lane.ended.splice(this.#draw(lane.ended.length + 1)) : [];
    while (lane.ended.length > 0) this.#handBack(lane);
    const jobs = [...dropped.map(({ job }) => job), ...lane.jobs.splice(0)];
    // Not in the order they were given.
    while (jobs.length > 0) jobs.splice(this.#draw(jobs.length), 1)[0]?.done(unavailableStep('died'));
    this.#lanes[at] = { jobs: [], ended: [], isAlive: true };
    const lost = this.canisters.filter((each) => each.lane === lane && !each.isRemoved && !each.isAsleep);
    for (const each of lost) {
      if (isKept) {
        each.isAsleep = true;
        continue;
      }
      this.destroyed += each.books.balance;
      each.books.balance = 0n;
    }
    return lost.map(({ handle }) => handle);
  }

  sleep(handle: number): void {
    const canister = this.#at(handle);
    assert.ok(!canister.isAsleep, 'it sleeps once');
    assert.ok(!canister.lane.jobs.some((job) => job.handle === handle), 'what sleeps has nothing to do');
    assert.ok(!canister.lane.ended.some(({ job }) => job.handle === handle), 'nor has it anything to tell');
    assert.equal(canister.frames.size, 0, 'no query waits in it');
    canister.isAsleep = true;
  }

  wake(handle: number): void {
    const canister = this.#at(handle);
    assert.ok(canister.isAsleep, 'it is woken once');
    const lane = this.#lanes[canister.laneNumber];
    assert.ok(lane !== undefined);
    canister.lane = lane;
    canister.books = canister.told.copy();
    canister.frames.clear();
    canister.queryCalls.clear();
    canister.isAsleep = false;
  }

  // ---- inside

  #at(handle: number, mayBeRemoved = false): SimulatedCanister {
    const canister = this.canisters[handle];
    if (canister === undefined || (canister.isRemoved && !mayBeRemoved)) throw new Error(`no canister ${handle}`);
    return canister;
  }

  /** Now, and in what is told when the job's end is handed back. */
  #change(canister: SimulatedCanister, change: Change): void {
    change(canister.books);
    this.#changes.push(change);
  }

  #push(job: Job): void {
    const { lane, isAsleep } = this.#at(job.handle);
    assert.ok(!isAsleep || !lane.isAlive, 'a sleeping canister gets no tasks');
    if (lane.isAlive) lane.jobs.push(job);
    else queueMicrotask(() => job.done(unavailableStep('died')));
  }

  #command({ lane, handle }: SimulatedCanister, work: () => void, ended?: (isDone: boolean) => void): void {
    const step = (): Step => {
      work();
      return NOTHING_RAN;
    };
    if (lane.isAlive) lane.jobs.push({ handle, work: step, done: ({ fault }) => ended?.(fault === undefined) });
    else ended?.(false);
  }

  #execute(canister: SimulatedCanister, task: Task): Step {
    if (this.#isStopping) return unavailableStep('the server is stopping');
    if (task.kind === 'dropFrame') {
      assert.ok(canister.frames.delete(task.frame), 'a frame is dropped once');
      return NOTHING_RAN;
    }
    if (task.kind === 'callback') return this.#callback(canister, task);
    const version = Math.floor(task.entry / ENTRIES_PER_VERSION);
    // The engine's answer to a task whose code went while it was on its way.
    if (canister.books.version === undefined) return faulted('trap');
    assert.equal(version, canister.books.version, 'the entry point belongs to the code that is there');
    if (task.kind === 'inspect') {
      return this.#draw(5) === 0 ? faulted('trap') : { ...NOTHING_RAN, isAccepted: this.#draw(4) > 0 };
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
    const { openCalls } = canister.books;
    assert.ok(openCalls.has(call) || canister.queryCalls.delete(call), `call ${call} gets one response`);
    this.#change(canister, (books) => {
      books.openCalls.delete(call);
      books.balance += task.refunded;
    });
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
    const caller = Buffer.from(context.caller).toString('hex');
    const view = new DataView(argument.buffer, argument.byteOffset);
    const [number, call] = [view.getUint32(4), view.getUint32(8)];
    const { started, startedOf } = canister.books;
    assert.ok(!started.has(call), `call ${call} starts once`);
    assert.ok(number > (startedOf.get(caller) ?? 0), `call ${number} of ${caller} starts after the ones before it`);
    this.#change(canister, (books) => {
      books.started.add(call);
      books.startedOf.set(caller, number);
    });
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
    this.#change(canister, (books) => (books.balance += cyclesAccepted));
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
      for (const { callbacks } of calls.splice(0)) {
        canister.queryCalls.delete(new DataView(callbacks.buffer).getUint32(0));
      }
    } else if (isComposite && calls.length + openBefore > 0) {
      frame = ++this.#frames;
      canister.frames.set(frame, calls.length + openBefore);
    }
    const timerNs = !isComposite && draw(6) === 0 ? BigInt(draw(5000)) * 1_000_000n : undefined;
    return { ...NOTHING_RAN, answer, calls, cyclesAccepted, timerNs, frame, instructions: 1, charge: 0 };
  }

  #call(canister: SimulatedCanister, fuel: number, isComposite: boolean): OutgoingCall {
    const draw = this.#draw;
    const call = ++this.#calls;
    const callbacks = new Uint8Array(56);
    const view = new DataView(callbacks.buffer);
    view.setUint32(0, call);
    view.setUint8(4, fuel);
    view.setUint8(5, isComposite ? 1 : 0);
    const to = draw(12) === 0 ? 999 : draw(this.canisters.length);
    const callee = !isComposite && draw(10) === 0 ? new Uint8Array(0) : simulatedId(to);
    const cycles = isComposite ? 0n : BigInt(draw(Math.min(100, Number(canister.books.balance)) + 1));
    const method = isComposite ? (draw(2) === 0 ? 'c' : 'q') : draw(15) === 0 ? 'missing' : draw(8) === 0 ? 'q' : 'm';
    const payload = new Uint8Array(12);
    payload[0] = fuel;
    const number = (canister.books.made.get(to) ?? 0) + 1;
    if (isComposite) canister.queryCalls.add(call);
    this.#change(canister, (books) => {
      if (!isComposite) books.openCalls.add(call);
      books.balance -= cycles;
      books.made.set(to, number);
    });
    new DataView(payload.buffer).setUint32(4, number);
    new DataView(payload.buffer).setUint32(8, call);
    const timeoutSeconds = this.#options.hasTimeouts && draw(3) === 0 ? 1 + draw(3) : undefined;
    return { callee, method, payload, cycles, timeoutSeconds, callbacks };
  }
}

function faulted(kind: 'trap' | 'limit'): Step {
  return { ...NOTHING_RAN, fault: { kind, code: 5, message: kind } };
}
