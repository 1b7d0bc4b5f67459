/** A thread that first collects its garbage when told to, beside others that collect theirs. */
import { parentPort, workerData } from 'node:worker_threads';
import { collectGarbage } from '../../subsystems/threads/index.ts';

const start = new Int32Array(workerData as SharedArrayBuffer);
parentPort?.postMessage('ready');
Atomics.wait(start, 0, 0);
collectGarbage('young');
parentPort?.postMessage('collected');
