/**
 * The main thread's end of one executor thread: sends commands and messages in bursts, hands outcomes back.
 *
 * Everything sent in one turn of the event loop is published together, with one wake-up. A full ring spills into a list
 * here: the main thread never blocks. When the thread dies, all work that it still owes an answer gets one.
 *
 * Main thread: touches its side of the rings and the port, and never blocks.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { CodeChange } from '../index.ts';
import {
  type EndedStep,
  type OutgoingCall,
  type OutputLine,
  type ReturnedTask,
  returnedTask,
  TAKEN_BACK,
  type Task,
  THREAD_STOPPED_TEXT,
  TurnOfCalls,
} from '../../ic/index.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { buffersOf } from '../../storage/index.ts';
import { createRing, postInOrder, receiveDue, RingListener, RingProducer, SpillLine } from '../../threads/index.ts';
import { unavailableStep } from '../wire/unavailable-step.ts';
import { CALL, CHANGES, COMMAND, DEBUG, MESSAGE, REST, STEP } from '../wire/wire.ts';
import { readRest, type RestAnswer, writeRouse, writeSleep } from '../wire/sleep-record.ts';
import type { Command, ExecutorOptions, PortMessage } from '../wire/port-messages.ts';
import { readCall, readChanges, readStep, type StepRecord } from '../wire/step-record.ts';
import { readDebug } from '../wire/debug-record.ts';
import { RING_BYTES } from '../wire/ring-bytes.ts';
import { type TaskRecord, writeTask } from '../wire/task-record.ts';

/** Options that every executor thread gets when it starts. */
type ExecutorSettings = Pick<
  ExecutorOptions,
  'executorIndex' | 'policy' | 'wasmStackBytes' | 'executors' | 'memory' | 'book' | 'recalls' | 'pieceSizes'
>;

/** The thread at the other end: a worker of `startExecutorWorker`, or a simulated one. */
interface ExecutorThreadHandle {
  /**
   * Calls `drain` whenever the thread has published something, from the event loop, until it is terminated. `drain`
   * returns true if more is awaited.
   */
  listen(outbox: RingListener, drain: () => boolean): void;
  /** Ends the thread; resolves when it has ended. */
  terminate(): Promise<unknown>;
}

/**
 * Starts a thread that works as executor-thread.ts does; `ended` is called once, with the reason, when the thread has
 * ended.
 */
export type StartExecutorThread = (options: ExecutorOptions, ended: (reason: string) => void) => ExecutorThreadHandle;

interface ExecutorEvents {
  /** Called with changes that no step brought. */
  changed(handle: number, changes: readonly Uint8Array[]): void;
  /** Called with changes ahead of a step; `stored` has to be called when they are durable. */
  ahead(handle: number, changes: readonly Uint8Array[], stored: () => void): void;
  /** Calls `tell`, which tells a large step, in its turn; resolves when all of the step is told. */
  inTurn(tell: () => Promise<void> | void): Promise<void>;
  /** Resolves with a certificate of a canister's data, or with the reason why there is none. */
  certify(id: Uint8Array, data: Uint8Array): Promise<Uint8Array | string>;
  /** Called when cycles came outside of any step, with the balance since. */
  credited(handle: number, balance: bigint): void;
  /** Called when a fault of the host's own happened inside a message. */
  bug(message: string): void;
  /** Called when the thread has ended without being asked to. */
  died(reason: string): void;
}

/** Approximate cost of a wake-up on each side if it crosses cores. */
const SPIN_US = 20;
/** After this time the event loop gets its turn, however much the actors have to say to each other. */
const DRAIN_MS_MAX = 1;

type Ended = (ended: EndedStep) => Promise<void> | void;
type RestCommand = Extract<Command, { readonly kind: 'sleep' | 'rouse' | 'wake' }>;
type InstallCommand = Extract<Command, { readonly kind: 'install' }>;

/** Work for which a step is awaited. */
interface Given {
  readonly handle: number;
  /** Time at which the work was given, by the canister's own time. */
  readonly nowMs: number;
  readonly task: Task | CodeChange['mode'];
  /** Order of giving: smaller numbers were given before. */
  readonly order: number;
}
/** Receives an answer that is no step; undefined: the thread has stopped. */
type Answered = (message: PortMessage | RestAnswer | undefined) => void;

