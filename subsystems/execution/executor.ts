/**
 * The main thread's end of one executor thread: sends commands and messages in bursts, hands outcomes back.
 *
 * Everything sent in one turn of the event loop is published together, with one wake-up. A full ring spills into a
 * list here: the main thread never blocks. When the thread dies, whatever it owed an answer gets one.
 */
import { setFlagsFromString } from 'node:v8';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { MeteringPolicy } from '../metering/index.ts';
import type { OutgoingCall, Step } from './index.ts';
import type { InstrumentedCode } from './instance.ts';
import { createRing, RingConsumer, RingProducer, SpinGate } from '../threads/index.ts';
import { unavailableStep } from './unavailable-step.ts';
import {
  CALL,
  CHANGES,
  COMMAND,
  type Command,
  DEBUG,
  type ExecutorOptions,
  INLINE_BYTES_MAX,
  MESSAGE,
  type PortMessage,
  readCall,
  readDebug,
  readStep,
  RING_BYTES,
  STEP,
  type StepRecord,
  taskBytes,
  type TaskRecord,
  writeTask,
} from './wire.ts';

/** Guest stack bytes → bytes of thread stack they may need in V8's largest frames. */
export interface ExecutorSettings {
  readonly policy: MeteringPolicy;
  readonly wasmStackBytes: number;
  readonly executors: number;
  readonly threadStackMb: number;
}

export interface ExecutorEvents {
  debug(handle: number, text: string): void;
  /** Before the step's own callback; `changes` are for storage. */
  ended(record: StepRecord, changes: Uint8Array | undefined): void;
  /** Changes that no step brought. */
  changed(handle: number, changes: Uint8Array): void;
  /** Cycles came outside of any step; the balance since. */
  credited(handle: number, balance: bigint): void;
  /** A fault of the host's own happened inside a message. */
  bug(message: string): void;
  /** The thread has ended without being asked to. */
  died(reason: string): void;
}

/**
 * A live heap is an object of a few words to V8, but where its bytes count as memory that a collection might free (not in
 * V8 14.6, see ADR 18), every 64 MB of them start one, which is a dozen new 64-bit actors, and each lasts longer the more
 * actors live: 45 ms with 2,500. Counted into the limit of the whole heap, which grows with what is live, collections are
 * rare. That limit is twice the old generation's, which must leave room for thousands of heaps (no memory is set aside for
 * it). A V8 without the flag ignores it.
 */
setFlagsFromString('--external-memory-accounted-in-global-limit');
const OLD_GENERATION_MB_MAX = 65_536;
/** With V8's 48 MB the buffers of many thousand messages and wake-ups lie about before they are collected. */
const YOUNG_GENERATION_MB_MAX = 12;

const STOPPED_TEXT = "the actor's thread has stopped";

/** About what a wake-up costs on each side when it crosses cores. */
const SPIN_US = 20;
/**
 * Long enough for an executor that has to be woken: found that way, the next message finds it awake, and soon neither side
 * sleeps. With less, both miss each other for ever. Meanwhile the event loop stands still.
 */
const BRIEF_SPIN_US = 40;
/** Then the event loop gets its turn, whatever the actors have to say to each other. */
const DRAIN_MS_MAX = 1;

type Done = (step: Step) => void;
/** What an answer that is no step is given to. */
type Answered = (message: PortMessage | undefined) => void;

export class Executor {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #inbox: RingProducer;
  readonly #outbox: RingConsumer;
  readonly #events: ExecutorEvents;
  /** Callbacks by call number; the numbers are used again. */
  readonly #pending: (Done | undefined)[] = [];
  readonly #free: number[] = [];
  readonly #answers = new Map<number, Answered>();
  /** Calls and changes of the step that comes next. */
  #calls: OutgoingCall[] = [];
  #changes: Uint8Array | undefined;
  /** Modules this thread has: sent once, named by hash afterwards. */
  readonly #modules = new Set<string>();
  /** What did not fit into the ring, in order. */
  #spilled: Command[] = [];
  readonly #gate = new SpinGate();
  #isPublishDue = false;
  #isDraining = false;
  #hasSentWhileDraining = false;
  #isAlive = true;
  #isTerminated = false;

