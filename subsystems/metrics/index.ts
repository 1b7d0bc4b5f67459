import { defineCapability } from '../../kernel/index.ts';

/** A number that only grows. Whoever counts adds to `value`. */
export interface Tally {
  value: number;
}

/** What is counted of one class of endpoints: requests in `value`, and their answers. Counting allocates nothing. */
export interface RequestTally extends Tally {
  /** An answer with that status has been handed over whole, so many milliseconds after its request was first looked at. */
  answered(status: number, ms: number): void;
  /** The same of one that lasts as long as its client likes: it counts as an answer, and has no duration. */
  streamed(status: number): void;
}

/** A number that another room keeps. */
export interface ShownNumber {
  readonly name: `svc_${string}`;
  readonly type: 'gauge' | 'counter';
  readonly help: string;
  /** Called whenever a page is made. */
  readonly read: () => number;
}

/** Numbers for operators, in the text format of Prometheus. */
export interface Metrics {
  /** What `page` is. */
  readonly contentType: string;
  /** Of one class of endpoints; the same tally for the same class. */
  requestsOf(endpoint: string): RequestTally;
  /** Has every page show a number from now on; once for each name. */
  show(number: ShownNumber): void;
  /**
   * All numbers, none older than the call: pieces of UTF-8 that make one page. Calls that come while a page is made get
   * the next one together. Rejects with ServerError `metrics-off` when they are turned off, or with what keeps the state
   * from being asked.
   */
  page(): Promise<readonly Uint8Array[]>;
}
export const Metrics = defineCapability<Metrics>('metrics');
