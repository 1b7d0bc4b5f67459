import type { ErrorKind } from '../../kernel/index.ts';
import type { RejectCode } from './reject-codes.ts';

/** The outcome of one message. A guest's fault is a value: nobody has to catch anything. */
export type Outcome = {
  /** Instructions used, in the IC's weighted units. */
  readonly instructions: number;
  /** Cycles charged for the execution. */
  readonly charge: number;
  /** Nothing was executed for this message: it is the answer of an earlier one with the same key. */
  readonly isRepeat?: true;
} & (
  | { readonly kind: 'reply'; readonly data: Uint8Array }
  /** `reject`: the canister said so (code 4). `trap` and `limit` have code 5. `noReply`: returned without an answer (code 5). `outOfCycles`: balance dry, or spent before the end. */
  | {
      readonly kind: 'reject' | 'trap' | 'limit' | 'noReply' | 'outOfCycles' | 'unavailable';
      readonly code: RejectCode;
      readonly message: string;
    }
);

/** Which kind of error the outcome of a message is that has no reply. */
export const ERROR_KIND_OF_OUTCOME = {
  reject: 'rejected',
  trap: 'trapped',
  limit: 'trapped',
  noReply: 'noReply',
  outOfCycles: 'outOfCycles',
  unavailable: 'unavailable',
} as const satisfies Record<Exclude<Outcome['kind'], 'reply'>, ErrorKind>;