  constructor(settings: ExecutorSettings, events: ExecutorEvents) {
    const channel = new MessageChannel();
    const inbox = createRing(RING_BYTES);
    const outbox = createRing(RING_BYTES);
    const { policy, wasmStackBytes, executors } = settings;
    const workerData: ExecutorOptions = { inbox, outbox, port: channel.port2, policy, wasmStackBytes, executors };
    this.#events = events;
    this.#inbox = new RingProducer(inbox);
    this.#outbox = new RingConsumer(outbox);
    this.#port = channel.port1;
    this.#port.unref();
    this.#worker = new Worker(new URL('./executor-thread.ts', import.meta.url), {
      workerData,
      transferList: [channel.port2],
      name: 'executor',
      resourceLimits: {
        stackSizeMb: settings.threadStackMb,
        maxOldGenerationSizeMb: OLD_GENERATION_MB_MAX,
        maxYoungGenerationSizeMb: YOUNG_GENERATION_MB_MAX,
      },
    });
    // The listener keeps the process alive while it serves; a thread alone is no reason to.
    this.#worker.unref();
    let reason = 'it ended';
    this.#worker.on('error', (error) => {
      reason = error instanceof Error ? error.message : String(error);
    });
    this.#worker.on('exit', () => this.#end(reason));
    this.#outbox.listen(() => this.#drain());
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Runs a task. Buffers in it must not be used again; a large argument is handed over. */
  run(record: Omit<TaskRecord, 'call'>, done: Done): void {
    if (!this.#isAlive) queueMicrotask(() => done(stopped()));
    else this.#send({ kind: 'task', record: { ...record, call: this.#expect(done) } });
  }

  /** Sends a command that is answered by a step. */
  request(command: (call: number) => Command, done: Done): void {
    if (!this.#isAlive) queueMicrotask(() => done(stopped()));
    else this.#send(command(this.#expect(done)));
  }

  /** Sends a command that is answered by a message on the port; undefined when the thread has stopped. */
  ask(command: (call: number) => Command): Promise<PortMessage | undefined> {
    if (!this.#isAlive) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const call = this.#expect(() => resolve(undefined));
      this.#answers.set(call, resolve);
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
    await this.#worker.terminate();
  }

  #expect(done: Done): number {
    const call = this.#free.pop() ?? this.#pending.length;
    this.#pending[call] = done;
    return call;
  }

  #send(command: Command): void {
    if (this.#spilled.length > 0 || !this.#write(command)) this.#spilled.push(command);
    this.#schedulePublish();
  }

  /** False when the ring is full now. */
  #write(command: Command): boolean {
    if (command.kind === 'task' && taskBytes(command.record.task) <= INLINE_BYTES_MAX) {
      return writeTask(this.#inbox, command.record);
    }
    if (this.#inbox.reserve(COMMAND, 0) < 0) return false;
    this.#port.postMessage(command, transferables(command));
    return true;
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
      const underWay = this.#pending.length - this.#free.length;
      if (underWay === 1 && this.#isAlive && !this.#isTerminated) this.#gate.try(this.#lookForOne);
    });
  }

  /** For the only answer that is awaited: nothing else is held up by it. */
  readonly #lookForOne = (): boolean => {
    const isFound = this.#outbox.spinAwake(BRIEF_SPIN_US);
    if (isFound) this.#drain();
    this.#outbox.doze();
    return isFound;
  };

  /**
   * Takes what has come. When that led to new tasks (a call between actors, a callback), they are published at once,
   * and their steps are looked for a moment: a wake-up on each side costs more than a short execution.
   */
  #drain(): void {
    this.#isDraining = true;
    const until = performance.now() + DRAIN_MS_MAX;
    do {
      this.#hasSentWhileDraining = false;
      this.#outbox.drain(this.#take);
      if (this.#spilled.length > 0) this.#refill();
      this.#inbox.publish();
    } while (this.#hasSentWhileDraining && performance.now() < until && this.#outbox.spin(SPIN_US));
    this.#isDraining = false;
  }

  #refill(): void {
    const spilled = this.#spilled;
    this.#spilled = [];
    for (const command of spilled) this.#send(command);
    this.#inbox.publish();
  }

  readonly #take = (type: number, at: number, length: number): void => {
    switch (type) {
      case STEP: {
        const calls = this.#calls;
        if (calls.length > 0) this.#calls = [];
        const changes = this.#changes;
        this.#changes = undefined;
        this.#ended(readStep(this.#outbox, at, calls), changes);
        break;
      }
      case CALL:
        this.#calls.push(readCall(this.#outbox, at));
        break;
      case CHANGES:
        this.#changes = this.#outbox.bytes.slice(at, at + length);
        break;
      case DEBUG: {
        const { handle, text } = readDebug(this.#outbox, at);
        this.#events.debug(handle, text);
        break;
      }
      case MESSAGE:
        this.#takeFromPort();
    }
  };

  #takeFromPort(): void {
    const message = receiveMessageOnPort(this.#port)?.message as PortMessage | undefined;
    if (message === undefined) throw new Error('an executor announced a message and sent none');
    switch (message.kind) {
      case 'step':
        this.#ended(message.record, message.changes);
        break;
      case 'changes':
        this.#events.changed(message.handle, message.changes);
        break;
      case 'debug':
        this.#events.debug(message.handle, message.text);
        break;
      case 'bug':
        this.#events.bug(message.message);
        break;
      default: {
        if ('changes' in message && message.changes !== undefined)
          this.#events.changed(message.handle, message.changes);
        // Now, and not when whoever asked goes on: the steps behind it count from there.
        if (message.kind === 'balance') this.#events.credited(message.handle, message.balance);
        const answered = this.#answers.get(message.call);
        this.#answers.delete(message.call);
        this.#release(message.call);
        answered?.(message);
      }
    }
  }

  #ended(record: StepRecord, changes: Uint8Array | undefined): void {
    this.#events.ended(record, changes);
    this.#release(record.call)?.(record.step);
  }

  #release(call: number): Done | undefined {
    const done = this.#pending[call];
    this.#pending[call] = undefined;
    this.#free.push(call);
    return done;
  }

  #end(reason: string): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    // What it sent before it died still counts; after `terminate` the port is closed, and nothing comes that way.
    if (!this.#isTerminated) this.#drain();
    this.#outbox.close();
    for (const done of this.#pending.splice(0)) done?.(stopped());
    this.#events.died(reason);
  }
}

function stopped(): Step {
  return unavailableStep(STOPPED_TEXT);
}

/** Buffers that are handed over instead of copied: only such as nobody here uses any more. */
function transferables(command: Command): ArrayBuffer[] {
  if (command.kind === 'wake') {
    const { memory, log } = command.canister;
    const large = [memory.heap.bytes, memory.stable.bytes, ...(log === undefined ? [] : [log.records.bytes])];
    return large.map(({ buffer }) => buffer as ArrayBuffer);
  }
  if (command.kind !== 'task') return [];
  const { task } = command.record;
  const bytes = task.kind === 'update' || task.kind === 'query' ? task.argument : undefined;
  return bytes?.buffer instanceof ArrayBuffer && bytes.buffer.byteLength === bytes.byteLength ? [bytes.buffer] : [];
}
