/** Clients that watch one query, in a thread of their own, with counts of the frames that each one gets. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

const { host, port, target, count } = workerData as { host: string; port: number; target: string; count: number };
const CONNECT_AT_ONCE = 200;

let events = 0;
/** The number in the newest event that each client has. */
const newest = new Float64Array(count);

async function open(at: number): Promise<Socket> {
  const socket = connect(port, host);
  await once(socket, 'connect');
  socket.write(`GET ${target} HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
  socket.setEncoding('latin1').on('data', (text: string) => {
    for (const [, value] of text.matchAll(/data: \[(\d+)\]/g)) {
      events++;
      newest[at] = Number(value);
    }
  });
  socket.on('error', () => undefined);
  return socket;
}

for (let at = 0; at < count; at += CONNECT_AT_ONCE) {
  await Promise.all(Array.from({ length: Math.min(CONNECT_AT_ONCE, count - at) }, (_, n) => open(at + n)));
}
parentPort?.postMessage({ isReady: true });
parentPort?.on('message', () => {
  parentPort?.postMessage({ events, least: Math.min(...newest), most: Math.max(...newest) });
});
