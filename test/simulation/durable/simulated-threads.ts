/** Stepped threads with the real engine. */
import { createHash } from 'node:crypto';
import type { Clock, Logger } from '../../../kernel/index.ts';
import type { CanisterGate } from '../../../subsystems/execution/canister-gate.ts';
import type { CanisterState } from '../../../subsystems/execution/canister-state.ts';
import { ControlMemory } from '../../../subsystems/execution/control-memory.ts';
import { Engine, type EngineOptions } from '../../../subsystems/execution/engine.ts';
import type { CreateEngine, ThreadParts, Work } from '../../../subsystems/execution/executor-thread.ts';
import { HeapGarbage } from '../../../subsystems/execution/heap-garbage.ts';
import type { CanisterObserver, CanisterSpec, Step, Task } from '../../../subsystems/execution/index.ts';
import { heapsMade } from '../../../subsystems/execution/instance.ts';
import { loadModule } from '../../../subsystems/execution/load-module.ts';
import type { LoadedModule } from '../../../subsystems/execution/module-loader.ts';
import type { MeteringPolicy } from '../../../subsystems/metering/index.ts';
import { SteppedThreads } from '../stepped-threads.ts';

const STACK_BYTES = 512 * 1024;
const JOURNAL_BYTES_MAX = 64 * 2 ** 20;

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
  readonly createGate?: (() => CanisterGate<Work>) | undefined;
  /** In place of the shipped engine, likewise. */
  readonly createEngine?: ((options: EngineOptions) => Engine) | undefined;
}

export class SimulatedThreads extends SteppedThreads {
  readonly #controls: SpareControl[];
  readonly #onChanges: SimulatedThreadsOptions['onChanges'];
  /** Tasks given. */
  steps = 0;

  constructor({ onChanges, createGate, createEngine, ...options }: SimulatedThreadsOptions) {
    const controls: SpareControl[] = [];
    const partsOf = (): ThreadParts => {
      const gate = createGate === undefined ? {} : { gate: createGate() };
      return { createEngine: engineOf(controls, options.policy, createEngine), heapGarbage, ...gate };
    };
    super({ ...options, wasmStackBytes: STACK_BYTES, loader: LOADER, partsOf });
    this.#controls = controls;
    this.#onChanges = onChanges;
    liveHeaps = () => this.heapsLive;
  }

  override abandon(): void {
    super.abandon();
    // One with a journal that is not empty is the message's that was under way.
    spares.push(...this.#controls.splice(0).filter(({ control }) => control.touchedPages().length === 0));
  }

  /** What an executor has of a canister; undefined: it sleeps. */
  stateOf(handle: number): CanisterState | undefined {
    return this.threadOf(handle).stateOf(handle);
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
}

function engineOf(
  controls: SpareControl[],
  policy: MeteringPolicy,
  createEngine: SimulatedThreadsOptions['createEngine'] = (options) => new Engine(options),
): CreateEngine {
  return ({ onYield, canSuspend = false }, shared, reportBug) => {
    const at = spares.findIndex((each) => each.canSuspend === canSuspend);
    const spare = spares.splice(at, at < 0 ? 0 : 1)[0] ?? new SpareControl(canSuspend);
    spare.onYield = onYield ?? (() => undefined);
    controls.push(spare);
    return createEngine({ policy, control: spare.control, shared, reportBug });
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
