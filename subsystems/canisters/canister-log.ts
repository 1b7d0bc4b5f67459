import { at } from '../../kernel/index.ts';
import { NS_PER_MS } from '../ic/index.ts';
import type { CanisterLogRecord } from '../management/index.ts';
import { withoutParent } from './canister-history.ts';

/**
 * Bytes kept for `fetch_canister_logs`, content and overhead of lines; the IC keeps 4 KiB, which is little to debug
 * with.
 */
const LOG_BYTES_MAX = 64 * 1024;
/** Counted for each line besides its content, so that a canister cannot print empty ones without end. */
const LINE_OVERHEAD_BYTES = 16;

/**
 * A line as text: bytes of it would be a piece of a pool of Node's, which a short line would hold as long as it is
 * kept, 64 KiB for each.
 */
interface Line {
  readonly index: number;
  readonly timeMs: number;
  readonly text: string;
  readonly bytes: number;
}

/** Lines that a canister printed, for its controllers: apart from the debug buffer, which reading clears. */
export class CanisterLog {
  #lines: Line[] = [];
  #bytes = 0;
  #next = 0;

  /** Appends a line; only its first 64 KiB are kept. */
  append(timeMs: number, text: string): void {
    const bytes = LINE_OVERHEAD_BYTES + Math.min(Buffer.byteLength(text), LOG_BYTES_MAX);
    const kept = text.length > LOG_BYTES_MAX ? withoutParent(text, LOG_BYTES_MAX) : text;
    this.#lines.push({ index: this.#next++, timeMs, text: kept, bytes });
    this.#bytes += bytes;
    // Half at once, so that a canister that prints without end does not move the list for every line.
    if (this.#bytes > LOG_BYTES_MAX) this.keep(LOG_BYTES_MAX / 2);
  }

  /** Bytes of content and overhead. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Drops the oldest lines until the rest has so many bytes at most; the newest line stays. */
  keep(bytesMax: number): void {
    this.#drop(bytesMax, this.#lines.length - 1);
  }

  /** Drops about the older half; a line that is the only one goes, too. */
  halve(): void {
    this.#drop(this.#bytes / 2, Math.max(1, this.#lines.length - 1));
  }

  #drop(bytesMax: number, droppedMax: number): void {
    let dropped = 0;
    while (this.#bytes > bytesMax && dropped < droppedMax) {
      this.#bytes -= at(this.#lines, dropped++, 'line of a log').bytes;
    }
    if (dropped > 0) this.#lines = this.#lines.slice(dropped);
  }

  get records(): readonly CanisterLogRecord[] {
    return this.#lines.map(({ index, timeMs, text }) => ({
      index,
      timeNs: BigInt(Math.round(timeMs * NS_PER_MS)),
      content: Buffer.from(text).subarray(0, LOG_BYTES_MAX),
    }));
  }

  /** Lines that were ever appended. */
  get length(): number {
    return this.#next;
  }

  /** Drops the lines that were there when there had been `length` of them. */
  forget(length: number): void {
    this.#lines = this.#lines.filter(({ index }) => index >= length);
    this.#bytes = this.#lines.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  clear(): void {
    this.forget(this.#next);
  }
}
