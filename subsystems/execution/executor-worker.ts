/** The entry of an executor's worker thread. Whatever goes wrong in the host ends the thread: see executor-pool.ts. */
import { workerData } from 'node:worker_threads';
import { ExecutorThread } from './executor-thread.ts';
import type { ExecutorOptions } from './wire.ts';

await new ExecutorThread(workerData as ExecutorOptions, () => performance.now()).serve();
