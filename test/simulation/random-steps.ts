/**
 * Effects of messages of canisters without code, drawn at random.
 *
 * A task is checked first: its entry point belongs to the installed code, its payload is whole, a call is answered once
 * and with the answer that belongs to it, and calls from one canister to another start in the order in which they were
 * made. Every call has a number, which its answer echoes.
 */
import assert from 'node:assert/strict';
import type { EngineResult } from '../../subsystems/execution/engine/engine.ts';
import {
  NOTHING_RAN,
  CALL_BYTES_PER_TURN,
  CALLS_PER_TURN,
  type OutgoingCall,
  type OutputLine,
  type Response,
  type Step,
  type StepFault,
  type Task,
} from '../../subsystems/ic/index.ts';
import type { CodeChange } from '../../subsystems/execution/index.ts';
import { CALL_KINDS, type CallKind, type Change } from './books.ts';
import { COMPOSITE, EMPTY, ENTRIES_PER_VERSION, type RandomCode, TIMER } from './random-modules.ts';
import type { Subject } from './random-subject.ts';
import { type Draw, drawBytes, seal, sealText, unseal, unsealText } from './sealed.ts';
import type { Tally } from './tally.ts';

/** The part of the simulation that engines use. */
export interface EngineHost {
  readonly draw: Draw;
  /** Chance of messages that make more calls than one turn sends; undefined: no message does. */
  readonly drawBurst: Draw | undefined;
  readonly tally: Tally;
  /** True if calls may be best-effort calls. */
  readonly hasTimeouts: boolean;
  /** True if waking a canister may fail. */
  readonly hasFailures: boolean;
  /** Numbers of calls that get replies without any bytes. */
  readonly emptyReplies: Set<number>;
  /** Number of canisters so far. */
  readonly count: number;
  /** Returns the number for the next call. */
  nextNumber(): number;
  handleOf(id: Uint8Array): number;
  /** Returns true if the thread dies now. */
  dies(): boolean;
  /** Called when an executor has got a canister. */
  arrived(subject: Subject): void;
  /** Returns true if a canister is about to be deleted, so that its executing message is ended. */
  isDoomed(handle: number): boolean;
  /** Called when a canister is gone for good. */
  removed(subject: Subject): void;
  /** Reports a problem. */
  problem(error: unknown): void;
}

/** Argument of an installation by an operator. */
export const OPERATOR = 'operator';

/** One message in this many may make a burst of calls. */
const BURST_ONE_IN = 60;

const FAULTS = ['trap', 'limit', 'calledTrap', 'noCallback'] as const;

type CallbackTask = Extract<Task, { readonly kind: 'callback' }>;

/** Data that a call passes to its callbacks. */
interface CallNote {
  readonly call: number;
  readonly fuel: number;
  readonly isComposite: boolean;
  /** True if the call was made without any bytes. */
  readonly isEmpty: boolean;
  /** The call that the caller's context answers; 0: none, or an unknown one. */
  readonly cause: number;
  /** Instance of the code that made the call. */
  readonly instance: number;
  readonly as: CallKind;
}

/** Parameters of one message. */
interface Message {
  readonly subject: Subject;
  /** Maximum depth of further calls. */
  readonly fuel: number;
  readonly canAnswer: boolean;
  /** Cycles that the message may accept. */
  readonly available: bigint;
  readonly isComposite: boolean;
  /** Number of calls that a composite query has open already. */
  readonly open: number;
  readonly cause: number;
  /** True if the message is a timer or a heartbeat. */
  readonly isTimer?: boolean;
}

export function simulatedId(handle: number): Uint8Array {
  return Uint8Array.of(handle >> 8, handle & 255, 1, 1);
}

/**
 * Returns the argument of a call of `m` or `c`: the maximum depth of calls, the call's place among the calls of the
 * pair, the call's number, the caller's instance.
 */
