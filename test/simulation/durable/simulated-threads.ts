/** Stepped threads with the real engine. */
import { createHash } from 'node:crypto';
import type { Clock, Logger } from '../../../kernel/index.ts';
import type { CanisterGate } from '../../../subsystems/execution/thread/canister-gate.ts';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { Engine, type EngineOptions } from '../../../subsystems/execution/engine/engine.ts';
import type { Work } from '../../../subsystems/execution/thread/executor-thread.ts';
import type { CreateEngine } from '../../../subsystems/execution/thread/thread-engine.ts';
import { HeapGarbage } from '../../../subsystems/execution/thread/heap-garbage.ts';
import type { PackedFacts } from '../../../subsystems/execution/index.ts';
import type { EndedStep, Task } from '../../../subsystems/ic/index.ts';
import { heapsMade } from '../../../subsystems/execution/engine/instance.ts';
import { loadModule } from '../../../subsystems/execution/thread/load-module.ts';
import type { ModuleInfo } from '../../../subsystems/execution/index.ts';
import type { LoadedModule } from '../../../subsystems/execution/pool/module-loader.ts';
import { INLINE_BYTES_MAX } from '../../../subsystems/execution/wire/ring-bytes.ts';
import type { PieceSizes } from '../../../subsystems/execution/persistence/piece-sizes.ts';
import type { MeteringPolicy } from '../../../subsystems/metering/index.ts';
import { bytesOf, ObservedGate, type WorkSeen } from '../observed-gate.ts';
import { type SteppedParts, SteppedThreads } from '../stepped-threads.ts';

const STACK_BYTES = 512 * 1024;
const JOURNAL_BYTES_MAX = 64 * 2 ** 20;

const loaded = new Map<string, LoadedModule>();
/** Heaps in use by the present life; the heaps of crashed lives are garbage. */
let liveHeaps = (): number => 0;
/** Heaps are small here: only their number counts. */
const heapGarbage = new HeapGarbage({ made: heapsMade, live: () => liveHeaps(), droppedBytes: () => 0 }, 1);

/** A control memory takes gigabytes of address space, so it is reused by later seeds. */
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

/** A deliberate mistake, in place of the shipped gate or engine. */
export interface PlantedThreads {
  readonly createGate?: ((seen: WorkSeen) => CanisterGate<Work>) | undefined;
  readonly createEngine?: ((options: EngineOptions) => Engine) | undefined;
  /** True if the host's own reports of the mistake do not count: it has to be found without them. */
  readonly isSilent?: boolean | undefined;
}

interface SimulatedThreadsOptions extends PlantedThreads {
  readonly lanes: number;
  readonly policy: MeteringPolicy;
  readonly clock: Clock;
  readonly log: Logger;
  /** As in `SteppedThreads`. */
  readonly passMs: () => number;
  readonly isHeard: () => boolean;
  readonly pieceSizes?: PieceSizes;
}

/** Counts of long messages and of work that waited for them. */
export interface ThreadCounts {
  /** Messages that were too long to run without a pause. */
  tooLong: number;
  suspensions: number;
  /** Work that waited at the gate, and the part of it that came by the port. */
  waited: number;
  waitedLarge: number;
  /** Canisters that were restored from the state kept by executors. */
  roused: number;
  /** Pieces that changes of code have stored ahead. */
  pieces: number;
}

export class SimulatedThreads extends SteppedThreads {
  readonly #controls: SpareControl[];
  readonly #counts: ThreadCounts;
  /** Number of given tasks. */
  steps = 0;

  constructor({ createGate, createEngine, ...options }: SimulatedThreadsOptions) {
    const controls: SpareControl[] = [];
    const counts: ThreadCounts = { tooLong: 0, suspensions: 0, waited: 0, waitedLarge: 0, roused: 0, pieces: 0 };
    const seen: WorkSeen = (_handle, work, isAdmitted) => {
      if (isAdmitted) return;
      counts.waited++;
      if (bytesOf(work) > INLINE_BYTES_MAX) counts.waitedLarge++;
    };
    const partsOf = (): SteppedParts => ({
      createEngine: engineOf(controls, counts, options, createEngine),
      heapGarbage,
      gate: createGate?.(seen) ?? new ObservedGate(seen),
    });
    super({ ...options, wasmStackBytes: STACK_BYTES, loader: LOADER, partsOf });
    this.#controls = controls;
    this.#counts = counts;
    liveHeaps = () => this.heapsLive;
  }

  get counts(): Readonly<ThreadCounts> {
    return this.#counts;
  }

  override abandon(): void {
    super.abandon();
    // A control memory whose journal is not empty belongs to the message that was under way.
    spares.push(...this.#controls.splice(0).filter(({ control }) => control.touchedPages().length === 0));
  }

  /** Returns an executor's state of a canister; undefined: the canister sleeps. */
  stateOf(handle: number): CanisterState | undefined {
    return this.threadOf(handle).stateOf(handle);
  }

  override async rouse(handle: number, canister: PackedFacts): Promise<boolean> {
    const isRoused = await super.rouse(handle, canister);
    if (isRoused) this.#counts.roused++;
    return isRoused;
  }

  override run(handle: number, task: Task, ended: (ended: EndedStep) => Promise<void> | void): void {
    this.steps++;
    super.run(handle, task, ended);
  }
}

function engineOf(
  controls: SpareControl[],
  counts: ThreadCounts,
  { policy, pieceSizes }: Pick<SimulatedThreadsOptions, 'policy' | 'pieceSizes'>,
  createEngine: SimulatedThreadsOptions['createEngine'] = (options) => new Engine(options),
): CreateEngine {
  return ({ onYield = (): undefined => undefined, canSuspend = false, store }, shared, reportBug) => {
    const at = spares.findIndex((each) => each.canSuspend === canSuspend);
    const spare = spares.splice(at, at < 0 ? 0 : 1)[0] ?? new SpareControl(canSuspend);
    spare.onYield = () => {
      if (!canSuspend) counts.tooLong++;
      const waiting = onYield();
      if (waiting instanceof Promise) counts.suspensions++;
      return waiting;
    };
    controls.push(spare);
    const counting = store && ((changes: readonly Uint8Array[]) => (counts.pieces++, store(changes)));
    return createEngine({
      policy,
      control: spare.control,
      shared,
      reportBug,
      ahead: { store: counting },
      pieceSizes,
    });
  };
}

const LOADER = {
  prepare: () => undefined,
  load: (bytes: Uint8Array): Promise<LoadedModule> => {
    const hash = createHash('sha256').update(bytes).digest('hex');
    const module = loaded.get(hash) ?? loadModule(bytes, hash, { wasmStackBytes: STACK_BYTES });
    loaded.set(hash, module);
    return Promise.resolve(module);
  },
  // As if an earlier process had kept all modules: code comes when a canister wakes.
  describe: async (bytes: Uint8Array): Promise<ModuleInfo> => ({ ...(await LOADER.load(bytes)).info }),
  storedIs: () => undefined,
  // Other seeds use the modules, too.
  forget: () => Promise.resolve(),
  close: () => Promise.resolve(),
};
