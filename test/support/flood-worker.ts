/**
 * Connections without a token, in a thread of their own: some send requests without end, as fast as the server takes
 * them; others send nothing. The thread posts `ready` when it has started, begins at the first message, and from then
 * on reports the number of open silent connections.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

const { host, port, flooding, silent } = workerData as { host: string; port: number; flooding: number; silent: number };
const BURST = 'GET /health HTTP/1.1\r\nhost: svc\r\n\r\n'.repeat(200);
/**
 * Number of connections at a time, two thousand a second: with more, this thread would take too much of the server's
 * time.
 */
const AT_ONCE = 100;
const EVERY_MS = 50;

// The answers are read and dropped; a connection that the server ends is expected.
const ignore = (): undefined => undefined;

assert(parentPort, 'floods come from a worker');
parentPort.postMessage('ready');
await once(parentPort, 'message');

for (let n = 0; n < flooding; n++) {
  const socket = connect(port, host);
  const write = (): void => {
    while (socket.writable && socket.write(BURST));
  };
  socket.on('connect', write).on('drain', write).resume().on('error', ignore);
}
let connected = 0;
/** Opens a connection that sends nothing; the server closes it after a long idle time, and another one is opened. */
function beSilent(): void {
  const socket = connect(port, host).resume().on('error', ignore);
  socket.on('connect', () => parentPort?.postMessage(++connected));
  socket.on('close', () => {
    parentPort?.postMessage(--connected);
    setTimeout(beSilent, 1000 * Math.random());
  });
}
for (let n = 1; n <= silent; n++) {
  beSilent();
  if (n % AT_ONCE === 0) await sleep(EVERY_MS);
}
