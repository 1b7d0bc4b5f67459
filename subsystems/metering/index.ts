import { defineCapability } from '../../kernel/index.ts';

/** What a message costs. Plain data, so that it can be handed to executor threads. */
export interface MeteringPolicy {
  readonly isEnabled: boolean;
  /** Cycles of a new canister that names no balance of its own. */
  readonly startingCycles: bigint;
  /** Charged for every message. */
  readonly cyclesPerMessage: number;
  /** Charged for every ten instructions, rounded up. */
  readonly cyclesPer10Instructions: number;
  /** Instructions after which any message is stopped. */
  readonly instructionLimit: number;
}

/** The price list and the limits of this host. Balances themselves belong to the canisters. */
export interface Metering {
  readonly policy: MeteringPolicy;
}
export const Metering = defineCapability<Metering>('metering');

/** Cycles charged for one message that used `instructions`. */
export function chargeOf(policy: MeteringPolicy, instructions: number): number {
  return policy.isEnabled
    ? policy.cyclesPerMessage + Math.ceil((instructions * policy.cyclesPer10Instructions) / 10)
    : 0;
}

/** Dry: the balance does not even pay for an empty message. */
export function isDry(policy: MeteringPolicy, balance: bigint): boolean {
  return policy.isEnabled && balance < BigInt(policy.cyclesPerMessage);
}

/** Instructions the next message may use: the limit, or what the balance still buys if that is less. */
export function instructionsAllowed(policy: MeteringPolicy, balance: bigint): number {
  if (!policy.isEnabled) return policy.instructionLimit;
  const rest = balance - BigInt(policy.cyclesPerMessage);
  if (rest <= 0n) return 0;
  if (rest >= BigInt(policy.instructionLimit) * BigInt(policy.cyclesPer10Instructions)) return policy.instructionLimit;
  return Math.min(policy.instructionLimit, Math.floor((Number(rest) * 10) / policy.cyclesPer10Instructions));
}