/** Lists that nobody adds to. */
const NONE: never[] = [];

/** Work and commands for a thread, in order. */
type Outgoing = (TaskRecord & { readonly kind: 'task' }) | Command;

export class Executor {
  /** Bytes of one executor's rings. */
  static readonly ringBytes = 2 * RING_BYTES;
  readonly #thread: ExecutorThreadHandle;
  readonly #port: MessagePort;
  readonly #inbox: RingProducer;
  readonly #outbox: RingListener;
  readonly #events: ExecutorEvents;
  /** Callbacks by call number; the numbers are used again. */
  readonly #pending: (Ended | undefined)[] = [];
  readonly #free: number[] = [];
  /** Work for which steps are awaited, by call number. */
  readonly #given: (Given | undefined)[] = [];
  #givenSoFar = 0;
  readonly #answers = new Map<number, Answered>();
  /** Parts of the step that comes next. One object for all steps: the arrays become the step's. */
  readonly #before: { calls: OutgoingCall[]; changes: Uint8Array[]; lines: OutputLine[] } = {
    calls: NONE,
    changes: NONE,
    lines: NONE,
  };
  /** Modules this thread has: sent once, named by hash afterwards. */
  readonly #modules = new Set<string>();
  readonly #outgoing = new SpillLine<Outgoing>((outgoing) => this.#write(outgoing));
  #isPublishDue = false;
  #isDraining = false;
  #hasSentWhileDraining = false;
  #isAlive = true;
  /** True if the thread has died and its death is about to be told. */
  #isEnding = false;
  /** Callbacks of work that was given while the thread's end is being handled. */
  readonly #late: Ended[] = [];
  /** True while a large step is being told: nothing is taken meanwhile. */
  #isTelling = false;
  /** Called when the large step has been told: the thread has died meanwhile. */
  #whenTold: (() => void) | undefined;
  /** Calls that were taken in this turn. */
  readonly #callsTaken = new TurnOfCalls();
  #isTerminated = false;

  constructor(settings: ExecutorSettings, events: ExecutorEvents, startThread: StartExecutorThread) {
    const channel = new MessageChannel();
    const inbox = createRing(RING_BYTES);
    const outbox = createRing(RING_BYTES);
    this.#events = events;
    this.#inbox = new RingProducer(inbox);
    this.#outbox = new RingListener(outbox);
    this.#port = channel.port1;
    this.#port.unref();
    this.#thread = startThread({ inbox, outbox, port: channel.port2, ...settings }, (reason) => this.#end(reason));
    this.#thread.listen(this.#outbox, () => this.#drain());
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Number of tasks and commands that the executor has been given and has not ended. */
  get underWay(): number {
    return this.#pending.length - this.#free.length;
  }

  /** Runs a task. Buffers in it must not be used again; a large argument is handed over. */
  run(handle: number, nowMs: number, task: Task, ended: Ended): void {
    if (!this.#isAlive) {
      this.#refuse(ended);
      return;
    }
    const call = this.#expect(ended);
    const record = { kind: 'task' as const, handle, nowMs, task, call, order: ++this.#givenSoFar };
    this.#given[call] = record;
    this.#send(record);
  }

  /** Sends a command that is answered by a step. */
  request(command: (call: number) => InstallCommand, ended: Ended): void {
    if (!this.#isAlive) {
      this.#refuse(ended);
      return;
    }
    const sent = command(this.#expect(ended));
    const { handle, nowMs, change } = sent;
    this.#given[sent.call] = { handle, nowMs, task: change.mode, order: ++this.#givenSoFar };
    this.#send(sent);
  }

  /** First work given for each canister, of all that has not ended. */
  get given(): Iterable<Given> {
    const first = new Map<number, Given>();
    for (const given of this.#given) {
      if (given !== undefined && given.order < (first.get(given.handle)?.order ?? Number.POSITIVE_INFINITY))
        first.set(given.handle, given);
    }
    return first.values();
  }

  /** Sends a command that is answered by a message on the port; undefined if the thread has stopped. */
  ask(command: (call: number) => Exclude<Command, RestCommand>): Promise<PortMessage | undefined> {
    return this.#ask<PortMessage>(command);
  }

  /** Does the same as `ask`, for a command that may be answered by a REST record. */
  askRest(command: (call: number) => RestCommand): Promise<PortMessage | RestAnswer | undefined> {
    return this.#ask<PortMessage | RestAnswer>(command);
  }

  #ask<Answer extends PortMessage | RestAnswer>(command: (call: number) => Command): Promise<Answer | undefined> {
    if (!this.#isAlive) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const call = this.#expect(() => resolve(undefined));
      // Each command has its own kind of answer.
      this.#answers.set(call, resolve as Answered);
      this.#send(command(call));
    });
  }

  /** Sends a command that has no answer. */
  send(command: Command): void {
    if (this.#isAlive) this.#send(command);
  }

  /** Makes sure that the thread has a module. */
  provide(hash: string, code: InstrumentedCode): void {
    if (this.#modules.has(hash) || !this.#isAlive) return;
    this.#modules.add(hash);
    this.#send({ kind: 'module', hash, code });
  }

  /** Makes the thread drop a module that none of its canisters has or is about to get. */
  forget(hash: string): void {
    if (this.#modules.delete(hash)) this.send({ kind: 'forgetModule', hash });
  }

  refuseNew(): void {
    this.#inbox.setStopping();
  }

  async terminate(): Promise<void> {
    this.#isTerminated = true;
    this.#outbox.close();
    this.#port.close();
    await this.#thread.terminate();
  }

  /**
   * Answers work that the thread cannot do any more. While the thread's end is handled, the answer comes before its
   * death is told: observers of the death then have all work back.
   */
  #refuse(ended: Ended): void {
    if (this.#isEnding) this.#late.push(ended);
    else queueMicrotask(() => void ended(stopped()));
  }

  #expect(ended: Ended): number {
    const call = this.#free.pop() ?? this.#pending.length;
    this.#pending[call] = ended;
    return call;
  }

  #send(outgoing: Outgoing): void {
    this.#outgoing.send(outgoing);
    this.#schedulePublish();
  }

  /** Writes to the ring. Returns false if the ring is full now. */
  #write(outgoing: Outgoing): boolean {
    if (outgoing.kind === 'task') return writeTask(this.#inbox, this.#port, outgoing);
    if (outgoing.kind === 'sleep') return writeSleep(this.#inbox, outgoing);
    if (outgoing.kind === 'rouse') return writeRouse(this.#inbox, outgoing);
    return postInOrder(this.#inbox, this.#port, COMMAND, outgoing, transferables(outgoing));
  }

  #schedulePublish(): void {
    if (this.#isDraining) {
      this.#hasSentWhileDraining = true;
      return;
    }
    if (this.#isPublishDue) return;
    this.#isPublishDue = true;
    setImmediate(() => {
      this.#isPublishDue = false;
      this.#inbox.publish();
      if (this.underWay > 0) this.#outbox.expect();
    });
  }

  /**
   * Takes the records that have come. If that led to new tasks (a call between actors, a callback), they are published
   * at once, and their steps are polled for a moment: a wake-up on each side costs more than a short execution. Returns
   * true if more is awaited.
   */
  #drain(): boolean {
    this.#isDraining = true;
    const until = performance.now() + DRAIN_MS_MAX;
    do {
      this.#hasSentWhileDraining = false;
      this.#callsTaken.begin();
      if (!this.#isTelling) this.#outbox.drain(this.#take, this.#isEnough);
      this.#outgoing.refill();
      this.#inbox.publish();
    } while (this.#hasSentWhileDraining && performance.now() < until && this.#outbox.spin(SPIN_US));
    this.#isDraining = false;
    return this.underWay > 0;
  }

  readonly #isEnough = (): boolean => this.#isTelling || this.#callsTaken.isFull;

  readonly #take = (type: number, at: number): void => {
    switch (type) {
      case STEP: {
        const before = this.#before;
        const record = readStep(this.#outbox, this.#port, at, before);
        before.calls = before.changes = before.lines = NONE;
        if (TurnOfCalls.isTooSmallFor(record.step.calls)) this.#tellLarge(record);
        else void this.#release(record.call)?.(record);
        break;
      }
      case CALL:
        this.#takeCall(readCall(this.#outbox, this.#port, at));
        break;
      case CHANGES:
        this.#before.changes = added(this.#before.changes, readChanges(this.#outbox, this.#port, at));
        break;
      case DEBUG:
        this.#before.lines = added(this.#before.lines, readDebug(this.#outbox, this.#port, at));
        break;
      case REST: {
        const { call, answer } = readRest(this.#outbox, at);
        if (answer === 'takenBack') void this.#release(call)?.(returnedTask(TAKEN_BACK));
        else this.#answer(call, answer);
        break;
      }
      case MESSAGE:
        this.#takeFromPort();
    }
  };

  #takeCall(call: OutgoingCall): void {
    this.#callsTaken.add(call);
    this.#before.calls = added(this.#before.calls, call);
  }

  #takeFromPort(): void {
    const message = receiveDue(this.#port) as PortMessage;
    switch (message.kind) {
      case 'changes':
        this.#events.changed(message.handle, message.changes);
        break;
      case 'ahead': {
        const { ticket } = message;
        this.#events.ahead(message.handle, message.changes, () => this.send({ kind: 'stored', ticket }));
        break;
      }
      case 'certify': {
        const { ticket, id, data } = message;
        void this.#events.certify(id, data).then((answer) => this.send({ kind: 'certified', ticket, answer }));
        break;
      }
      case 'bug':
        this.#events.bug(message.message);
        break;
      case 'takenBack':
        void this.#release(message.call)?.(returnedTask(TAKEN_BACK, message.argument));
        break;
      default: {
        if ('changes' in message && message.changes !== undefined)
          this.#events.changed(message.handle, message.changes);
        // Told now, not when the asker goes on: the steps behind it count from this balance.
        if (message.kind === 'balance') this.#events.credited(message.handle, message.balance);
        this.#answer(message.call, message);
      }
    }
  }

  #answer(call: number, answer: PortMessage | RestAnswer): void {
    const answered = this.#answers.get(call);
    this.#answers.delete(call);
    this.#release(call);
    answered?.(answer);
  }

  #tellLarge(record: StepRecord): void {
    this.#isTelling = true;
    const large = { ...record, step: { ...record.step, isLarge: true } };
    void this.#events
      .inTurn(() => this.#release(record.call)?.(large))
      .then(() => {
        this.#isTelling = false;
        this.#whenTold?.();
      });
  }

  #release(call: number): Ended | undefined {
    const done = this.#pending[call];
    this.#pending[call] = undefined;
    this.#given[call] = undefined;
    this.#free.push(call);
    return done;
  }

  /**
   * Takes the callbacks of all work that has not ended, in the order in which it was given: numbers of calls are used
   * again.
   */
  #takePending(): readonly (Ended | undefined)[] {
    const given = this.#given.splice(0);
    const pending = this.#pending.splice(0).map((done, call) => ({ done, order: given[call]?.order ?? 0 }));
    return pending.sort((a, b) => a.order - b.order).map(({ done }) => done);
  }

  #end(reason: string): void {
    if (!this.#isAlive) return;
    // Records that the thread sent before it died still count; after `terminate` the port is closed, and nothing more
    // comes.
    while (!this.#isTerminated && !this.#isTelling && this.#outbox.hasMore) this.#drain();
    if (this.#isTelling) {
      // The death is told later: until then the thread just does not answer.
      this.#whenTold = () => this.#end(reason);
      return;
    }
    this.#isAlive = false;
    this.#isEnding = true;
    this.#outbox.close();
    for (const done of this.#takePending()) void done?.(stopped());
    for (let done = this.#late.shift(); done !== undefined; done = this.#late.shift()) void done(stopped());
    this.#isEnding = false;
    this.#events.died(reason);
  }
}

function stopped(): ReturnedTask {
  return returnedTask(unavailableStep(THREAD_STOPPED_TEXT));
}

/** Adds an item to a list, which is NONE at first. */
function added<T>(list: T[], item: T): T[] {
  if (list.length === 0) return [item];
  list.push(item);
  return list;
}

/** Returns the buffers that are handed over instead of copied: only those that nobody here uses any more. */
function transferables(command: Command): ArrayBuffer[] {
  if (command.kind === 'wake') {
    const { memory, log } = command.canister;
    const records = log === undefined ? [] : [log.records.bytes.buffer as ArrayBuffer];
    return [...buffersOf(memory.heap), ...buffersOf(memory.stable), ...records];
  }
  return [];
}
