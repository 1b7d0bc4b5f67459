/** Executor thread: an error as its thread tells it to the main thread. Touches nothing. */
import { messageOf } from '../../../kernel/index.ts';
import { isLackOfMemory } from '../persistence/canister-image.ts';

/** Reason for a failure, as text; `isShort` is true if the reason is lack of memory. */
export interface Problem {
  readonly problem: string;
  readonly isShort: boolean;
}

export const NO_PROBLEM = { problem: undefined, isShort: false } as const;

export function problemOf(error: unknown): Problem {
  return { problem: messageOf(error), isShort: isLackOfMemory(error) };
}
