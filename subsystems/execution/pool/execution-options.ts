/** Main thread: options of the executor threads together; those that an operator sets, and those of tests. */
import type { PieceSizes } from '../persistence/piece-sizes.ts';
import type { StartExecutorThread } from './executor.ts';
import type { UsedLoader } from './pool-modules.ts';

export interface ExecutionOptions {
  readonly executors: number;
  /** Bytes of stack a message may use. */
  readonly wasmStackBytes: number;
  /** Directory in which the instrumented modules of these actors are kept; undefined: there is none. */
  readonly cacheDirectory?: string | undefined;
  /** Directory of instrumented modules of all servers of this user; looked at behind the first. */
  readonly sharedCacheDirectory?: string | undefined;
  /** Bytes of memory that all canisters may have together; no bound unless given. */
  readonly memoryBytes?: number;
}

/** Bounds that tests make smaller. */
export interface ExecutionBounds {
  readonly heapAddressGibMax?: number;
  readonly typesMax?: number;
  readonly idleModuleMs?: number;
  readonly pieceSizes?: PieceSizes | undefined;
}

/** Replacements that a simulation uses in place of threads. */
export interface ExecutionParts {
  readonly startThread?: StartExecutorThread;
  readonly loader?: UsedLoader;
}
