import { defineCapability } from '../../kernel/index.ts';

export { joinPages } from './joined-pages.ts';

/** A number that only grows. Code that counts adds to `value`. */
export interface Tally {
  value: number;
}

/** Counts of one class of endpoints: requests in `value`, and their answers. Counting allocates nothing. */
export interface RequestTally extends Tally {
  /**
   * Counts an answer with this status that was sent whole, this many milliseconds after its request was first looked
   * at.
   */
  answered(status: number, ms: number): void;
  /** Counts an answer that lasts as long as its client likes; it has no duration. */
  streamed(status: number): void;
}

/** A number that another room keeps. */
export interface ShownNumber {
  readonly name: `svc_${string}`;
  readonly type: 'gauge' | 'counter';
  readonly help: string;
  /** Returns the number; called whenever a page is made. */
  readonly read: () => number;
}

/** Numbers for operators, in the text format of Prometheus. */
export interface Metrics {
  /** Content type of `page`. */
  readonly contentType: string;
  /** Returns the tally of one class of endpoints, the same object for the same class. */
  requestsOf(endpoint: string): RequestTally;
  /** Adds a number to every page from now on; to be called once for each name. */
  show(number: ShownNumber): void;
  /**
   * Resolves with all numbers, none older than the call: pieces of UTF-8 that make one page. Calls that come while a
   * page is made share the next one. Rejects with ServerError `metrics-off` if metrics are turned off, or with the
   * error of reading the state.
   */
  page(): Promise<readonly Uint8Array[]>;
}
export const Metrics = defineCapability<Metrics>('metrics');