export function sealArgument(fuel: number, place: number, call: number, bytes: number, instance = 0): Uint8Array {
  const content = Buffer.alloc(16);
  content.writeUInt32LE(instance, 12);
  content.writeUInt32LE(fuel, 0);
  content.writeUInt32LE(place, 4);
  content.writeUInt32LE(call, 8);
  return seal(content, bytes);
}

/** Returns the answer of a call. */
export function sealEcho(call: number, bytes: number): Uint8Array {
  return seal(Buffer.from(String(call)), bytes);
}

/** Checks that an answer belongs to the call, if the answer says so. */
export function checkEcho(answer: Response, call: number, mayBeEmpty: boolean): void {
  const what = `the answer of call ${call}`;
  if (answer.kind === 'reply' && answer.data.length === 0) {
    assert.ok(mayBeEmpty, `${what} is not empty`);
    return;
  }
  const echo = answer.kind === 'reply' ? unseal(answer.data, what).toString() : unsealText(answer.message, what);
  if (echo !== undefined && echo !== '0') assert.equal(echo, String(call), `${what} is its own`);
}

export class RandomSteps {
  readonly #host: EngineHost;
  readonly #change: (subject: Subject, change: Change) => void;

  constructor(host: EngineHost, change: (subject: Subject, change: Change) => void) {
    this.#host = host;
    this.#change = change;
  }

