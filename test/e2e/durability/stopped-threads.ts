/**
 * Loaded by `--import` into a server: SIGUSR2 ends one of its executor threads, in turn, as a fault of the host does.
 */
import { isMainThread, type Worker } from 'node:worker_threads';

if (isMainThread) {
  const executors: Worker[] = [];
  process.on('worker', (worker: Worker) => {
    if (!worker.threadName?.startsWith('executor')) return;
    executors.push(worker);
    worker.on('exit', () => executors.splice(executors.indexOf(worker), 1));
  });
  process.on('SIGUSR2', () => {
    const worker = executors.shift();
    if (worker === undefined) return;
    executors.push(worker);
    void worker.terminate();
  });
}
