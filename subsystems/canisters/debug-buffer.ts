import type { DebugLine } from './index.ts';

/** Text kept for a canister that nobody reads: 1 MiB (docs/http.md). Counted in UTF-16 units plus a line's overhead. */
export const BUFFER_BYTES_MAX = 1 << 20;
const LINE_OVERHEAD_BYTES = 64;

/** A canister's debug output since the last read. Bounded: the oldest lines go, and a line says how many. */
export class DebugBuffer {
  #lines: DebugLine[] = [];
  #bytes = 0;
  #nextSeq = 1;
  #dropped = 0;

  append(timeMs: number, text: string): void {
    this.#lines.push({ seq: this.#nextSeq++, timeMs, text });
    this.#bytes += text.length + LINE_OVERHEAD_BYTES;
    if (this.#bytes > BUFFER_BYTES_MAX) this.#dropOldest();
  }

  /** Drops to three quarters, so that a canister that prints without end does not move the array for every line. */
  #dropOldest(): void {
    let count = 0;
    while (this.#bytes > (BUFFER_BYTES_MAX / 4) * 3 && count < this.#lines.length - 1) {
      this.#bytes -= (this.#lines[count++]?.text.length ?? 0) + LINE_OVERHEAD_BYTES;
    }
    this.#lines.splice(0, count);
    this.#dropped += count;
  }

  /** Takes what is there; the next read starts empty. */
  take(): readonly DebugLine[] {
    const lines = this.#lines;
    const first = lines[0];
    if (this.#dropped > 0 && first !== undefined) {
      const plural = this.#dropped === 1 ? 'line was' : 'lines were';
      lines.unshift({
        seq: first.seq - 1,
        timeMs: first.timeMs,
        text: `(${this.#dropped} older ${plural} dropped: the buffer holds 1 MiB)`,
      });
    }
    this.#lines = [];
    this.#bytes = 0;
    this.#dropped = 0;
    return lines;
  }
}
