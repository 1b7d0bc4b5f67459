import type { DebugBuffer } from './debug-buffer.ts';
import type { DebugLine, OutputFollowing, OutputReader } from './index.ts';
import { bytesOfLine } from './debug-buffer.ts';

/** Bytes that a reader is given at a time. */
const BATCH_BYTES_MAX = 64 * 1024;

interface Reading {
  readonly reader: OutputReader;
  /** Number of the newest line that the reader was given. */
  seq: number;
}

/**
 * Readers of what one canister prints that take nothing: each is told every line that is kept when the reader has room.
 * A reader that is slow misses the lines that go meanwhile, and sees that by their numbers.
 */
export class OutputReaders {
  readonly #buffer: Pick<DebugBuffer, 'linesAfter'>;
  readonly #readings = new Set<Reading>();
  #isScheduled = false;

  constructor(buffer: Pick<DebugBuffer, 'linesAfter'>) {
    this.#buffer = buffer;
  }

  /** `after`: number of the last line that the reader has; 0: none. */
  read(reader: OutputReader, after: number): OutputFollowing {
    const reading = { reader, seq: after };
    this.#readings.add(reading);
    this.#tell(reading);
    return { resume: () => this.#tell(reading), end: () => void this.#readings.delete(reading) };
  }

  /** Tells readers of what was printed, when everything that was printed with it is there. */
  printed(): void {
    if (this.#isScheduled || this.#readings.size === 0) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      for (const reading of this.#readings) this.#tell(reading);
    });
  }

  /** Ends all readings: the canister is gone. */
  end(): void {
    const readings = [...this.#readings];
    this.#readings.clear();
    for (const { reader } of readings) reader.ended();
  }

  #tell(reading: Reading): void {
    const { reader } = reading;
    while (this.#readings.has(reading) && reader.hasRoom) {
      const lines = batchOf(this.#buffer.linesAfter(reading.seq));
      const last = lines.at(-1);
      if (last === undefined) return;
      reading.seq = last.seq;
      reader.write(lines);
    }
  }
}

function batchOf(all: Iterable<DebugLine>): readonly DebugLine[] {
  const lines: DebugLine[] = [];
  let bytes = 0;
  for (const line of all) {
    lines.push(line);
    bytes += bytesOfLine(line);
    if (bytes >= BATCH_BYTES_MAX) break;
  }
  return lines;
}
