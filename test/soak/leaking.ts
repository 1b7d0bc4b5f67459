/** Loaded into a server (`--import`) that is to grow: keeps SVC_TEST_LEAK bytes a second for ever. */
import { isMainThread } from 'node:worker_threads';

const EVERY_MS = 100;
const perMs = Number(process.env['SVC_TEST_LEAK']) / 1000;
const kept: Buffer[] = [];
let lastMs = performance.now();

function leak(): void {
  const nowMs = performance.now();
  kept.push(Buffer.alloc(Math.ceil(perMs * (nowMs - lastMs)), kept.length));
  lastMs = nowMs;
}

if (isMainThread) setInterval(leak, EVERY_MS).unref();