  /** Handles a response: the call is no longer open, and its refund is back. */
  respond(subject: Subject, { callbacks, response, refunded, frame }: CallbackTask): void {
    const { call, isEmpty } = noteOf(callbacks);
    const isOpen = frame === 0 ? subject.books.openCalls.has(call) : subject.queryCalls.delete(call);
    assert.ok(isOpen, `call ${call} gets one response`);
    if (frame === 0) this.#change(subject, { kind: 'answered', call });
    if (refunded > 0n) this.#change(subject, { kind: 'balance', by: refunded });
    checkEcho(response, call, isEmpty || this.#host.emptyReplies.has(call));
  }

  run(subject: Subject, task: Task, instructions: number): EngineResult {
    const balance = subject.books.balance;
    const step = this.#run(subject, task);
    if (step.timerNs !== undefined) this.#change(subject, { kind: 'armed' });
    return {
      step: { ...step, instructions },
      debug: this.#lines(),
      // A refund has come with the task.
      isBalanceMoved: balance !== subject.books.balance || task.kind === 'callback',
    };
  }

  install(
    subject: Subject,
    { version, longOneIn }: RandomCode,
    change: CodeChange,
    instructions: number,
  ): EngineResult {
    let step: Step = { ...NOTHING_RAN, timerNs: 0n, instructions };
    if (this.#host.draw(4) === 0) step = this.#faulted('trap', 0);
    else {
      const { tally } = this.#host;
      const endsCalls = change.mode !== 'upgrade' && change.endsCalls === true;
      tally.framesLost += subject.frames.size;
      for (const as of subject.books.openCalls.values()) (endsCalls ? tally.ended : tally.survived)[as]++;
      subject.dropFrames();
      subject.longOneIn = longOneIn;
      const by =
        unseal(change.argument, 'the argument of an installation').toString() === OPERATOR ? OPERATOR : 'canister';
      this.#change(subject, { kind: 'code', version, by });
      if (endsCalls) this.#change(subject, { kind: 'emptied' });
    }
    return { step, debug: this.#lines(), isBalanceMoved: false };
  }

  #run(subject: Subject, task: Task): Step {
    if (task.kind === 'dropFrame') {
      const isThere = subject.frames.delete(task.frame) || subject.lostFrames.delete(task.frame);
      assert.ok(isThere, 'a frame is dropped once');
      return NOTHING_RAN;
    }
    if (task.kind === 'callback') return this.#callback(subject, task);
    const version = Math.floor(task.entry / ENTRIES_PER_VERSION);
    // Answers as the real engine does to a task whose code has gone meanwhile.
    if (subject.books.version === undefined) return unavailable('the canister contains no Wasm module');
    assert.equal(version, subject.books.version, 'the entry point belongs to the code that is there');
    if (task.kind === 'inspect') {
      this.#argument(task.argument, task.method === 'n');
      if (this.#host.draw(5) === 0) return this.#faulted('trap', 0);
      return { ...NOTHING_RAN, isAccepted: this.#host.draw(4) > 0 };
    }
    const plain = { subject, available: 0n, isComposite: false, open: 0 };
    const entry = task.entry % ENTRIES_PER_VERSION;
    if (task.kind === 'system') {
      if (entry === TIMER) assert.ok(subject.books.isArmed, 'a timer fires that the code before has set');
      return this.#step({ ...plain, fuel: 2, canAnswer: false, cause: 0, isTimer: true });
    }
    const { context } = task;
    assert.ok(context.canAnswer, 'a call starts unanswered');
    const { fuel, place, call, instance } = this.#argument(task.argument, entry === EMPTY);
    if (task.kind === 'update' && place > 0) {
      this.#checkOrder(subject, context.caller, place, call);
      if (Buffer.compare(context.caller, simulatedId(subject.handle)) === 0)
        this.#checkInstance(subject, instance, call);
    }
    const isComposite = task.kind === 'query' && entry === COMPOSITE;
    const mayCall = task.kind === 'update' || isComposite;
    const message = { ...plain, isComposite, canAnswer: true, cause: call, fuel: mayCall ? fuel : 0 };
    const step = this.#step({ ...message, available: mayCall ? context.cyclesAvailable : 0n });
    return mayCall ? step : { ...step, timerNs: undefined };
  }

  #callback(subject: Subject, { callbacks, context, frame }: CallbackTask): Step {
    const { call, fuel, isComposite, cause, instance, as } = noteOf(callbacks);
    assert.equal(isComposite, frame !== 0, 'a composite query goes on with its frame');
    let open = 0;
    if (isComposite) {
      if (subject.lostFrames.delete(frame))
        return unavailable('the state that the composite query waited with is gone');
      open = (subject.frames.get(frame) ?? 0) - 1;
      assert.ok(open >= 0, `the frame ${frame} is there`);
      subject.frames.delete(frame);
      assert.equal(instance, subject.books.instance, 'a composite query goes on in its own code');
    } else this.#checkInstance(subject, instance, call);
    if (as === 'oneWay') return this.#faulted('noCallback', cause);
    const { canAnswer, cyclesAvailable: available } = context;
    return this.#step({ subject, fuel, canAnswer, available, isComposite, open, cause });
  }

  /** Checks that requests of one instance come to another only where a canister has changed code. */
  #checkInstance({ handle, books }: Subject, instance: number, call: number): void {
    const { sealedInstance } = books;
    const what = `canister ${handle}: call ${call} of instance ${instance} comes back to instance ${books.instance}`;
    assert.ok(instance >= sealedInstance, `${what}, behind ${sealedInstance}`);
    if (instance < books.instance) this.#host.tally.across++;
  }

  #argument(
    argument: Uint8Array,
    isEmpty: boolean,
  ): { readonly fuel: number; readonly place: number; readonly call: number; readonly instance: number } {
    if (isEmpty) {
      assert.equal(argument.length, 0, 'what is called with nothing gets nothing');
      return { fuel: 1, place: 0, call: 0, instance: 0 };
    }
    const content = unseal(argument, 'an argument');
    const [fuel = 0, place = 0, call = 0, instance = 0] = [0, 4, 8, 12].map((at) => content.readUInt32LE(at));
    return { fuel, place, call, instance };
  }

  #checkOrder(subject: Subject, principal: Uint8Array, place: number, call: number): void {
    const caller = Buffer.from(principal).toString('hex');
    const { started, startedOf } = subject.books;
    assert.ok(!started.has(call), `call ${call} starts once`);
    assert.ok(place > (startedOf.get(caller) ?? 0), `call ${place} of ${caller} starts after the ones before it`);
    this.#change(subject, { kind: 'started', call, caller, number: place });
  }

