/**
 * The executors of a server, all in this thread: the shipped pool, wire and threads (`ExecutorPool`, `Executor`,
 * `ExecutorThread`) with the real engine, over real rings and ports. What a simulation decides is when a thread works, when
 * the main thread is told, and when a thread dies; and how time passes for it, which says when messages give way.
 */
import { createHash } from 'node:crypto';
import type { MessagePort } from 'node:worker_threads';
import type { Clock, Logger } from '../../../kernel/index.ts';
import type { CanisterGate } from '../../../subsystems/execution/canister-gate.ts';
import type { CanisterState } from '../../../subsystems/execution/canister-state.ts';
import { ControlMemory } from '../../../subsystems/execution/control-memory.ts';
import { Engine } from '../../../subsystems/execution/engine.ts';
import { ExecutorPool } from '../../../subsystems/execution/executor-pool.ts';
import { type CreateEngine, ExecutorThread, type Work } from '../../../subsystems/execution/executor-thread.ts';
import type { StartExecutorThread } from '../../../subsystems/execution/executor.ts';
import { HeapGarbage } from '../../../subsystems/execution/heap-garbage.ts';
import type { CanisterObserver, CanisterSpec, Step, Task } from '../../../subsystems/execution/index.ts';
import { heapsMade } from '../../../subsystems/execution/instance.ts';
import { loadModule } from '../../../subsystems/execution/load-module.ts';
import type { LoadedModule } from '../../../subsystems/execution/module-loader.ts';
import type { MeteringPolicy } from '../../../subsystems/metering/index.ts';
import { type RingConsumer, RingProducer } from '../../../subsystems/threads/index.ts';

const STACK_BYTES = 512 * 1024;
const JOURNAL_BYTES_MAX = 64 * 2 ** 20;
const KILLED = 'the simulation killed it';

const loaded = new Map<string, LoadedModule>();
/** Heaps in use by whoever lives now: the heaps of those that have crashed are garbage. */
let liveHeaps = (): number => 0;
/** They are small: only how many they are counts. */
const heapGarbage = new HeapGarbage({ made: heapsMade, live: () => liveHeaps(), droppedBytes: () => 0 }, 1);

/** A control memory takes gigabytes of address space, so they serve seed after seed. */
class SpareControl {
  readonly canSuspend: boolean;
  readonly control: ControlMemory;
  onYield: () => unknown = () => undefined;

  constructor(canSuspend: boolean) {
    this.canSuspend = canSuspend;
    this.control = new ControlMemory({
      stackBytes: STACK_BYTES,
      journalBytesMax: JOURNAL_BYTES_MAX,
      canSuspend,
      onYield: () => this.onYield(),
    });
  }
}

const spares: SpareControl[] = [];

export interface SimulatedThreadsOptions {
  readonly lanes: number;
  readonly policy: MeteringPolicy;
  readonly clock: Clock;
  readonly log: Logger;
  /** Milliseconds that pass for a thread each time it looks. */
  readonly passMs?: () => number;
  /** Sees what a step has changed on its way to storage, and may put something else in its place. */
  readonly onChanges?: ((changes: Uint8Array) => Uint8Array) | undefined;
  /** In place of the shipped gate, with a bug in it. */
  readonly createGate?: () => CanisterGate<Work>;
}

/** The one end of a thread that the simulation has, by the number of its executor. */
interface SimulatedThread {
  readonly thread: ExecutorThread;
  readonly port: MessagePort;
  readonly ended: (reason: string) => void;
  outbox: RingConsumer | undefined;
  drain: () => void;
}

export class SimulatedThreads extends ExecutorPool {
  readonly #threads: SimulatedThread[];
  readonly #controls: SpareControl[];
  readonly #onChanges: SimulatedThreadsOptions['onChanges'];
  readonly #fail: (error: unknown) => void;
  /** Tasks given. */
  steps = 0;

  constructor({ lanes, policy, clock, log, onChanges, ...rest }: SimulatedThreadsOptions) {
    const threads: SimulatedThread[] = [];
    const controls: SpareControl[] = [];
    // That a thread dies when the simulation kills it is no problem of the host's.
    const error: Logger['error'] = (text, cause) => (text.includes(KILLED) ? undefined : log.error(text, cause));
    const fail = (reason: unknown): void => log.error('an executor thread has failed', reason);
    super(
      { policy, clock, log: { ...log, error } },
      { executors: lanes, wasmStackBytes: STACK_BYTES },
      {},
      { startThread: startThread(threads, controls, rest), loader: LOADER },
    );
    this.#threads = threads;
    this.#controls = controls;
    this.#onChanges = onChanges;
    this.#fail = fail;
    liveHeaps = () => threads.reduce((sum, { thread }) => sum + thread.heapsLive, 0);
  }

