import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { UntakenAnswers } from '../../../subsystems/http/untaken-answers.ts';

const MIB = 1024 * 1024;

test('when clients leave too much untaken, those that have waited longest are cut', async (t) => {
  const untaken = new UntakenAnswers(64 * MIB);
  const responses: ServerResponse[] = [];
  const server = createServer((_request, response) => {
    responses.push(response);
    response.end(Buffer.alloc(16 * MIB));
    untaken.wrote(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  for (let n = 0; n < 8; n++) {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    sockets.push(socket.pause());
    socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    while (responses.length <= n) await new Promise(setImmediate);
  }
  const held = responses.map((response) => !response.destroyed);
  assert.deepEqual(held.slice(0, 4), [false, false, false, false]);
  assert.ok(held.at(-1), 'the newest waits');
  // It is sent to its end.
  let received = 0;
  sockets[7]?.on('data', (bytes: Buffer) => (received += bytes.length)).resume();
  while (received < 16 * MIB) await new Promise(setImmediate);
  assert.equal(received >= 16 * MIB, true);
});
