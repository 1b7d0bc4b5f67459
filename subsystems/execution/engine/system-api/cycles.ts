/**
 * Executor thread, within a message: cycles. Touches the effects of the execution; the balance follows when the
 * execution returns.
 */
import { HostTrap } from '../fault.ts';
import { contractViolation, type CurrentExecution } from './current-execution.ts';

/**
 * Imports for the balance and the cycles that come with calls. Changes are part of the execution: a trap takes them
 * back.
 */
export function cyclesImports(execution: CurrentExecution) {
  const mint = (name: string): never => {
    throw contractViolation(`ic0.${name} cannot be executed on a canister other than the cycles minting canister`);
  };
  return {
    msg_cycles_available128: (destination: number) =>
      execution.writeAmount('msg_cycles_available128', destination, available(execution)),
    msg_cycles_accept128: (high: bigint, low: bigint, destination: number) =>
      execution.writeAmount('msg_cycles_accept128', destination, accept(execution, amount128(high, low))),
    msg_cycles_refunded128: (destination: number) =>
      execution.writeAmount('msg_cycles_refunded128', destination, execution.cyclesRefunded),
    canister_cycle_balance128: (destination: number) =>
      execution.writeAmount('canister_cycle_balance128', destination, execution.spendableCycles),
    // Nothing is ever frozen here, so all that is spendable is liquid.
    canister_liquid_cycle_balance128: (destination: number) =>
      execution.writeAmount('canister_liquid_cycle_balance128', destination, execution.spendableCycles),
    cycles_burn128: (high: bigint, low: bigint, destination: number) => {
      const burned = least(amount128(high, low), execution.spendableCycles);
      execution.cyclesGained -= burned;
      execution.writeAmount('cycles_burn128', destination, burned);
    },
    mint_cycles128: (_high: bigint, _low: bigint, _destination: number) => mint('mint_cycles128'),
    mint_cycles: (_amount: bigint) => mint('mint_cycles'),

    msg_cycles_available: () => amount64('msg_cycles_available', available(execution)),
    msg_cycles_accept: (amount: bigint) => accept(execution, BigInt.asUintN(64, amount)),
    msg_cycles_refunded: () => amount64('msg_cycles_refunded', execution.cyclesRefunded),
    canister_cycle_balance: () => amount64('canister_cycle_balance', execution.spendableCycles),
  };
}

/** Returns the unsigned amount of two i64 halves, which wasm hands over as signed. */
export function amount128(high: bigint, low: bigint): bigint {
  return (BigInt.asUintN(64, high) << 64n) | BigInt.asUintN(64, low);
}

function amount64(name: string, amount: bigint): bigint {
  if (amount >> 64n !== 0n)
    throw new HostTrap(`ic0.${name}: ${amount} cycles do not fit into 64 bits; use ic0.${name}128`);
  return amount;
}

/**
 * Returns the cycles that the call still offers. An answer takes the rest back only when the message that gave it has
 * ended: one-way functions of Motoko answer before their body runs, and the body accepts their cycles.
 */
function available(execution: CurrentExecution): bigint {
  return execution.context.cyclesAvailable - execution.cyclesAccepted;
}

function accept(execution: CurrentExecution, amountMax: bigint): bigint {
  const accepted = least(amountMax, available(execution));
  execution.cyclesAccepted += accepted;
  execution.cyclesGained += accepted;
  return accepted;
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
