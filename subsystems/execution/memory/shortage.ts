/**
 * Memory requests of a message that were refused. The refusals depended on the machine and its other actors, so they
 * are in the message's record: when the record is run again, anywhere, the same requests are refused.
 *
 * Executor thread: plain data.
 */
export type Shortage =
  /** Growths of heap or stable memory were granted this many times, and none after them. */
  | { readonly kind: 'refused'; readonly granted: number }
  /**
   * The message needed a page that was not available, and trapped after this many instructions: it need not run again.
   */
  | { readonly kind: 'stopped'; readonly instructions: number };

/** Shortages of a task by run: a callback that failed is followed by its cleanup. Undefined: nothing was refused. */
export type Shortages = readonly (Shortage | undefined)[];

export const RUNS_MAX = 2;
