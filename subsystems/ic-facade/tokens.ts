/** Methods that ledgers of tokens have in common. Nothing is counted: every balance is the same, at any time. */
import { answer, type FacadeMethod } from './served-canister.ts';

export interface Token {
  readonly name: string;
  readonly symbol: string;
  readonly decimals: number;
  /** Fee of a transfer, in the smallest units; it is told, and nobody pays it. */
  readonly fee: bigint;
  /** Balance of everybody, in the smallest units. */
  readonly balance: bigint;
}

/** Numbers of blocks, which no block has: from 0 in each process. */
export class BlockNumbers {
  #next = 0;

  take(): number {
    return this.#next++;
  }
}

export const TOKEN_READS = [
  'icrc1_balance_of',
  'icrc1_fee',
  'icrc1_decimals',
  'icrc1_symbol',
  'icrc1_name',
  'icrc2_allowance',
] as const;

interface Transfer {
  readonly amount: number | string;
}

/** Returns the methods of ICRC-1 and ICRC-2. `noted` gives a transfer of an amount its block. */
export function tokenMethods(
  { name, symbol, decimals, fee, balance }: Token,
  noted: (amount: bigint) => number,
): Readonly<Record<string, FacadeMethod>> {
  const transfer: FacadeMethod = ({ amount: text }: Transfer) =>
    answer(() => {
      const amount = BigInt(text);
      const isTooMuch = amount > balance;
      return isTooMuch ? { Err: { InsufficientFunds: { balance: balance.toString() } } } : { Ok: noted(amount) };
    });
  return {
    icrc1_balance_of: () => answer(() => balance.toString()),
    icrc1_fee: () => answer(() => fee.toString()),
    icrc1_decimals: () => answer(() => decimals),
    icrc1_symbol: () => answer(() => symbol),
    icrc1_name: () => answer(() => name),
    icrc2_allowance: () => answer(() => ({ allowance: balance.toString(), expires_at: null })),
    icrc1_transfer: transfer,
    // Whatever amount is allowed: nobody counts it.
    icrc2_approve: () => answer(() => ({ Ok: noted(0n) })),
    icrc2_transfer_from: transfer,
  };
}
