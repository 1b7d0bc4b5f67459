/** A thread that collects its garbage for the first time when it is told to, beside others that do. */
import { parentPort, workerData } from 'node:worker_threads';
import { collectGarbage } from '../../subsystems/threads/index.ts';

const start = new Int32Array(workerData as SharedArrayBuffer);
parentPort?.postMessage('ready');
Atomics.wait(start, 0, 0);
collectGarbage('young');
parentPort?.postMessage('collected');
