/**
 * The entry of an executor's worker thread. Any error of the host ends the thread: see executor-pool.ts. Executor
 * thread: lowers its own priority, and leaves all else to executor-thread.ts.
 */
import { flushCompileCache } from 'node:module';
import { setPriority } from 'node:os';
import { workerData } from 'node:worker_threads';
import { cpuMs } from './cpu-time.ts';
import { ExecutorThread } from './executor-thread.ts';
import { openDiscard, PageReturns } from '../memory/page-returns.ts';
import type { ExecutorOptions } from '../wire/port-messages.ts';

/**
 * Priority of guests: if all cores are busy, they leave the processor to the threads that answer clients and write the
 * log. On Linux a priority belongs to a thread, 0 is the calling thread, and lowering it takes no rights.
 */
const GUEST_NICENESS = 5;

// Keeps compiled code for threads of later processes (config/code-cache.ts).
flushCompileCache();
if (process.platform === 'linux') setPriority(0, GUEST_NICENESS);
const parts = { cpuMs, returns: new PageReturns(openDiscard) };
await new ExecutorThread(workerData as ExecutorOptions, () => performance.now(), parts).serve();
