/**
 * Has canisters loaded that are asleep, and knows which of them are about to be awake. Where there is no memory for
 * one, idle canisters give way (relief.ts), and the waking is tried again.
 *
 * Main thread; asks for what canisters/stored-canister-loader.ts does.
 */
import { type Clock, ServerError, sleep } from '../../kernel/index.ts';
import type { MemoryFigures } from '../execution/index.ts';
import { LARGE_HEAP_BYTES } from '../ic/index.ts';
import type { CanisterPort } from './canister-port.ts';
import type { Falling } from './falling.ts';
import type { Relief } from './relief.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';

/** Wakes at the same time: each reads a whole canister. */
const WAKES_MAX = 64;
/** For so long one is tried again that there is no memory for: others become idle meanwhile. */
const MEMORY_TRIES = 200;
const MEMORY_RETRY_MS = 50;
/** Interval of looks whether there is memory for it earlier than that. */
const MEMORY_LOOK_MS = 10;

export class Waking {
  readonly #clock: Clock;
  readonly #memory: MemoryFigures | undefined;
  readonly #relief: Relief | undefined;
  readonly #port: CanisterPort;
  readonly #waking = new Set<ScheduledCanister>();
  readonly #falling: Pick<Falling, 'bytes'>;
  /** Bytes that canisters which wake have not taken yet. */
  #wakingBytes = 0;

  constructor(
    clock: Clock,
    port: CanisterPort,
    memory: MemoryFigures | undefined,
    relief: Relief | undefined,
    falling: Pick<Falling, 'bytes'>,
  ) {
    this.#falling = falling;
    this.#clock = clock;
    this.#port = port;
    this.#memory = memory;
    this.#relief = relief;
  }

  get isFull(): boolean {
    return this.#waking.size >= WAKES_MAX;
  }

  has(canister: ScheduledCanister): boolean {
    return this.#waking.has(canister);
  }

  /** Returns the bytes of memory that the canister takes at most when it is woken, as far as is known. */
  bytesOf({ handle }: ScheduledCanister): number {
    const { loader } = this.#port;
    return loader.heapBytesOf(handle) + loader.storedStableBytesOf(handle);
  }

  /** True if there can never be memory for the canister: small heaps take less than their size. */
  #isHopeless({ handle }: ScheduledCanister): boolean {
    if (this.#memory === undefined) return true;
    const { loader } = this.#port;
    const heapBytes = loader.heapBytesOf(handle);
    const least = (heapBytes < LARGE_HEAP_BYTES ? 0 : heapBytes) + loader.storedStableBytesOf(handle);
    return least > this.#memory.bytesMax;
  }

  /** Tells whether the canister has to wait for memory; one that can never have it is told so. */
  isLarge(canister: ScheduledCanister): boolean {
    const bytes = this.bytesOf(canister);
    return this.#memory !== undefined && bytes >= LARGE_HEAP_BYTES && bytes <= this.#memory.bytesMax;
  }

  /**
   * Tells whether memory is lacking for the canister, when those that fall asleep are gone, with `freedBytes` more, and
   * those that wake are there.
   */
  lacksMemory(next: ScheduledCanister, freedBytes: number): boolean {
    if (this.#memory === undefined || !this.isLarge(next)) return false;
    const { bytesUsed, bytesMax } = this.#memory;
    return bytesUsed - this.#falling.bytes - freedBytes + this.#wakingBytes + this.bytesOf(next) > bytesMax;
  }

  /** Calls back when it is awake, or with the reason why it cannot be. */
  begin(canister: ScheduledCanister, ended: (problem: Error | undefined) => void): void {
    canister.expect('be loaded', 'loading');
    this.#waking.add(canister);
    const bytes = this.isLarge(canister) ? this.bytesOf(canister) : 0;
    this.#wakingBytes += bytes;
    const end = (problem: Error | undefined): void => {
      this.#waking.delete(canister);
      ended(problem);
    };
    // Later: the executor that it has died with may still be about to be replaced.
    Promise.resolve()
      .then(() => this.#wakeWithMemory(canister))
      .finally(() => (this.#wakingBytes -= bytes))
      .then(
        () => end(undefined),
        (error: unknown) => end(error instanceof Error ? error : new Error(String(error))),
      );
  }

  async #wakeWithMemory(canister: ScheduledCanister): Promise<void> {
    for (let triesLeft = MEMORY_TRIES; ; triesLeft--) {
      try {
        await this.#port.loader.wake(canister.handle, canister);
        return;
      } catch (error) {
        const isShort = error instanceof ServerError && error.code === 'memory-full';
        // The try may have found out how much stable memory the canister has.
        const isOver = triesLeft === 0 || canister.state.kind === 'deleted' || this.#isHopeless(canister);
        if (!isShort || isOver) throw error;
      }
      const bytes = Math.min(this.bytesOf(canister), this.#memory?.bytesMax ?? 0);
      const hasSlept = await this.#relief?.makeRoom(bytes);
      if (hasSlept !== true) await this.#untilRetry(canister);
    }
  }

  /** Resolves when there is memory for the canister, or after a while: it may take less than its heap has. */
  async #untilRetry(canister: ScheduledCanister): Promise<void> {
    const untilMs = this.#clock.nowMs() + MEMORY_RETRY_MS;
    while (this.#clock.nowMs() < untilMs) {
      await sleep(this.#clock, MEMORY_LOOK_MS);
      const { bytesUsed, bytesMax } = this.#memory ?? { bytesUsed: 0, bytesMax: 0 };
      if (bytesUsed + this.bytesOf(canister) <= bytesMax) return;
    }
  }
}
