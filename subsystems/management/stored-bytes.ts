import { REFUSE } from './refusal.ts';

/**
 * Bytes that chunk stores and snapshots of all canisters hold together. They are in the main thread's memory, or will
 * be once they are needed, and any actor may fill them: without a limit one actor could end the host.
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

  /** Takes bytes. Throws a Refusal if fewer are left. */
  take(bytes: number): void {
    if (bytes > this.#bytesMax - this.#bytes)
      throw REFUSE.full(
        `chunk stores and snapshots of this host hold ${this.#bytes} of ${this.#bytesMax} bytes: there is no room for ${bytes} more`,
      );
    this.#bytes += bytes;
  }

  /** Counts bytes that were there at the start, even if they exceed the limit for additions. */
  restore(bytes: number): void {
    this.#bytes += bytes;
  }

  give(bytes: number): void {
    this.#bytes -= bytes;
  }
}
