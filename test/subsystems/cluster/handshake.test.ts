import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { greet, receive } from '../../../subsystems/cluster/link/handshake.ts';

const KEY = Buffer.from('a key that both servers of the service have');
const GREETING = { key: KEY, node: 'node-2', expected: 'owner-1', use: 'http' } as const;

/** Returns both ends of a connection. */
async function connected(t: TestContext): Promise<readonly [Socket, Socket]> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const taken = once(server, 'connection') as Promise<[Socket]>;
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [[other]] = await Promise.all([taken, once(client, 'connect')]);
  for (const socket of [client, other]) socket.on('error', () => undefined);
  t.after(() => {
    client.destroy();
    other.destroy();
    server.close();
  });
  return [client, other];
}

suite('a link between two servers', () => {
  test('begins when both have proven to have the key, and loses no byte of HTTP', async (t) => {
    const [client, owner] = await connected(t);
    const received = receive(owner, KEY, 'owner-1');
    await greet(client, GREETING);
    client.write('GET / HTTP/1.1\r\n\r\n');
    assert.deepEqual(await received, { node: 'node-2', use: 'http' });
    owner.resume();
    const [bytes] = (await once(owner, 'data')) as [Buffer];
    assert.equal(bytes.toString(), 'GET / HTTP/1.1\r\n\r\n');
  });

  test('bytes that come in one packet with the last line are kept', async (t) => {
    const [client, owner] = await connected(t);
    const received = receive(owner, KEY, 'owner-1');
    const write = client.write.bind(client);
    let lines = 0;
    client.write = (text: string) => write(++lines === 2 ? `${text}GET /a` : text);
    await greet(client, GREETING);
    await received;
    owner.resume();
    const [bytes] = (await once(owner, 'data')) as [Buffer];
    assert.equal(bytes.toString(), 'GET /a');
  });

  test('says whether calls follow, which the proofs are about as well', async (t) => {
    const [client, owner] = await connected(t);
    const received = receive(owner, KEY, 'owner-1');
    await greet(client, { ...GREETING, use: 'calls' });
    assert.deepEqual(await received, { node: 'node-2', use: 'calls' });
    const [liar, again] = await connected(t);
    const refused = receive(again, KEY, 'owner-1');
    const write = liar.write.bind(liar);
    liar.write = (text: string) => write(text.replace('svc-link/1', 'svc-calls/1'));
    await assert.rejects(greet(liar, GREETING), /another key/);
    liar.destroy();
    await assert.rejects(refused, /has closed the connection/);
  });

  const other = Buffer.from('another key, which one of both has alone');
  test('ends at the forwarder where the owner has another key', async (t) => {
    const [client, owner] = await connected(t);
    const received = receive(owner, other, 'owner-1');
    await assert.rejects(greet(client, GREETING), /another key/);
    client.destroy();
    await assert.rejects(received, /has closed the connection/);
  });

  test('ends at the owner where the forwarder has no key', async (t) => {
    const [client, owner] = await connected(t);
    const received = receive(owner, KEY, 'owner-1');
    client.write(`svc-link/1 node-2 ${'a'.repeat(43)}\n${'b'.repeat(43)}\n`);
    await assert.rejects(received, /another key/);
  });

  test("a proof of the owner's is none of the forwarder's", async (t) => {
    const [client, owner] = await connected(t);
    const received = receive(owner, KEY, 'owner-1');
    client.write(`svc-link/1 node-2 ${'a'.repeat(43)}\n`);
    const [answer] = (await once(client, 'data')) as [Buffer];
    client.write(`${answer.toString().trim().split(' ').at(-1) ?? ''}\n`);
    await assert.rejects(received, /another key/);
  });

  test('ends where another process answers', async (t) => {
    const [client, owner] = await connected(t);
    receive(owner, KEY, 'owner-2').catch(() => undefined);
    await assert.rejects(greet(client, GREETING), /another server answers there/);
  });

  for (const [what, bytes] of [
    ['HTTP', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a line that does not end', 'x'.repeat(100_000)],
    ['an empty line', '\n'],
    ['the next version', `svc-link/2 node-2 ${'a'.repeat(43)}\n`],
    ['a node that is none', `svc-link/1 no/de ${'a'.repeat(43)}\n`],
  ] as const)
    test(`${what} is no beginning`, async (t) => {
      const [client, owner] = await connected(t);
      const received = receive(owner, KEY, 'owner-1');
      client.write(bytes);
      await assert.rejects(received, /svc-link\/1|no short lines/);
    });
});
