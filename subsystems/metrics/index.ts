import { defineCapability } from '../../kernel/index.ts';

/** A number that only grows. Whoever counts adds to `value`. */
export interface Tally {
  value: number;
}

/** Numbers for operators, in the text format of Prometheus. */
export interface Metrics {
  /** What `page` is. */
  readonly contentType: string;
  /** Requests of one class of endpoints; the same tally for the same class. */
  requestsOf(endpoint: string): Tally;
  /** All numbers as of now. Rejects with ServerError `metrics-off` when they are turned off, or with what keeps the state from being asked. */
  page(): Promise<string>;
}
export const Metrics = defineCapability<Metrics>('metrics');
