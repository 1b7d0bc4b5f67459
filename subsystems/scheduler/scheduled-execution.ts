/** Main thread; a type alone. */
import type { Execution } from '../execution/index.ts';

/** The part of Execution that the scheduler uses. */
export type ScheduledExecution = Pick<
  Execution,
  | 'attend'
  | 'executorCount'
  | 'executorOf'
  | 'aheadOf'
  | 'run'
  | 'recall'
  | 'change'
  | 'uninstall'
  | 'configure'
  | 'addCycles'
  | 'executing'
  | 'refuseNew'
  | 'memory'
  | 'attendMemory'
  | 'trim'
>;
