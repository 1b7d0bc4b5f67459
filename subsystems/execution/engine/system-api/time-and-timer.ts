/** Executor thread, within a message: instant, timer, counters. Touches the effects of the execution alone. */
import { HostTrap } from '../fault.ts';
import type { CurrentExecution } from './current-execution.ts';

/** Imports for the message's instant, the global timer, and the instructions used. */
export function timeImports(execution: CurrentExecution) {
  return {
    time: () => execution.timeNs,
    global_timer_set: (timestamp: bigint): bigint => {
      const before = execution.timerNs ?? execution.canister.timerNs;
      execution.timerNs = BigInt.asUintN(64, timestamp);
      return before;
    },
    performance_counter: (type: number) => {
      if (type === 0) return execution.memory.instructionsUsed();
      if (type === 1) return execution.instructionsBefore + execution.memory.instructionsUsed();
      throw new HostTrap(
        `ic0.performance_counter: there is no counter ${type >>> 0}, only 0 (this execution) and 1 (the whole call)`,
      );
    },
  };
}
