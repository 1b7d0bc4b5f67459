/** Connections without a token that send requests as fast as the server takes them, and never end: a thread of its own. */
import { connect } from 'node:net';
import { workerData } from 'node:worker_threads';

const { host, port, connections } = workerData as { host: string; port: number; connections: number };
const BURST = 'GET /health HTTP/1.1\r\nhost: svc\r\n\r\n'.repeat(200);

for (let n = 0; n < connections; n++) {
  const socket = connect(port, host);
  const write = (): void => {
    while (socket.writable && socket.write(BURST));
  };
  socket.on('connect', write).on('drain', write);
  // The answers are read and thrown away; a connection that the server ends is no surprise.
  socket.resume().on('error', () => undefined);
}
