/** What seeds of the scheduler's simulation have in them, and mistakes that are planted in what is tested. */
import { seeded } from '../support/seeded.ts';
import type { PlantedOperators } from './random-operators.ts';
import type { RandomThreadsOptions } from './random-threads.ts';
import type { Draw } from './sealed.ts';

/** Seeds whose messages may make more calls than one turn sends. */
const BURSTING_ONE_IN = 4;

/** What there is besides calls. */
export interface Mix {
  readonly lanes: number;
  /** Best-effort calls, whose cycles may be lost. */
  readonly hasTimeouts?: boolean;
  /** Stops, starts, code changes, uninstallations, deletions. */
  readonly hasChanges?: boolean;
  /** Executors die. */
  readonly hasDeaths?: boolean;
  /** The end is a drain instead of rest. */
  readonly isDrained?: boolean;
  /** State is kept, and the host crashes. */
  readonly isKept?: boolean;
  /** Actors that are live at most. */
  readonly liveCap?: number;
  /** Actors cannot always be woken. */
  readonly hasFailures?: boolean;
}

/** A mistake in what is tested. */
export interface Planted extends Pick<RandomThreadsOptions, 'createGate' | 'plant'> {
  readonly operators?: PlantedOperators;
  /** Units are sealed in the middle of a message whose calls are being sent. */
  readonly sealsAmid?: boolean;
}

/** Chance of bursts alone, so that seeds without them are as they were. */
export function burstsOf(seed: number): Draw | undefined {
  const own = seeded(seed * 6053 + 5);
  // So that seeds that follow each other have nothing in common.
  for (let n = 0; n < 8; n++) own.below(2);
  return own.oneIn(BURSTING_ONE_IN) ? (below) => own.below(below) : undefined;
}
