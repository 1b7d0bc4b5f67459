/** What `flush-recorder.ts` has written down in a server. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

interface Flush {
  /** Milliseconds since 1970. */
  readonly fromMs: number;
  readonly ms: number;
}

/** The environment of a server whose slow flushes are to be written to that file. */
export function recordingFlushes(path: string): Record<string, string> {
  const recorder = fileURLToPath(new URL('./flush-recorder.ts', import.meta.url));
  return { NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --import ${recorder}`, SVC_TEST_FLUSHES: path };
}

/** Flushes of one thread, so one after the other. */
export class SlowFlushes {
  readonly #flushes: readonly Flush[];

  constructor(flushes: readonly Flush[]) {
    this.#flushes = flushes;
  }

  static async read(path: string): Promise<SlowFlushes> {
    const text = await readFile(path, 'utf8').catch(() => '');
    const lines = text.split('\n').filter((line) => line !== '');
    return new SlowFlushes(
      lines.map((line) => {
        const [fromMs = NaN, ms = NaN] = line.split(' ').map(Number);
        return { fromMs, ms };
      }),
    );
  }

  get count(): number {
    return this.#flushes.length;
  }

  get totalMs(): number {
    return this.#flushes.reduce((sum, { ms }) => sum + ms, 0);
  }

  get longestMs(): number {
    return this.#flushes.reduce((most, { ms }) => Math.max(most, ms), 0);
  }

  /** How long one of them was under way between two instants. */
  within(fromMs: number, toMs: number): number {
    let sum = 0;
    for (const flush of this.#flushes)
      sum += Math.max(0, Math.min(toMs, flush.fromMs + flush.ms) - Math.max(fromMs, flush.fromMs));
    return sum;
  }
}
