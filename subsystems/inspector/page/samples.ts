/** Samples of actors over the last minutes, for the charts. */
import type { ListedActor } from './api.ts';

/** Milliseconds that a sample is kept: the longest time that a chart shows. */
export const WINDOW_MS = 300_000;
/** Nothing is drawn between two samples further apart than this: the tab was hidden, or the server away. */
const GAP_MS = 30_000;
/** Actors whose samples are kept; those looked at longest ago are dropped first. */
const ACTORS_MAX = 500;

/** Samples closer than this count as one. */
const SAME_MS = 500;

export interface Sample {
  readonly atMs: number;
  readonly memoryBytes: number;
  /** Rounded, which is exact enough for a chart. */
  readonly cycles: number;
  readonly messages: number;
  readonly traps: number;
  readonly queued: number;
}

export class Samples {
  readonly #ofActors = new Map<string, Sample[]>();

  add(actors: readonly ListedActor[], atMs: number): void {
    for (const actor of actors) {
      this.put(actor.id, {
        atMs,
        memoryBytes: actor.heapBytes + actor.stableBytes,
        cycles: Number(actor.cycles),
        messages: actor.messages,
        traps: actor.traps,
        queued: actor.queued,
      });
    }
  }

  /** Adds one sample of what has this id. */
  put(id: string, sample: Sample): void {
    const samples = this.#samplesOf(id, sample.atMs);
    const last = samples.at(-1);
    // The list and the open actor may show the same actor at the same time.
    if (last === undefined || sample.atMs - last.atMs >= SAME_MS) samples.push(sample);
    for (const oldest of this.#ofActors.keys()) {
      if (this.#ofActors.size <= ACTORS_MAX) break;
      this.#ofActors.delete(oldest);
    }
  }

  /** Returns the samples that are recent enough; none if the clock was set back. */
  #samplesOf(id: string, nowMs: number): Sample[] {
    const known = this.#ofActors.get(id) ?? [];
    const isBack = (known.at(-1)?.atMs ?? nowMs) - nowMs > SAME_MS;
    const samples = isBack ? [] : known.filter(({ atMs }) => atMs > nowMs - WINDOW_MS);
    // Moved to the end: the map begins with the actors looked at longest ago.
    this.#ofActors.delete(id);
    this.#ofActors.set(id, samples);
    return samples;
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

/** Returns the growth of a count between samples, per second; a count that was reset (by a restart) grew by nothing. */
export function rates(samples: readonly Sample[], of: (sample: Sample) => number): readonly Point[] {
  return samples.slice(1).flatMap((sample, index) => {
    const before = samples[index];
    if (before === undefined) return [];
    const grown = Math.max(0, of(sample) - of(before));
    return [{ atMs: sample.atMs, value: (grown * 1000) / Math.max(1, sample.atMs - before.atMs) }];
  });
}

/** Returns the points in runs without a gap: values between two runs are not known. */
export function runsOf(points: readonly Point[]): readonly (readonly Point[])[] {
  const runs: Point[][] = [];
  for (const point of points) {
    const run = runs.at(-1);
    const last = run?.at(-1);
    if (run === undefined || last === undefined || point.atMs - last.atMs > GAP_MS) runs.push([point]);
    else run.push(point);
  }
  return runs;
}
