import type { ErrorKind } from '../../kernel/index.ts';
import type { RejectCode } from './reject-codes.ts';

/** The outcome of one message. A guest's fault is a value, not an exception. */
export type Outcome = {
  /** Instructions used, in the IC's weighted units. */
  readonly instructions: number;
  /** Cycles charged for the execution. */
  readonly charge: number;
  /** True if nothing was executed for this message: its answer is that of an earlier one with the same key. */
  readonly isRepeat?: true;
  /** True if nothing was executed for this message, and nothing of it is kept: it may be sent again, elsewhere. */
  readonly isUnbegun?: true;
} & (
  | { readonly kind: 'reply'; readonly data: Uint8Array }
  /**
   * `reject`: the canister rejected (code 4). `trap` and `limit` have code 5. `noReply`: the method returned without an
   * answer (code 5). `outOfCycles`: the balance was dry, or used up before the end.
   */
  | {
      readonly kind: 'reject' | 'trap' | 'limit' | 'noReply' | 'outOfCycles' | 'unavailable';
      readonly code: RejectCode;
      readonly message: string;
      /** As `StepFault` has it. */
      readonly stack?: string | undefined;
    }
);

/** Error kind of each outcome without a reply. */
export const ERROR_KIND_OF_OUTCOME = {
  reject: 'rejected',
  trap: 'trapped',
  limit: 'trapped',
  noReply: 'noReply',
  outOfCycles: 'outOfCycles',
  unavailable: 'unavailable',
} as const satisfies Record<Exclude<Outcome['kind'], 'reply'>, ErrorKind>;
