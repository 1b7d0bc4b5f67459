import { HostTrap } from '../fault.ts';
import type { CurrentExecution } from './current-execution.ts';

/** The message's instant, the global timer, and how many instructions were used. */
export function timeImports(x: CurrentExecution) {
  return {
    time: () => x.timeNs,
    global_timer_set: (timestamp: bigint): bigint => {
      const before = x.timerNs ?? x.canister.timerNs;
      x.timerNs = BigInt.asUintN(64, timestamp);
      return before;
    },
    performance_counter: (type: number) => {
      if (type === 0) return x.memory.instructionsUsed();
      if (type === 1) return x.instructionsBefore + x.memory.instructionsUsed();
      throw new HostTrap(
        `ic0.performance_counter: there is no counter ${type >>> 0}, only 0 (this execution) and 1 (the whole call)`,
      );
    },
  };
}
