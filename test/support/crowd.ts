import { availableParallelism, loadavg } from 'node:os';

/**
 * Returns the number of threads that want each core, those of the machine's other work included: a busy thread waits as
 * many times longer.
 */
export function crowd(): number {
  return Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());
}
