/** What clients send. */
import type { Outcome } from '../../../subsystems/ic/index.ts';
import type { LedgerArgument } from './ledger-module.ts';

export const CALLER = Uint8Array.of(4);

export type Method = 'note' | 'spread' | 'transfer' | 'ask' | 'arm' | 'look' | 'peek';

/** One message of a client's. */
export interface Sent {
  readonly number: number;
  readonly actor: string;
  readonly method: Method;
  /** It asks a server outside, and not the management canister itself. */
  readonly isOutside: boolean;
  readonly argument: LedgerArgument;
  /** Name of the actor that a transfer goes to, or that a query looks at. */
  readonly to: string | undefined;
  /** What the client was told; undefined: nothing yet, or never. */
  outcome: Outcome | undefined;
  /** Nobody tells it any more. */
  isLost: boolean;
}

/** The actor's method. */
export function exportOf({ method, isOutside }: Sent): string {
  return isOutside ? 'askOutside' : method;
}
