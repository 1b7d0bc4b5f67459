/** What was seen of actors over the last minutes, for the charts. */
import type { Actor } from './api.ts';

/** Five minutes at a sample every 2 s. */
const SAMPLES_MAX = 150;
/** Actors whose samples are kept; those looked at longest ago go first. */
const ACTORS_MAX = 500;

export interface Sample {
  readonly atMs: number;
  readonly memoryBytes: number;
  /** Rounded: a chart needs no more. */
  readonly cycles: number;
  readonly messages: number;
  readonly traps: number;
  readonly queued: number;
}

export class Samples {
  readonly #ofActors = new Map<string, Sample[]>();

  add(actors: readonly Actor[], atMs: number): void {
    for (const actor of actors) {
      const samples = this.#ofActors.get(actor.id) ?? [];
      this.#ofActors.delete(actor.id);
      this.#ofActors.set(actor.id, samples);
      const last = samples.at(-1);
      // An answer that was overtaken, or two polls that show the same actor.
      if (last !== undefined && atMs - last.atMs < 500) continue;
      samples.push({
        atMs,
        memoryBytes: actor.heapBytes + actor.stableBytes,
        cycles: Number(actor.cycles),
        messages: actor.messages,
        traps: actor.traps,
        queued: actor.queued,
      });
      if (samples.length > SAMPLES_MAX) samples.shift();
    }
    for (const id of this.#ofActors.keys()) {
      if (this.#ofActors.size <= ACTORS_MAX) break;
      this.#ofActors.delete(id);
    }
  }

  of(id: string): readonly Sample[] {
    return this.#ofActors.get(id) ?? [];
  }
}

export interface Point {
  readonly atMs: number;
  readonly value: number;
}

export function levels(samples: readonly Sample[], of: (sample: Sample) => number): readonly Point[] {
  return samples.map((sample) => ({ atMs: sample.atMs, value: of(sample) }));
}

/** How fast a count grew between samples, per second; a count that began anew (another start) grew by nothing. */
export function rates(samples: readonly Sample[], of: (sample: Sample) => number): readonly Point[] {
  return samples.slice(1).flatMap((sample, index) => {
    const before = samples[index];
    if (before === undefined) return [];
    const grown = Math.max(0, of(sample) - of(before));
    return [{ atMs: sample.atMs, value: (grown * 1000) / Math.max(1, sample.atMs - before.atMs) }];
  });
}