  // ---- what the simulation decides

  canExecute(lane: number): boolean {
    return this.#at(lane).thread.hasWork;
  }

  canTell(lane: number): boolean {
    return this.#at(lane).outbox?.hasMore === true;
  }

  /** Lets a thread do what has come, and give a long message a turn. That ends within this turn of the event loop. */
  execute(lane: number): void {
    const worked = this.#at(lane).thread.advance();
    if (worked instanceof Promise) worked.catch(this.#fail);
  }

  /** Tells the main thread what a thread has published. */
  tell(lane: number): void {
    this.#at(lane).drain();
  }

  /** The thread of an executor dies and is replaced; what it has published still counts. */
  kill(lane: number): void {
    const dead = this.#at(lane);
    dead.ended(KILLED);
    dead.port.close();
  }

  /** The process ends: nothing of it counts any more. */
  abandon(): void {
    for (const { port } of this.#threads) port.close();
    // One with a journal that is not empty is the message's that was under way.
    spares.push(...this.#controls.splice(0).filter(({ control }) => control.touchedPages().length === 0));
  }

  /** What an executor has of a canister; undefined: it sleeps. */
  stateOf(handle: number): CanisterState | undefined {
    return this.#at(this.laneOf(handle)).thread.stateOf(handle);
  }

  // ---- what is watched on its way

  override run(handle: number, task: Task, done: (step: Step) => void): void {
    this.steps++;
    super.run(handle, task, done);
  }

  override create(spec: CanisterSpec, observer: CanisterObserver): number {
    return super.create(spec, this.#watched(observer));
  }

  override createAsleep(observer: CanisterObserver, instantMs: number): number {
    return super.createAsleep(this.#watched(observer), instantMs);
  }

  #watched(observer: CanisterObserver): CanisterObserver {
    const onChanges = this.#onChanges;
    if (onChanges === undefined) return observer;
    return {
      debug: (line) => observer.debug(line),
      ended: (gauges) => observer.ended(gauges),
      changed: (operations) => observer.changed?.(onChanges(operations)),
      settled: () => observer.settled?.() ?? Promise.resolve(),
      credited: (balance) => observer.credited?.(balance),
      lost: () => observer.lost(),
    };
  }

  #at(lane: number): SimulatedThread {
    const thread = this.#threads[lane];
    if (thread === undefined) throw new Error(`no executor ${lane}`);
    return thread;
  }
}

/** The main thread makes room at once: it cannot do so while this one waits. */
class TellingOutbox extends RingProducer {
  readonly #tell: () => void;

  constructor(shared: SharedArrayBuffer, tell: () => void) {
    super(shared);
    this.#tell = tell;
  }

  override waitForRoom(): void {
    this.publish();
    this.#tell();
  }
}

function startThread(
  threads: SimulatedThread[],
  controls: SpareControl[],
  { passMs = () => 0, createGate }: Pick<SimulatedThreadsOptions, 'passMs' | 'createGate'>,
): StartExecutorThread {
  return (options, ended) => {
    const createEngine: CreateEngine = ({ onYield, canSuspend = false }, shared, reportBug) => {
      const at = spares.findIndex((each) => each.canSuspend === canSuspend);
      const spare = spares.splice(at, at < 0 ? 0 : 1)[0] ?? new SpareControl(canSuspend);
      spare.onYield = onYield ?? (() => undefined);
      controls.push(spare);
      return new Engine({ policy: options.policy, control: spare.control, shared, reportBug });
    };
    let ms = 0;
    const nowMs = (): number => (ms += passMs());
    const outbox = new TellingOutbox(options.outbox, () => simulated.drain());
    const gate = createGate === undefined ? {} : { gate: createGate() };
    const thread = new ExecutorThread(options, nowMs, { createEngine, heapGarbage, outbox, ...gate });
    const simulated: SimulatedThread = {
      thread,
      port: options.port,
      ended,
      outbox: undefined,
      drain: () => undefined,
    };
    threads[options.lane] = simulated;
    return {
      listen: (ring, drain) => {
        simulated.outbox = ring;
        simulated.drain = drain;
      },
      terminate: () => Promise.resolve(),
    };
  };
}

const LOADER = {
  load: (bytes: Uint8Array): Promise<LoadedModule> => {
    const hash = createHash('sha256').update(bytes).digest('hex');
    const module = loaded.get(hash) ?? loadModule(bytes, hash, { wasmStackBytes: STACK_BYTES });
    loaded.set(hash, module);
    return Promise.resolve(module);
  },
  // Other seeds use them, too.
  forget: () => Promise.resolve(),
  close: () => Promise.resolve(),
};
