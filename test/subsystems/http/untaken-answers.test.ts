import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { UntakenAnswers } from '../../../subsystems/http/untaken-answers.ts';

const MIB = 1024 * 1024;

/** Starts a server, and returns a function that opens connections which take nothing. */
async function served(t: TestContext, answer: RequestListener): Promise<(text: string) => Socket> {
  const server = createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (text) => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    sockets.push(socket.pause());
    socket.write(text);
    return socket;
  };
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise(setImmediate);
}

const get = (target: string): string => `GET ${target} HTTP/1.1\r\nhost: a\r\n\r\n`;

test('when clients leave too much untaken, those that have waited longest are cut', async (t) => {
  const untaken = new UntakenAnswers(64 * MIB);
  const responses: ServerResponse[] = [];
  const open = await served(t, (_request, response) => {
    responses.push(response);
    response.end(Buffer.alloc(16 * MIB));
    untaken.wrote(response);
  });
  const sockets: Socket[] = [];
  for (let n = 0; n < 8; n++) {
    sockets.push(open(get('/')));
    await until(() => responses.length > n);
  }
  const held = responses.map(({ req }) => !req.socket.destroyed);
  assert.deepEqual(held.slice(0, 4), [false, false, false, false]);
  assert.ok(held.at(-1), 'the newest waits');
  // The newest answer is sent to its end.
  let received = 0;
  sockets[7]?.on('data', (bytes: Buffer) => (received += bytes.length)).resume();
  await until(() => received >= 16 * MIB);
});

test('answers behind one that is not given yet are cut with their connection, and all of it is given up', async (t) => {
  const untaken = new UntakenAnswers(10 * MIB);
  const responses: ServerResponse[] = [];
  const connections: Socket[] = [];
  const open = await served(t, ({ url, socket }, response) => {
    if (url === '/unanswered') {
      connections.push(socket);
      return;
    }
    responses.push(response);
    response.end(Buffer.alloc(MIB / 2));
    untaken.wrote(response);
  });
  for (let n = 0; n < 8; n++) {
    open(get('/unanswered') + get('/').repeat(8));
    await until(() => connections.length > n);
    const [connection] = connections.slice(-1);
    await until(() => connection?.destroyed === true || responses.length >= (n + 1) * 8);
  }
  // Bytes held by the responses of open connections, while the front one is not answered.
  let heldBytes = 0;
  for (const { req, outputSize } of responses as (ServerResponse & { readonly outputSize: number })[])
    if (!req.socket.destroyed) heldBytes += outputSize;
  assert.ok(heldBytes <= 10 * MIB, `${heldBytes} bytes wait`);
  assert.deepEqual(
    connections.map(({ destroyed }) => destroyed),
    [true, true, true, true, true, true, false, false],
    'those that have waited longest, and no more than has to be',
  );
});

test('what a connection has taken meanwhile is not held against it', async (t) => {
  const untaken = new UntakenAnswers(MIB);
  const responses: ServerResponse[] = [];
  const open = await served(t, ({ url }, response) => {
    responses.push(response);
    if (url === '/held') return;
    // This is less than makes a socket wait, so no event tells that it was taken.
    if (url === '/stream') response.write(Buffer.alloc(32 * 1024));
    else response.end(Buffer.alloc(MIB));
    untaken.wrote(response);
  });
  open(get('/held') + get('/stream'));
  await until(() => responses.length === 2);
  responses[0]?.end();
  await until(() => responses[1]?.writableLength === 0);
  open(get('/held') + get('/large'));
  await until(() => responses.length === 4);
  assert.equal(responses[1]?.req.socket.destroyed, false);
  assert.equal(responses[3]?.req.socket.destroyed, true, 'what waits is cut, though it came later');
});

test('an answer to a client that is gone is not counted', async (t) => {
  const untaken = new UntakenAnswers(MIB);
  const responses: ServerResponse[] = [];
  const open = await served(t, ({ url }, response) => {
    responses.push(response);
    if (url === '/late') response.write(Buffer.alloc(MIB / 2));
    if (url !== '/large') return;
    response.end(Buffer.alloc((MIB * 3) / 4));
    untaken.wrote(response);
  });
  const leaving = open(get('/held') + get('/late'));
  await until(() => responses.length === 2);
  leaving.destroy();
  const [, late] = responses;
  await until(() => late?.destroyed === true);
  if (late !== undefined) untaken.wrote(late);
  open(get('/held') + get('/large'));
  await until(() => responses.length === 4);
  assert.equal(responses[3]?.req.socket.destroyed, false);
});
