import { at } from '../../kernel/index.ts';
import type { DebugLine } from './index.ts';

/** Text kept for a canister: 1 MiB (docs/http.md). Counted in UTF-16 units plus a line's overhead. */
export const BUFFER_BYTES_MAX = 1 << 20;
/** The same while the canister sleeps: there may be very many of those. */
export const ASLEEP_BYTES_MAX = 64 * 1024;
const LINE_OVERHEAD_BYTES = 64;

/** Returns the bytes that a line counts for. */
export function bytesOfLine({ text }: DebugLine): number {
  return text.length + LINE_OVERHEAD_BYTES;
}

/**
 * A canister's newest debug output. Each line is taken once, by whoever reads and clears; it stays readable for others
 * while there is room. Bounded: the oldest lines go, those that were taken first, and a line says how many went that
 * nobody had taken.
 */
export class DebugBuffer {
  /** Oldest first, so taken ones first. */
  readonly #lines: DebugLine[] = [];
  /** Number of lines that were taken. */
  #taken = 0;
  #bytes = 0;
  /** Bytes of the lines that were taken. */
  #takenBytes = 0;
  #nextSeq = 1;
  #dropped = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get takenBytes(): number {
    return this.#takenBytes;
  }

  /** True if nothing is left to take. */
  get isEmpty(): boolean {
    return this.#lines.length === this.#taken;
  }

  /** `message`: number of the message that has printed the line; 0: it has none. */
  append(timeMs: number, text: string, message: number): void {
    const line = { seq: this.#nextSeq++, timeMs, text, message };
    this.#lines.push(line);
    this.#bytes += bytesOfLine(line);
    if (this.#bytes <= BUFFER_BYTES_MAX) return;
    // To three quarters, so that a canister that prints without end does not move the array for every line.
    const bytesMax = (BUFFER_BYTES_MAX / 4) * 3;
    this.#drop(bytesMax, this.#taken);
    if (this.#bytes > BUFFER_BYTES_MAX) this.keep(bytesMax);
  }

  /**
   * Yields the lines behind the one with that number that there are now, and takes none; one that goes while somebody
   * reads is left out. All of them if no line has that number yet: a process before this one gave it.
   */
  *linesAfter(seq: number): Iterable<DebugLine> {
    const end = this.#nextSeq;
    let next = seq >= end ? 1 : seq + 1;
    for (;;) {
      const first = this.#nextSeq - this.#lines.length;
      if (next < first) next = first;
      if (next >= end) return;
      yield at(this.#lines, next++ - first, 'line');
    }
  }

  /** Drops the oldest lines until the rest counts for so many bytes at most; the newest line stays. */
  keep(bytesMax: number): void {
    this.#drop(bytesMax, this.#lines.length - 1);
  }

  /** Drops about the older half; a line that is the only one goes, too. */
  halve(): void {
    this.#drop(this.#bytes / 2, Math.max(1, this.#lines.length - 1));
  }

  /** Drops about the older half of the lines that were taken; one that is the only one goes, too. */
  halveTaken(): void {
    this.#drop(this.#bytes - this.#takenBytes / 2, this.#taken);
  }

  #drop(bytesMax: number, countMax: number): void {
    let count = 0;
    while (this.#bytes > bytesMax && count < countMax) {
      const bytes = bytesOfLine(at(this.#lines, count, 'line'));
      this.#bytes -= bytes;
      if (count++ < this.#taken) this.#takenBytes -= bytes;
    }
    if (count === 0) return;
    this.#lines.splice(0, count);
    const taken = Math.min(count, this.#taken);
    this.#taken -= taken;
    this.#dropped += count - taken;
  }

  /** Takes the oldest lines, about so many bytes of them, one at least; who takes all leaves nothing. */
  take(bytesMax = Number.POSITIVE_INFINITY): readonly DebugLine[] {
    let end = this.#taken;
    let bytes = 0;
    while (end < this.#lines.length && bytes < bytesMax) bytes += bytesOfLine(at(this.#lines, end++, 'line'));
    const taken = this.#lines.slice(this.#taken, end);
    this.#taken = end;
    this.#takenBytes += bytes;
    const first = taken[0];
    if (this.#dropped > 0 && first !== undefined) {
      const plural = this.#dropped === 1 ? 'line was' : 'lines were';
      const text = `(${this.#dropped} older ${plural} dropped: nobody read them in time)`;
      taken.unshift({ seq: first.seq - 1, timeMs: first.timeMs, text, message: 0 });
      this.#dropped = 0;
    }
    return taken;
  }
}
