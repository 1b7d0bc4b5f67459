/**
 * What a message was refused for lack of memory. It depended on the machine and its other actors, so it is in the record of
 * the message: when that is run again, anywhere, the same is refused.
 *
 * Executor thread: plain data.
 */
export type Shortage =
  /** So many growths of heap or stable memory were granted, and none after them. */
  | { readonly kind: 'refused'; readonly granted: number }
  /** It needed a page that was not to be had, and trapped after so many instructions: it need not be run again. */
  | { readonly kind: 'stopped'; readonly instructions: number };

/** By run of a task: a callback that failed is followed by its cleanup. Undefined: nothing was refused. */
export type Shortages = readonly (Shortage | undefined)[];

export const RUNS_MAX = 2;
