/** Kinds of seeds of the scheduler's simulation, and mistakes that are planted in the tested code. */
import { seeded } from '../support/seeded.ts';
import type { PlantedOperators } from './random-operators.ts';
import type { RandomThreadsOptions } from './random-threads.ts';
import type { Draw } from './sealed.ts';

/** In one seed of this many, messages may make more calls than one turn sends. */
const BURSTING_ONE_IN = 4;

/** Features of a simulation besides calls. */
export interface Mix {
  readonly lanes: number;
  /** True if calls may be best-effort calls, whose cycles may be lost. */
  readonly hasTimeouts?: boolean;
  /** True if actors are stopped, started, changed, uninstalled and deleted. */
  readonly hasChanges?: boolean;
  /** True if executors die. */
  readonly hasDeaths?: boolean;
  /** True if the seed ends with a drain instead of rest. */
  readonly isDrained?: boolean;
  /** True if state is kept and the host crashes. */
  readonly isKept?: boolean;
  /** Maximum of live actors. */
  readonly liveCap?: number;
  /** True if waking an actor may fail. */
  readonly hasFailures?: boolean;
}

/** A mistake in the tested code. */
export interface Planted extends Pick<RandomThreadsOptions, 'createGate' | 'plant'> {
  readonly operators?: PlantedOperators;
  /** True if units are sealed in the middle of a message whose calls are being sent. */
  readonly sealsAmid?: boolean;
}

/** Returns chance for bursts alone, so that seeds without them stay as they were. */
export function burstsOf(seed: number): Draw | undefined {
  const own = seeded(seed * 6053 + 5);
  // Makes consecutive seeds have nothing in common.
  for (let n = 0; n < 8; n++) own.below(2);
  return own.oneIn(BURSTING_ONE_IN) ? (below) => own.below(below) : undefined;
}
