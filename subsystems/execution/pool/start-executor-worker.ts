/**
 * Starts executor threads as worker threads of Node.
 * Main thread; sets flags of V8 that new threads read, and touches nothing of theirs.
 */
import { setFlagsFromString } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { messageStackBytes, threadStackMb } from '../../instrument/abi/index.ts';
import type { StartExecutorThread } from './executor.ts';
import { sizeLongStacks } from './long-stacks.ts';

/**
 * A live heap is an object of a few words to V8. But if its bytes count as memory that a collection might free (not in
 * V8 14.6, see ADR 18), every 64 MB of them start a collection, which is a dozen new 64-bit actors, and each lasts
 * longer the more actors live: 45 ms with 2,500. Counted into the limit of the whole heap, which grows with the live
 * objects, collections are rare. That limit is twice the old generation's, which must leave room for thousands of heaps
 * (no memory is set aside for it). A V8 without the flag ignores it.
 */
setFlagsFromString('--external-memory-accounted-in-global-limit');
const OLD_GENERATION_MB_MAX = 65_536;
/** With V8's 48 MB the buffers of many thousand messages and wake-ups lie about before they are collected. */
const YOUNG_GENERATION_MB_MAX = 12;

// The first releases of Node 24 have JavaScript Promise Integration behind this flag; threads started from now on get
// it.
if (!('Suspending' in WebAssembly)) setFlagsFromString('--experimental-wasm-jspi');

export const startExecutorWorker: StartExecutorThread = (options, ended) => {
  sizeLongStacks(messageStackBytes(options.wasmStackBytes));
  const worker = new Worker(new URL('../thread/executor-worker.ts', import.meta.url), {
    workerData: options,
    transferList: [options.port],
    name: `executor ${options.executorIndex}`,
    resourceLimits: {
      stackSizeMb: threadStackMb(options.wasmStackBytes),
      maxOldGenerationSizeMb: OLD_GENERATION_MB_MAX,
      maxYoungGenerationSizeMb: YOUNG_GENERATION_MB_MAX,
    },
  });
  // The listener keeps the process alive while it serves; a thread alone is no reason to.
  worker.unref();
  let reason = 'it ended';
  worker.on('error', (error) => {
    reason = error instanceof Error ? error.message : String(error);
  });
  worker.on('exit', () => ended(reason));
  return {
    listen: (outbox, drain) => outbox.listen(drain),
    terminate: () => worker.terminate(),
  };
};
