import { REFUSE } from './refusal.ts';

/**
 * What chunk stores and snapshots of all canisters hold together. They lie in the main thread's memory, or will once
 * they are asked for, and any actor may fill them: without a bound one of them could end the host.
 */
export class StoredBytes {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Refuses when there is not that much left. */
  take(bytes: number): void {
    if (bytes > this.#bytesMax - this.#bytes)
      throw REFUSE.full(
        `chunk stores and snapshots of this host hold ${this.#bytes} of ${this.#bytesMax} bytes: there is no room for ${bytes} more`,
      );
    this.#bytes += bytes;
  }

  /** What was there at the start counts, even if it is more than may be added. */
  restore(bytes: number): void {
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }
}
