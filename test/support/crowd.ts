import { availableParallelism, loadavg } from 'node:os';

/** How many threads want each core, of this machine's other work too: as many times longer does one that is busy wait. */
export function crowd(): number {
  return Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());
}
