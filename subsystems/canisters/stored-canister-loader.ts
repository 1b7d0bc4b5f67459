/** Takes canisters out of their executors, and brings them back from what is stored. */
import { areNumbersReached, LARGE_HEAP_BYTES, timerNsOf, WASM_PAGE_BYTES, hexOf } from '../ic/index.ts';
import { type Clock, messageOf, ServerError } from '../../kernel/index.ts';
import type {
  CanisterLifecycle,
  CanisterSpec,
  PackedFacts,
  ModuleStore,
  SharedMemory,
  SleepingCanister,
} from '../execution/index.ts';
import { Histogram, type HistogramFigures, SECONDS_BOUNDS } from '../figures/index.ts';
import type { AsScheduled, Loader } from '../scheduler/index.ts';
import type { Storage, StoredCanister } from '../storage/index.ts';
import type { CanisterRecord } from './canister-record.ts';
import type { CanisterDirectory, SpecifiedCanister } from './canister-directory.ts';
import type { MessageHistories } from './message-histories.ts';
import { NO_BYTES, PAGE_BYTES } from '../bytes/index.ts';

/** A canister that is put to sleep and woken. */
type StoredRecord = SpecifiedCanister &
  Pick<
    CanisterRecord,
    | 'name'
    | 'handle'
    | 'steps'
    | 'settings'
    | 'module'
    | 'isRemoved'
    | 'damage'
    | 'replayed'
    | 'heapBytes'
    | 'version'
    | 'storedStableBytes'
  >;

interface StoredCanisterLoaderDependencies {
  readonly directory: CanisterDirectory;
  readonly execution: CanisterLifecycle & SharedMemory & Pick<ModuleStore, 'complete'>;
  readonly storage: Storage;
  readonly histories: Pick<MessageHistories, 'compact'>;
  readonly clock: Clock;
}

export class StoredCanisterLoader implements Loader {
  readonly #needs: StoredCanisterLoaderDependencies;
  /** Canisters whose eviction is under way. */
  readonly #falling = new Map<StoredRecord, Promise<void>>();
  readonly #wakeSeconds = new Histogram(SECONDS_BOUNDS);

  constructor(dependencies: StoredCanisterLoaderDependencies) {
    this.#needs = dependencies;
  }

  /** Seconds of wakes that succeeded. */
  get wakeSeconds(): HistogramFigures {
    return this.#wakeSeconds.figures;
  }

