/**
 * A scheduler whose clients' calls have keys, over an execution that the test drives and a storage whose units can be
 * inspected.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type NotedMessage, type Outcome, idToText } from '../../../../subsystems/ic/index.ts';
import { NO_LISTENER } from '../../../../subsystems/scheduler/canister-port.ts';
import type { KeyBounds } from '../../../../subsystems/scheduler/idempotency/key-bounds.ts';
import { RoundScheduler } from '../../../../subsystems/scheduler/round-scheduler.ts';
import { NoStorage } from '../../../../subsystems/storage/no-storage.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { RecordedStorage } from '../../../support/recorded-storage.ts';
import { HeldExecution, idOf, MODULE } from '../held-execution.ts';

export const ANONYMOUS = Uint8Array.of(4);
const ACTORS = 3;

interface KeyedOptions {
  readonly storage?: RecordedStorage | undefined;
  readonly idempotencySecs?: number;
  readonly keyBounds?: KeyBounds;
  readonly nowMs?: number;
}

interface CallOptions {
  readonly handle?: number;
  readonly method?: string;
  readonly caller?: Uint8Array;
  readonly argument?: Uint8Array;
}

/** Result that a client was told. */
export interface Told {
  outcome: Outcome | undefined;
  refusal: unknown;
  /** Number of times that the client heard the answer. */
  heard: number;
}

export class KeyedHost {
  readonly clock: FakeClock;
  readonly execution = new HeldExecution();
  readonly scheduler: RoundScheduler;
  readonly storage: RecordedStorage | undefined;
  readonly #options: KeyedOptions;
  readonly #heard = new Map<NotedMessage, () => void>();

  constructor(options: KeyedOptions = {}) {
    this.#options = options;
    this.clock = new FakeClock(options.nowMs ?? 1_800_000_000_000);
    this.storage = 'storage' in options ? options.storage : new RecordedStorage();
    const { idempotencySecs = 100, keyBounds } = options;
    this.scheduler = new RoundScheduler(
      {
        execution: this.execution,
        clock: this.clock,
        storage: this.storage ?? new NoStorage(),
      },
      {
        heartbeatMs: 0,
        timerMs: 0,
        queryInstructionsMax: 1000,
        idempotencySecs,
        ...(keyBounds === undefined ? {} : { keyBounds }),
      },
    );
    this.scheduler.attachCanisters(
      {
        wake: () => Promise.resolve(),
        sleep: () => Promise.resolve(),
        bytesOf: () => 0,
        heapBytesOf: () => 0,
        storedStableBytesOf: () => 0,
      },
      { ...NO_LISTENER, answered: (_handle, noted) => this.#heard.get(noted)?.() },
    );
    for (let handle = 0; handle < ACTORS; handle++) {
      this.scheduler.admit(handle, idToText(idOf(handle)), { module: MODULE });
    }
  }

  /** Makes a call; undefined: without a key. */
  call(key: string | undefined, options: CallOptions = {}): Told {
    const { handle = 0, method = 'm', caller = ANONYMOUS, argument = Uint8Array.of(1) } = options;
    const told: Told = { outcome: undefined, refusal: undefined, heard: 0 };
    const message = { kind: 'update', method, caller, argument } as const;
    const noted = { ...message, argumentBytes: argument.length, startedMs: 0 };
    this.#heard.set(noted, () => told.heard++);
    this.scheduler.deliver(handle, { ...message, idempotencyKey: key, noted }).then(
      (outcome) => (told.outcome = outcome),
      (error: unknown) => (told.refusal = error),
    );
    return told;
  }

  /** Makes all sealed units durable, and tells those who wait for them. */
  async settle(): Promise<void> {
    for (let turns = 0; turns < 4; turns++) await nextTurn();
  }

  get executions(): number {
    return this.execution.started.length;
  }

  get keys(): number {
    return this.scheduler.idempotency.keys;
  }

  get rows(): number {
    return this.storage?.entries('blob').length ?? 0;
  }

  /** Ends the process after so many units, or after all sealed ones; the next one goes on with the stored state. */
  async restart(units?: number): Promise<KeyedHost> {
    const storage = this.storage?.restart(units);
    const next = new KeyedHost({ ...this.#options, storage, nowMs: this.clock.nowMs() });
    await next.scheduler.restoreAnswers();
    if (storage !== undefined) next.scheduler.restore(await storage.range('queue', new Uint8Array(0)));
    return next;
  }
}