  #step(message: Message): Step {
    const { subject, fuel, canAnswer, available, isComposite, open, cause } = message;
    const { draw } = this.#host;
    if (draw(8) === 0) return this.#faulted(FAULTS[draw(FAULTS.length)] ?? 'trap', cause);
    const cyclesAccepted = available > 0n ? BigInt(draw(Number(available) + 1)) : 0n;
    if (cyclesAccepted > 0n) this.#change(subject, { kind: 'balance', by: cyclesAccepted });
    const calls: OutgoingCall[] = [];
    if (fuel > 0) for (let n = draw(4); n > 0; n--) calls.push(this.#call(message));
    if (fuel > 0) calls.push(...this.#burst(message));
    const answer = canAnswer && draw(3) > 0 ? this.#answer(cause) : undefined;
    let frame = 0;
    if (isComposite && answer !== undefined) {
      // A query that has answered makes no calls and waits for none.
      for (const { callbacks } of calls.splice(0)) subject.queryCalls.delete(noteOf(callbacks).call);
    } else if (isComposite && calls.length + open > 0) {
      frame = this.#host.nextNumber();
      subject.frames.set(frame, calls.length + open);
    }
    if (!isComposite && draw(4) === 0) this.#change(subject, { kind: 'memory', value: subject.books.memory + 1 });
    const timerNs = !isComposite && draw(6) === 0 ? BigInt(draw(5000)) * 1_000_000n : undefined;
    return { ...NOTHING_RAN, answer, calls, cyclesAccepted, timerNs, frame };
  }

  #answer(cause: number): Response {
    const { draw, tally, emptyReplies } = this.#host;
    if (draw(2) === 0) {
      const message = sealText(String(cause), drawBytes(draw));
      tally.payload('reject', Buffer.byteLength(message));
      return { kind: 'reject', code: 4, message };
    }
    const isEmpty = draw(10) === 0;
    if (isEmpty) emptyReplies.add(cause);
    const data = isEmpty ? new Uint8Array(0) : sealEcho(cause, drawBytes(draw));
    tally.payload('reply', data.length);
    return { kind: 'reply', data };
  }

  /** Draws calls about the limit of one turn of the main thread: many calls without further ones, or few large ones. */
  #burst(message: Message): readonly OutgoingCall[] {
    const { drawBurst, tally } = this.#host;
    if (drawBurst === undefined || drawBurst(BURST_ONE_IN) > 0) return [];
    const isOfBytes = !message.isComposite && drawBurst(3) > 0;
    const kind = isOfBytes ? 'bytes' : 'calls';
    tally.bursts[kind]++;
    const around = (bound: number): number => bound - 3 + drawBurst(6);
    const count = isOfBytes ? 2 + drawBurst(14) : around(CALLS_PER_TURN * (1 + drawBurst(2)));
    const bytesOf = (): number => around(CALL_BYTES_PER_TURN >> drawBurst(2));
    const leaf = { ...message, fuel: 1 };
    return Array.from({ length: count }, () => this.#call(leaf, isOfBytes ? bytesOf() : undefined));
  }

