import type { Metering, MeteringPolicy } from './index.ts';

/** Prices of a message (docs/metering.md). */
const CYCLES_PER_MESSAGE = 590_000;
const CYCLES_PER_10_INSTRUCTIONS = 4;

export interface MeteringOptions {
  /** False: nothing is charged, and only the instruction limit applies. */
  readonly isEnabled: boolean;
  readonly instructionLimit: number;
  /** Cycles of a new canister. */
  readonly startingCycles: bigint;
}

/** Creates the price list that docs/metering.md promises. */
export function createMetering(options: MeteringOptions): Metering {
  const policy: MeteringPolicy = {
    isEnabled: options.isEnabled,
    startingCycles: options.startingCycles,
    cyclesPerMessage: CYCLES_PER_MESSAGE,
    cyclesPer10Instructions: CYCLES_PER_10_INSTRUCTIONS,
    instructionLimit: options.instructionLimit,
  };
  return { policy: Object.freeze(policy) };
}