  async #sleep(record: StoredRecord): Promise<void> {
    await this.#needs.execution.sleep(record.handle);
    record.steps.logIs(0);
  }

  bytesOf(handle: number): number {
    const { heapBytes, stableBytes } = this.#needs.directory.get(handle);
    return heapBytes + stableBytes;
  }

  heapBytesOf(handle: number): number {
    return this.#needs.directory.get(handle).heapBytes;
  }

  storedStableBytesOf(handle: number): number {
    const { storedStableBytes, stableBytes } = this.#needs.directory.get(handle);
    // Other code may have begun anew with less.
    return Math.min(storedStableBytes, stableBytes);
  }

  sleep(handle: number): Promise<void> {
    const record = this.#needs.directory.get(handle);
    this.#needs.histories.compact(handle);
    record.outputIfAny?.compact();
    const falling = this.#sleep(record).finally(() => {
      if (this.#falling.get(record) === falling) this.#falling.delete(record);
    });
    this.#falling.set(record, falling);
    return falling;
  }

  /** Rejects with the ServerError why it cannot be; one whose stored state is damaged is kept out from then on. */
  async wake(handle: number, scheduled: AsScheduled): Promise<void> {
    const { clock, directory } = this.#needs;
    const record = directory.get(handle);
    const startedMs = clock.nowMs();
    await this.#bringBack(record, scheduled);
    this.#wakeSeconds.observe((clock.nowMs() - startedMs) / 1000);
  }

  async #bringBack(record: StoredRecord, scheduled: AsScheduled): Promise<void> {
    const { execution } = this.#needs;
    if (record.damage !== undefined) throw damaged(record, record.damage);
    await this.#falling.get(record);
    try {
      await this.#complete(record);
      throwIfRemoved(record);
      const facts = this.#factsOf(record, scheduled);
      if (await execution.rouse(record.handle, facts)) return;
      const stored = await this.#read(record);
      throwIfRemoved(record);
      const replayed = await execution.wake(record.handle, asStored(this.#factsOf(record, scheduled), stored));
      if (replayed === undefined) return;
      // The settings may have been changed since the last step.
      const { balance } = record.steps;
      if (replayed.balance !== balance || !areNumbersReached(replayed, record.steps.numbers))
        throw new ServerError(
          'unavailable',
          'state-unfit',
          `running the ${replayed.records} messages of its log again ended with ${replayed.balance} cycles at version ${replayed.version} instead of ${balance} at ${record.version}`,
        );
      record.replayed = replayed.records;
      record.steps.logIs(replayed.loggedInstructions);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      if (error.code !== 'state-corrupt' && error.code !== 'state-unfit') throw error;
      this.#needs.directory.quarantine(record, messageOf(error));
      throw damaged(record, messageOf(error));
    }
  }

  /**
   * Brings a copy of a sleeping canister to life under another handle; the canister goes on sleeping. Rejects as `wake`
   * does, and with ServerError `variables-replay` if a log has to be run again first.
   */
  async wakeCopy(record: StoredRecord, handle: number, spec: CanisterSpec): Promise<void> {
    const { execution } = this.#needs;
    if (record.damage !== undefined) throw damaged(record, record.damage);
    await this.#falling.get(record);
    await this.#complete(record);
    const stored = await this.#read(record);
    throwIfRemoved(record);
    if (stored.records.ends.length > 0) throw replayFirst(record);
    const facts = this.#factsOf(record, { status: 'running', timerMs: undefined, openCounts: [] });
    await execution.wake(handle, { ...asStored({ ...facts, spec }, stored), log: undefined });
  }

  /** Makes the code of its module, if nobody has needed that since the start. */
  async #complete({ module }: StoredRecord): Promise<void> {
    if (module === undefined) return;
    try {
      await this.#needs.execution.complete(module);
    } catch (error) {
      if (!(error instanceof ServerError) || error.kind !== 'invalid') throw error;
      throw new ServerError('unavailable', 'state-unfit', error.message, { cause: error });
    }
  }

  /** Reads a stored canister; its executor takes memory for it when it has it. */
  async #read(record: StoredRecord): Promise<StoredCanister> {
    const { execution, storage } = this.#needs;
    // The memory of a small canister is not its size.
    const { heapBytes } = record;
    const release = heapBytes < LARGE_HEAP_BYTES ? undefined : execution.holdMemory(heapBytes);
    try {
      const stored = await storage.canister(record.id);
      record.storedStableBytes = stored.memory.stable.numbers.length * PAGE_BYTES;
      return stored;
    } finally {
      release?.();
    }
  }

  #factsOf(
    record: StoredRecord,
    { status, timerMs, openCounts }: Pick<AsScheduled, 'status' | 'timerMs' | 'openCounts'>,
  ): PackedFacts {
    const { directory } = this.#needs;
    const { settings, controllers, module, steps } = record;
    const { numbers, heapBytes, stableBytes, instantMs } = steps;
    const spec = directory.specOf(record);
    return {
      spec,
      settings: {
        ...numbers,
        controllers,
        env: spec.env,
        status,
        heapBytesMax: settings.wasmMemoryLimit || Number.POSITIVE_INFINITY,
      },
      timerNs: timerNsOf(timerMs ?? Number.POSITIVE_INFINITY),
      instantMs,
      heapBytes,
      stablePages: stableBytes / WASM_PAGE_BYTES,
      module,
      openCalls: openCounts,
    };
  }
}

function asStored(
  facts: PackedFacts,
  { memory, copy, globals, certifiedData, checkpoint, records }: StoredCanister,
): SleepingCanister {
  return {
    ...facts,
    memory,
    copy,
    globals: globals ?? NO_BYTES,
    certifiedData: certifiedData ?? NO_BYTES,
    log: checkpoint === undefined ? undefined : { checkpoint, records },
  };
}

function throwIfRemoved({ isRemoved, name }: StoredRecord): void {
  if (isRemoved) throw new ServerError('missing', 'actor-missing', `actor ${name} has been deleted`);
}

function replayFirst({ name }: Pick<StoredRecord, 'name'>): ServerError {
  return new ServerError(
    'unavailable',
    'variables-replay',
    `the log of actor ${name} has to be run again before its variables can be read: call the actor once`,
  );
}

function damaged(record: Pick<StoredRecord, 'id' | 'name'>, reason: string): ServerError {
  return new ServerError(
    'missing',
    'actor-rejected',
    `actor ${record.name} (${hexOf(record.id)}) was rejected: ${reason}`,
  );
}