  #call({ subject, fuel, isComposite, cause, isTimer = false }: Message, bytes?: number): OutgoingCall {
    const { draw, count, tally, hasTimeouts } = this.#host;
    const { books } = subject;
    const call = this.#host.nextNumber();
    const to = draw(12) === 0 ? 999 : draw(6) === 0 ? subject.handle : draw(count);
    const callee = !isComposite && draw(10) === 0 ? new Uint8Array(0) : simulatedId(to);
    const isOwn = to === subject.handle;
    const as = draw(10) === 0 ? 'oneWay' : isTimer ? 'timer' : callee.length === 0 ? 'system' : isOwn ? 'own' : 'other';
    const cycles = isComposite ? 0n : BigInt(draw(Math.min(100, Number(books.balance)) + 1));
    const isEmpty = !isComposite && draw(12) === 0;
    const method = isComposite ? (draw(2) === 0 ? 'c' : 'q') : draw(15) === 0 ? 'missing' : draw(8) === 0 ? 'q' : 'm';
    const place = (books.made.get(to) ?? 0) + 1;
    if (isComposite) subject.queryCalls.add(call);
    else this.#change(subject, { kind: 'called', call, as });
    if (cycles > 0n) this.#change(subject, { kind: 'balance', by: -cycles });
    this.#change(subject, { kind: 'numbered', to, number: place });
    const payload = isEmpty
      ? new Uint8Array(0)
      : sealArgument(fuel - 1, place, call, bytes ?? drawBytes(draw), books.instance);
    tally.payload('call', payload.length);
    const timeoutSeconds = hasTimeouts && draw(3) === 0 ? 1 + draw(3) : undefined;
    const { instance } = books;
    const callbacks = callbacksOf({ call, fuel: fuel - 1, isComposite, isEmpty, cause, instance, as });
    return { callee, method: isEmpty ? 'n' : method, payload, cycles, timeoutSeconds, callbacks };
  }

  #faulted(kind: StepFault['kind'], cause: number): Step {
    const message = sealText(String(cause), drawBytes(this.#host.draw));
    this.#host.tally.payload('trap', Buffer.byteLength(message));
    return { ...NOTHING_RAN, fault: { kind, code: 5, message } };
  }

  /** Draws the lines of a step; the last one has their number. */
  #lines(): readonly OutputLine[] {
    const { draw, tally } = this.#host;
    if (draw(4) > 0) return [];
    const count = 1 + draw(3);
    const step = this.#host.nextNumber();
    return Array.from({ length: count }, (_, at) => {
      const said = `${step} ${at + 1} ${count}`;
      const text = at + 1 < count && draw(8) === 0 ? '' : sealText(said, drawBytes(draw));
      const own = draw(8) === 0 ? sealText(`record of ${said}`, drawBytes(draw)) : undefined;
      tally.payload('debug', Buffer.byteLength(text + (own ?? '')));
      return { text, record: draw(2) === 0 ? text : own };
    });
  }
}

/** Checks the lines of one step. */
export function checkLines(lines: readonly OutputLine[]): void {
  if (lines.length === 0) return;
  const said = lines.map(({ text }) => (text === '' ? undefined : unsealText(text, 'a debug line')?.split(' ')));
  const [step, , count] = said.at(-1) ?? [];
  for (const [at, each] of said.entries()) {
    if (each !== undefined) assert.deepEqual(each, [step, String(at + 1), count], 'the lines of a step are in order');
  }
  assert.equal(String(lines.length), count, 'all lines of a step are there');
  for (const [at, { text, record }] of lines.entries()) {
    if (record === undefined || record === text) continue;
    assert.equal(unsealText(record, 'a record'), `record of ${step} ${at + 1} ${count}`, 'a record is of its line');
  }
}

function unavailable(message: string): Step {
  return { ...NOTHING_RAN, fault: { kind: 'unavailable', code: 5, message } };
}

function callbacksOf({ call, fuel, isComposite, isEmpty, cause, instance, as }: CallNote): Uint8Array {
  const callbacks = Buffer.alloc(56);
  callbacks.writeUInt32LE(call, 0);
  callbacks.writeUInt8(fuel, 4);
  callbacks.writeUInt8((isComposite ? 1 : 0) | (isEmpty ? 2 : 0), 5);
  callbacks.writeUInt8(CALL_KINDS.indexOf(as), 6);
  callbacks.writeUInt32LE(cause, 8);
  callbacks.writeUInt32LE(instance, 12);
  return new Uint8Array(callbacks);
}

function noteOf(callbacks: Uint8Array): CallNote {
  const view = Buffer.from(callbacks.buffer, callbacks.byteOffset, callbacks.length);
  const flags = view.readUInt8(5);
  return {
    call: view.readUInt32LE(0),
    fuel: view.readUInt8(4),
    isComposite: (flags & 1) !== 0,
    isEmpty: (flags & 2) !== 0,
    cause: view.readUInt32LE(8),
    instance: view.readUInt32LE(12),
    as: CALL_KINDS[view.readUInt8(6)] ?? 'other',
  };
}
