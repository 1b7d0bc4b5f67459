import { at } from '../../kernel/index.ts';
import { NS_PER_MS } from '../ic/index.ts';
import type { CanisterLogRecord } from '../management/index.ts';

/** Bytes of content kept for `fetch_canister_logs`; the IC keeps 4 KiB, which is little to debug with. */
const LOG_BYTES_MAX = 64 * 1024;

/** Lines that a canister printed, for its controllers: apart from the debug buffer, which reading clears. */
export class CanisterLog {
  #records: CanisterLogRecord[] = [];
  #bytes = 0;
  #next = 0;

  append(timeMs: number, text: string): void {
    const content = Buffer.from(text).subarray(0, LOG_BYTES_MAX);
    this.#records.push({ index: this.#next++, timeNs: BigInt(Math.round(timeMs * NS_PER_MS)), content });
    this.#bytes += content.length;
    // Half at once, so that a canister that prints without end does not move the list for every line.
    if (this.#bytes > LOG_BYTES_MAX) this.keep(LOG_BYTES_MAX / 2);
  }

  /** Bytes of content. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Drops the oldest lines until the rest has so many bytes at most; the newest line stays. */
  keep(bytesMax: number): void {
    this.#drop(bytesMax, this.#records.length - 1);
  }

  /** Drops about the older half; a line that is the only one goes, too. */
  halve(): void {
    this.#drop(this.#bytes / 2, Math.max(1, this.#records.length - 1));
  }

  #drop(bytesMax: number, droppedMax: number): void {
    let dropped = 0;
    while (this.#bytes > bytesMax && dropped < droppedMax) {
      this.#bytes -= at(this.#records, dropped++, 'line of a log').content.length;
    }
    if (dropped > 0) this.#records = this.#records.slice(dropped);
  }

  get records(): readonly CanisterLogRecord[] {
    return this.#records;
  }

  /** Lines that were ever appended. */
  get length(): number {
    return this.#next;
  }

  /** Drops the lines that were there when there had been `length` of them. */
  forget(length: number): void {
    this.#records = this.#records.filter(({ index }) => index >= length);
    this.#bytes = this.#records.reduce((sum, { content }) => sum + content.length, 0);
  }

  clear(): void {
    this.forget(this.#next);
  }
}
