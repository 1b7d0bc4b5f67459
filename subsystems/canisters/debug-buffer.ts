import { at } from '../../kernel/index.ts';
import type { DebugLine } from './index.ts';

/** Text kept for a canister that nobody reads: 1 MiB (docs/http.md). Counted in UTF-16 units plus a line's overhead. */
export const BUFFER_BYTES_MAX = 1 << 20;
/** The same while the canister sleeps: there may be very many of those. */
export const ASLEEP_BYTES_MAX = 64 * 1024;
const LINE_OVERHEAD_BYTES = 64;

/** Returns the bytes that a line counts for. */
export function bytesOfLine({ text }: DebugLine): number {
  return text.length + LINE_OVERHEAD_BYTES;
}

/** A canister's debug output since the last read. Bounded: the oldest lines go, and a line says how many. */
export class DebugBuffer {
  readonly #lines: DebugLine[] = [];
  #bytes = 0;
  #nextSeq = 1;
  #dropped = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#lines.length === 0;
  }

  append(timeMs: number, text: string): void {
    const line = { seq: this.#nextSeq++, timeMs, text };
    this.#lines.push(line);
    this.#bytes += bytesOfLine(line);
    // To three quarters, so that a canister that prints without end does not move the array for every line.
    if (this.#bytes > BUFFER_BYTES_MAX) this.keep((BUFFER_BYTES_MAX / 4) * 3);
  }

  /** Drops the oldest lines until the rest counts for so many bytes at most; the newest line stays. */
  keep(bytesMax: number): void {
    this.#drop(bytesMax, this.#lines.length - 1);
  }

  /** Drops about the older half; a line that is the only one goes, too. */
  halve(): void {
    this.#drop(this.#bytes / 2, Math.max(1, this.#lines.length - 1));
  }

  #drop(bytesMax: number, countMax: number): void {
    let count = 0;
    while (this.#bytes > bytesMax && count < countMax) {
      this.#bytes -= bytesOfLine(at(this.#lines, count++, 'line'));
    }
    if (count === 0) return;
    this.#lines.splice(0, count);
    this.#dropped += count;
  }

  /** Takes the oldest lines, about so many bytes of them, one at least; who takes all leaves nothing. */
  take(bytesMax = Number.POSITIVE_INFINITY): readonly DebugLine[] {
    let count = 0;
    let bytes = 0;
    while (count < this.#lines.length && bytes < bytesMax) bytes += bytesOfLine(at(this.#lines, count++, 'line'));
    const taken = this.#lines.splice(0, count);
    this.#bytes -= bytes;
    const first = taken[0];
    if (this.#dropped > 0 && first !== undefined) {
      const plural = this.#dropped === 1 ? 'line was' : 'lines were';
      const text = `(${this.#dropped} older ${plural} dropped: nobody read them in time)`;
      taken.unshift({ seq: first.seq - 1, timeMs: first.timeMs, text });
      this.#dropped = 0;
    }
    return taken;
  }
}
