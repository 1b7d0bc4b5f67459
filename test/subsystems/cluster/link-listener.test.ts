import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { systemClock } from '../../../kernel/index.ts';
import { greet } from '../../../subsystems/cluster/link/handshake.ts';
import { LinkListener } from '../../../subsystems/cluster/link/link-listener.ts';
import { RecordingLogger } from '../../support/kernel.ts';

test('strangers who prove nothing keep out nobody who has the key', async (t) => {
  const key = Buffer.from('a key that both servers of the service have');
  const listener = new LinkListener({
    host: '127.0.0.1',
    port: 0,
    key,
    node: 'owner-1',
    log: new RecordingLogger(),
    clock: systemClock,
    taken: (socket) => socket.end(),
    takenCalls: () => assert.fail(),
  });
  const port = await listener.listen();
  const sockets: Socket[] = [];
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    listener.close();
  });
  const open = async (): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    sockets.push(socket);
    await once(socket, 'connect');
    return socket;
  };
  for (let stranger = 0; stranger < 400; stranger++) (await open()).write('svc-link/1 ');
  const friend = await open();
  await greet(friend, { key, node: 'node-2', expected: 'owner-1', use: 'http' });
  assert.ok(listener.refused >= 144);
});
