/**
 * Canisters that have been put to sleep, and that their executors have not dropped yet: one of hundreds of megabytes is
 * stored for seconds. Whoever takes its place needs not wait for that; it can be loaded again only afterwards.
 *
 * Main thread; asks for what canisters/stored-canister-loader.ts does.
 */
import { LARGE_HEAP_BYTES } from '../ic/index.ts';
import type { CanisterPort } from './canister-port.ts';
import type { Relief } from './relief.ts';
import type { ScheduledCanister } from './scheduled-canister.ts';

export class Falling {
  readonly #port: Pick<CanisterPort, 'loader'>;
  readonly #relief: Pick<Relief, 'trim'> | undefined;
  readonly #falling = new Map<ScheduledCanister, Promise<void>>();
  /** Bytes of large heaps that are not given back yet. */
  bytes = 0;

  constructor(port: Pick<CanisterPort, 'loader'>, relief: Pick<Relief, 'trim'> | undefined) {
    this.#port = port;
    this.#relief = relief;
  }

  has(canister: ScheduledCanister): boolean {
    return this.#falling.has(canister);
  }

  /** Resolves when the canister is not falling asleep, or not any more. */
  async settled(canister: ScheduledCanister): Promise<void> {
    await this.#falling.get(canister);
  }

  /** Resolves when the canister's executor has dropped it; calls `freed` when a large heap is given back as well. */
  begin(canister: ScheduledCanister, freed: () => void): Promise<void> {
    const { handle } = canister;
    const { loader } = this.#port;
    const fallen = Promise.resolve(loader.sleep(handle));
    this.#falling.set(canister, fallen);
    void fallen.then(() => this.#falling.delete(canister));
    const bytes = this.#relief === undefined ? 0 : loader.heapBytesOf(handle);
    if (bytes >= LARGE_HEAP_BYTES) {
      this.bytes += bytes;
      const trimmed = fallen.then(() => this.#relief?.trim());
      void trimmed.then(() => {
        this.bytes -= bytes;
        freed();
      });
    }
    return fallen;
  }
}
