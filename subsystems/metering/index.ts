import { defineCapability } from '../../kernel/index.ts';

/** Price of a message. Plain data, so that it can be passed to executor threads. */
export interface MeteringPolicy {
  readonly isEnabled: boolean;
  /** Cycles of a new canister for which no balance was given. */
  readonly startingCycles: bigint;
  /** Charged for every message. */
  readonly cyclesPerMessage: number;
  /** Charged for every ten instructions, rounded up. */
  readonly cyclesPer10Instructions: number;
  /** Instructions after which every message is stopped. */
  readonly instructionLimit: number;
}

/** Prices and limits of this host. The canisters keep the balances. */
export interface Metering {
  readonly policy: MeteringPolicy;
}
export const Metering = defineCapability<Metering>('metering');

/** Returns the cycles charged for one message that used `instructions`. */
export function chargeOf(policy: MeteringPolicy, instructions: number): number {
  return policy.isEnabled
    ? policy.cyclesPerMessage + Math.ceil((instructions * policy.cyclesPer10Instructions) / 10)
    : 0;
}

/** Returns true if the balance is too small even for an empty message. */
export function isDry(policy: MeteringPolicy, balance: bigint): boolean {
  return policy.isEnabled && balance < BigInt(policy.cyclesPerMessage);
}

/** Returns the instructions that the next message may use: the limit, or fewer if the balance does not suffice. */
export function instructionsAllowed(policy: MeteringPolicy, balance: bigint): number {
  if (!policy.isEnabled) return policy.instructionLimit;
  const rest = balance - BigInt(policy.cyclesPerMessage);
  if (rest <= 0n) return 0;
  if (rest >= BigInt(policy.instructionLimit) * BigInt(policy.cyclesPer10Instructions)) return policy.instructionLimit;
  return Math.min(policy.instructionLimit, Math.floor((Number(rest) * 10) / policy.cyclesPer10Instructions));
}
