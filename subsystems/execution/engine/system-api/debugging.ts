/** Executor thread, within a message: printing and trapping. Reads the heap; touches the debug output alone. */
import { CalledTrap } from '../fault.ts';
import type { CurrentExecution } from './current-execution.ts';
import { DEBUG_BYTES_MAX } from './debug-output.ts';

/** Longest text of a trap that is handed on. */
const TRAP_TEXT_BYTES_MAX = 16 * 1024;

const LOSSY_TEXT = new TextDecoder('utf-8', { ignoreBOM: true });

/** Imports for debug prints and traps. */
export function debuggingImports(execution: CurrentExecution) {
  return {
    debug_print: (source: number, size: number) => {
      const memory = execution.memory;
      memory.charge(2 * Math.min(size, DEBUG_BYTES_MAX) + 50 * Math.min(size, execution.debug.bytesLeft));
      const heap = memory.heap();
      if (source + size > heap.length) execution.debug.note('(debug_print message out of memory bounds)');
      else execution.debug.print(heap, source, size);
    },
    trap: (source: number, size: number): never => {
      const memory = execution.memory;
      const heap = memory.heap();
      execution.checkHeapRange('trap', heap, source, size);
      const kept = Math.min(size, TRAP_TEXT_BYTES_MAX);
      memory.charge(kept);
      throw new CalledTrap(LOSSY_TEXT.decode(heap.subarray(source, source + kept)));
    },
  };
}
