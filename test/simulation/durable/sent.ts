/** Messages of clients. */
import type { Outcome } from '../../../subsystems/ic/index.ts';
import type { LedgerArgument } from './ledger-module.ts';

export const CALLER = Uint8Array.of(4);

export type Method = 'note' | 'spread' | 'transfer' | 'ask' | 'arm' | 'look' | 'peek';

/** One message of a client. */
export interface Sent {
  readonly number: number;
  readonly actor: string;
  readonly method: Method;
  /** True if the message asks a server outside, instead of the management canister itself. */
  readonly isOutside: boolean;
  readonly argument: LedgerArgument;
  /** Name of the actor to which a transfer goes, or at which a query looks. */
  readonly to: string | undefined;
  /** Outcome that the client was told; undefined: none yet, or never. */
  outcome: Outcome | undefined;
  /** True if no host will tell the outcome any more. */
  isLost: boolean;
}

/** Returns the name of the exported method. */
export function exportOf({ method, isOutside }: Sent): string {
  return isOutside ? 'askOutside' : method;
}
