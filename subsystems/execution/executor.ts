/**
 * The main thread's end of one executor thread: sends commands and messages in bursts, hands outcomes back.
 *
 * Everything sent in one turn of the event loop is published together, with one wake-up. A full ring spills into a
 * list here: the main thread never blocks. When the thread dies, whatever it owed an answer gets one.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { MeteringPolicy } from '../metering/index.ts';
import type { Outcome } from './index.ts';
import { createRing, RingConsumer, RingProducer } from './message-ring.ts';
import {
  COMMAND,
  type Command,
  DEBUG,
  type ExecuteRecord,
  type ExecutorOptions,
  INLINE_BYTES_MAX,
  MESSAGE,
  OUTCOME,
  type OutcomeRecord,
  type PortMessage,
  readDebug,
  readOutcome,
  RING_BYTES,
  writeExecute,
} from './wire.ts';

/** Guest stack bytes → bytes of thread stack they may need in V8's largest frames. */
export interface ExecutorSettings {
  readonly policy: MeteringPolicy;
  readonly wasmStackBytes: number;
  readonly threadStackMb: number;
}

export interface ExecutorEvents {
  debug(handle: number, text: string): void;
  /** Before the outcome's own callback. */
  ended(record: OutcomeRecord): void;
  /** A fault of the host's own happened inside a message. */
  bug(message: string): void;
  /** The thread has ended without being asked to. */
  died(reason: string): void;
}

const SYS_TRANSIENT = 2;
const STOPPED_TEXT = "the actor's thread has stopped";

type Pending = ((outcome: Outcome) => void) | undefined;

export class Executor {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #inbox: RingProducer;
  readonly #outbox: RingConsumer;
  readonly #events: ExecutorEvents;
  /** Callbacks by call number; the numbers are used again. */
  readonly #pending: Pending[] = [];
  readonly #free: number[] = [];
  readonly #balances = new Map<number, (balance: bigint | undefined) => void>();
  /** What did not fit into the ring, in order. */
  #spilled: Command[] = [];
  #isPublishDue = false;
  #isAlive = true;

  constructor(settings: ExecutorSettings, events: ExecutorEvents) {
    const channel = new MessageChannel();
    const inbox = createRing(RING_BYTES);
    const outbox = createRing(RING_BYTES);
    const { policy, wasmStackBytes } = settings;
    const workerData: ExecutorOptions = { inbox, outbox, port: channel.port2, policy, wasmStackBytes };
    this.#events = events;
    this.#inbox = new RingProducer(inbox);
    this.#outbox = new RingConsumer(outbox);
    this.#port = channel.port1;
    this.#port.unref();
    this.#worker = new Worker(new URL('./executor-thread.ts', import.meta.url), {
      workerData,
      transferList: [channel.port2],
      name: 'executor',
      resourceLimits: { stackSizeMb: settings.threadStackMb },
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

  /** Runs a message; the record's buffers may be used again once this returns, except arguments too large to be copied here. */
  execute(record: Omit<ExecuteRecord, 'call'>, done: (outcome: Outcome) => void): void {
    if (!this.#isAlive) {
      queueMicrotask(() => done(stopped()));
      return;
    }
    this.#send({ kind: 'execute', record: { ...record, call: this.#expect(done) } });
  }

  /** Sends a command that is answered by an outcome. */
  request(command: (call: number) => Command, done: (outcome: Outcome) => void): void {
    if (!this.#isAlive) {
      queueMicrotask(() => done(stopped()));
      return;
    }
    this.#send(command(this.#expect(done)));
  }

  /** Sends a command that has no answer. */
  send(command: Command): void {
    if (this.#isAlive) this.#send(command);
  }

  /** The new balance, or undefined when the thread has stopped. */
  addCycles(handle: number, amount: bigint): Promise<bigint | undefined> {
    if (!this.#isAlive) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const call = this.#expect(() => {
        this.#balances.delete(call);
        resolve(undefined);
      });
      this.#balances.set(call, resolve);
      this.send({ kind: 'addCycles', call, handle, amount });
    });
  }

  refuseNew(): void {
    this.#inbox.setStopping();
  }

  async terminate(): Promise<void> {
    this.#outbox.close();
    this.#port.close();
    await this.#worker.terminate();
  }

  #expect(done: (outcome: Outcome) => void): number {
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
    if (command.kind === 'execute' && command.record.argument.length <= INLINE_BYTES_MAX) {
      return writeExecute(this.#inbox, command.record);
    }
    if (this.#inbox.reserve(COMMAND, 0) < 0) return false;
    this.#port.postMessage(command, transferables(command));
    return true;
  }

  #schedulePublish(): void {
    if (this.#isPublishDue) return;
    this.#isPublishDue = true;
    setImmediate(() => {
      this.#isPublishDue = false;
      this.#inbox.publish();
    });
  }

  #drain(): void {
    this.#outbox.drain((type, at) => this.#take(type, at));
    if (this.#spilled.length > 0) this.#refill();
  }

  #refill(): void {
    const spilled = this.#spilled;
    this.#spilled = [];
    for (const command of spilled) this.#send(command);
    this.#inbox.publish();
  }

  #take(type: number, at: number): void {
    if (type === OUTCOME) this.#ended(readOutcome(this.#outbox, at));
    else if (type === DEBUG) {
      const { handle, text } = readDebug(this.#outbox, at);
      this.#events.debug(handle, text);
    } else if (type === MESSAGE) this.#takeFromPort();
  }

  #takeFromPort(): void {
    const message = receiveMessageOnPort(this.#port)?.message as PortMessage | undefined;
    if (message === undefined) throw new Error('an executor announced a message and sent none');
    switch (message.kind) {
      case 'outcome':
        this.#ended(message.record);
        break;
      case 'debug':
        this.#events.debug(message.handle, message.text);
        break;
      case 'bug':
        this.#events.bug(message.message);
        break;
      case 'balance': {
        const resolve = this.#balances.get(message.call);
        this.#balances.delete(message.call);
        this.#release(message.call);
        resolve?.(message.balance);
        break;
      }
    }
  }

  #ended(record: OutcomeRecord): void {
    this.#events.ended(record);
    this.#release(record.call)?.(record.outcome);
  }

  #release(call: number): Pending {
    const done = this.#pending[call];
    this.#pending[call] = undefined;
    this.#free.push(call);
    return done;
  }

  #end(reason: string): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#drain();
    this.#outbox.close();
    for (const done of this.#pending.splice(0)) done?.(stopped());
    this.#events.died(reason);
  }
}

function stopped(): Outcome {
  return { kind: 'unavailable', code: SYS_TRANSIENT, message: STOPPED_TEXT, instructions: 0, charge: 0 };
}

/** Buffers that are handed over instead of copied: only such as nobody here uses any more. */
function transferables(command: Command): ArrayBuffer[] {
  if (command.kind !== 'execute') return [];
  const { buffer, byteLength } = command.record.argument;
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
}
