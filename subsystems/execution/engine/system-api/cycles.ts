import { HostTrap } from '../fault.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';

/** The balance, and the cycles that come with calls. Changes are part of the execution: a trap takes them back. */
export function cyclesImports(x: CurrentExecution) {
  const mint = (name: string): never => {
    throw contractViolation(`ic0.${name} cannot be executed on a canister other than the cycles minting canister`);
  };
  return {
    msg_cycles_available128: (destination: number) =>
      x.writeAmount('msg_cycles_available128', destination, available(x)),
    msg_cycles_accept128: (high: bigint, low: bigint, destination: number) =>
      x.writeAmount('msg_cycles_accept128', destination, accept(x, amount128(high, low))),
    msg_cycles_refunded128: (destination: number) =>
      x.writeAmount('msg_cycles_refunded128', destination, x.cyclesRefunded),
    canister_cycle_balance128: (destination: number) =>
      x.writeAmount('canister_cycle_balance128', destination, x.spendableCycles),
    // Nothing is ever frozen here, so all that is spendable is liquid.
    canister_liquid_cycle_balance128: (destination: number) =>
      x.writeAmount('canister_liquid_cycle_balance128', destination, x.spendableCycles),
    cycles_burn128: (high: bigint, low: bigint, destination: number) => {
      const burned = least(amount128(high, low), x.spendableCycles);
      x.cyclesGained -= burned;
      x.writeAmount('cycles_burn128', destination, burned);
    },
    mint_cycles128: (_high: bigint, _low: bigint, _destination: number) => mint('mint_cycles128'),
    mint_cycles: (_amount: bigint) => mint('mint_cycles'),

    msg_cycles_available: () => amount64('msg_cycles_available', available(x)),
    msg_cycles_accept: (amount: bigint) => accept(x, BigInt.asUintN(64, amount)),
    msg_cycles_refunded: () => amount64('msg_cycles_refunded', x.cyclesRefunded),
    canister_cycle_balance: () => amount64('canister_cycle_balance', x.spendableCycles),
  };
}

/** Two i64 halves, signed as wasm hands them over, as one unsigned amount. */
export function amount128(high: bigint, low: bigint): bigint {
  return (BigInt.asUintN(64, high) << 64n) | BigInt.asUintN(64, low);
}

function amount64(name: string, amount: bigint): bigint {
  if (amount >> 64n !== 0n)
    throw new HostTrap(`ic0.${name}: ${amount} cycles do not fit into 64 bits; use ic0.${name}128`);
  return amount;
}

/**
 * What the call still offers. An answer takes the rest back only when the message that gave it has ended: one-way functions
 * of Motoko answer before their body runs, and their cycles are accepted there.
 */
function available(x: CurrentExecution): bigint {
  return x.context.cyclesAvailable - x.cyclesAccepted;
}

function accept(x: CurrentExecution, amountMax: bigint): bigint {
  const accepted = least(amountMax, available(x));
  x.cyclesAccepted += accepted;
  x.cyclesGained += accepted;
  return accepted;
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
