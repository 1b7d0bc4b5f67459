/** A scheduler that keeps its state, with an execution and a journal that the test drives. */
import { type Outcome, idToText } from '../../../subsystems/ic/index.ts';
import { NO_LISTENER } from '../../../subsystems/scheduler/canister-port.ts';
import type { AdmitOptions, Loader } from '../../../subsystems/scheduler/index.ts';
import type { ShardOfService } from '../../../subsystems/scheduler/elsewhere/stubs.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import type { Entry } from '../../../subsystems/storage/index.ts';
import { RecordingJournal } from '../../simulation/recording-journal.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { HeldExecution, idOf, MODULE } from './held-execution.ts';

interface DurableOptions {
  readonly entries?: readonly Entry[];
  readonly liveCap?: number;
  readonly liveBytes?: number;
  readonly nowMs?: number;
  /** Undefined: the host is a service by itself. */
  readonly service?: ShardOfService | undefined;
}

export class DurableHost {
  readonly clock: FakeClock;
  readonly execution = new HeldExecution();
  readonly journal: RecordingJournal<undefined>;
  readonly scheduler: RoundScheduler;
  readonly slept: number[] = [];
  readonly woken: number[] = [];
  readonly changed: number[] = [];
  readonly lowMemoryRan: number[] = [];
  readonly warnings: string[] = [];
  /** Wakes under way; only if they are held. */
  readonly held: { readonly handle: number; readonly settle: PromiseWithResolvers<void> }[] = [];
  holdsWakes = false;
  /** Canisters that their executors do not drop until the test settles it. */
  readonly falling = new Map<number, PromiseWithResolvers<void>>();
  wakeProblem: Error | undefined;
  readonly bytes = new Map<number, number>();
  readonly heaps = new Map<number, number>();
  /** Bytes of stable memory that reads of sleeping canisters have found. */
  readonly stable = new Map<number, number>();

  constructor(options: DurableOptions = {}) {
    this.journal = new RecordingJournal<undefined>(undefined, options.entries ?? []);
    const { execution } = this;
    const warn = (text: string): void => void this.warnings.push(text);
    const { nowMs = 1000, liveCap = 0, liveBytes = 0, service } = options;
    this.clock = new FakeClock(nowMs);
    this.scheduler = new RoundScheduler(
      { execution, clock: this.clock, storage: this.journal, service, log: { info: () => undefined, warn } },
      { heartbeatMs: 10, timerMs: 5, queryInstructionsMax: 1000, liveCap, liveBytes },
    );
    const loader: Loader = {
      wake: async (handle) => {
        if (this.holdsWakes) {
          const settle = Promise.withResolvers<void>();
          this.held.push({ handle, settle });
          await settle.promise;
        }
        if (this.wakeProblem !== undefined) throw this.wakeProblem;
        this.woken.push(handle);
        this.execution.memory.bytesUsed += this.heaps.get(handle) ?? 0;
      },
      sleep: (handle) => {
        this.slept.push(handle);
        const fallen = this.falling.get(handle)?.promise ?? Promise.resolve();
        return fallen.then(() => {
          this.execution.memory.bytesUsed -= this.heaps.get(handle) ?? this.bytes.get(handle) ?? 0;
        });
      },
      bytesOf: (handle) => this.bytes.get(handle) ?? 0,
      heapBytesOf: (handle) => this.heaps.get(handle) ?? 0,
      storedStableBytesOf: (handle) => this.stable.get(handle) ?? 0,
    };
    this.scheduler.attachCanisters(loader, {
      ...NO_LISTENER,
      recordChanged: (handle) => void this.changed.push(handle),
      lowMemoryRan: (handle) => void this.lowMemoryRan.push(handle),
    });
  }

  /** Admits canisters of an earlier process, awake by default. */
  admit(handles: readonly number[], options: AdmitOptions = {}): this {
    for (const handle of handles) this.scheduler.admit(handle, idToText(idOf(handle)), { module: MODULE, ...options });
    return this;
  }

  deliver(handle: number, kind: 'update' | 'query' = 'update'): { outcome: Outcome | undefined } {
    const method = kind === 'update' ? 'm' : 'q';
    const argument = Uint8Array.of(handle);
    const told: { outcome: Outcome | undefined } = { outcome: undefined };
    void this.scheduler
      .deliver(handle, { kind, method, caller: Uint8Array.of(4), argument })
      .then((outcome) => (told.outcome = outcome));
    return told;
  }

  /** Ends the turn of the event loop: one unit. */
  async endTurn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.journal.seal(() => undefined);
  }

  async commit(): Promise<void> {
    await this.endTurn();
    this.journal.commit(this.journal.pending);
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** Returns the stored entries once everything so far is durable. */
  async entries(): Promise<readonly Entry[]> {
    await this.commit();
    return this.journal.entries();
  }
}
