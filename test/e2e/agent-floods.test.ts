/**
 * Clients that wear out `/api` and tokens: some never read, some repeat one request without end, some show a new JWT
 * each time. The memory of a real server stays bounded, and others are served. The long form is
 * `npm run prove -- agent-floods 100000`: so many repeats and JWTs, and one connection for 20 of them.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { compiledActor, FIRST_ID, FIRST_TEXT } from '../subsystems/agents/actor.ts';
import {
  certified,
  cborOf,
  type Content,
  contentOf,
  envelopeOf,
  newSigner,
  readContent,
  rootKeyOf,
  send,
} from '../subsystems/agents/raw-agent.ts';
import { hashOfMap } from '../../subsystems/certification/index.ts';
import { signed, signingKey } from '../support/oidc-issuer.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { MemoryWatch } from './memory/watch.ts';

const { count: REQUESTS, isLong: IS_LONG } = new ProofSeeds(2000);
const CONNECTIONS = Math.ceil(REQUESTS / 20);
const MIB = 1024 * 1024;
/** Answers that nobody reads have 256 MiB, and what is behind them some more. */
const GROWTH_MAX = 600 * MIB;
const ROOT = { authorization: 'Bearer root' };
const CALL = `/api/v3/canister/${FIRST_TEXT}/call`;
const READ = `/api/v3/canister/${FIRST_TEXT}/read_state`;
const PIPELINED = 50;

async function start(t: TestContext, args: readonly string[]): Promise<RunningServer> {
  const server = await startServer(t, { manifest: '{"actors":{}}', args: ['--auth-token', 'root', ...args] });
  assert.equal((await server.post('/install/it', await compiledActor(), ROOT)).status, 200);
  return server;
}

/** Checks how much memory the server had at most, and tells it in the long form. */
function expectBounded({ firstBytes, peakBytes }: MemoryWatch, what: string): void {
  const grown = peakBytes - firstBytes;
  assert.ok(grown < GROWTH_MAX, `${what}: ${Math.round(grown / MIB)} MiB more`);
  if (IS_LONG) process.stderr.write(`  ${what}: at most ${Math.round(grown / MIB)} MiB more\n`);
}

function requestOf(path: string, envelope: Content): Buffer {
  const body = cborOf(envelope);
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/cbor\r\nContent-Length: ${body.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), body]);
}

function connected({ origin }: RunningServer): Socket {
  const { hostname, port } = new URL(origin);
  const socket = connect({ host: hostname, port: Number(port) });
  // The server may close what it finds too much.
  socket.on('error', () => undefined);
  return socket;
}

/** Asks once as a client does that means no harm; the answer verifies. */
async function expectServed(server: RunningServer, rootKey: Uint8Array): Promise<void> {
  const content = contentOf('call', FIRST_ID, 'who');
  for (;;) {
    const answer = await send(server, CALL, envelopeOf(content));
    if (answer.status === 202 || answer.status === 503) await sleep(20);
    else {
      const status = certified(answer, rootKey)(['request_status', hashOfMap(content), 'status']);
      assert.equal(String(status), 'replied');
      return;
    }
  }
}

test('connections that ask and never read keep no more than has room, and others are served', async (t) => {
  const server = await start(t, ['--agents', 'open']);
  const rootKey = await rootKeyOf(server);
  using memory = new MemoryWatch(server);
  const state = requestOf(READ, envelopeOf(readContent([[Buffer.from('subnet')]])));
  const asked = Buffer.concat(Array.from({ length: PIPELINED }, () => state));
  const sockets: Socket[] = [];
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  for (let count = 0; count < CONNECTIONS; count++) {
    const socket = connected(server);
    sockets.push(socket);
    socket.pause();
    await new Promise((resolve) => socket.write(asked, resolve));
  }
  await expectServed(server, rootKey);
  expectBounded(memory, `${CONNECTIONS} that never read`);
});

test('one request that comes again and again is executed once, and each answer is its own', async (t) => {
  const server = await start(t, ['--agents', 'open']);
  const rootKey = await rootKeyOf(server);
  const signer = newSigner();
  const content = contentOf('call', FIRST_ID, 'inc', signer.principal);
  // Version 2 answers at once: 202 once the call is known.
  const repeat = requestOf(`/api/v2/canister/${FIRST_TEXT}/call`, envelopeOf(content, signer));
  const first = await send(server, CALL, envelopeOf(content, signer));
  assert.equal(first.status, 200, first.text);
  using memory = new MemoryWatch(server);
  const socket = connected(server);
  t.after(() => socket.destroy());
  let text = '';
  socket.setEncoding('latin1').on('data', (piece: string) => (text += piece));
  for (let sent = 0, answered = 0; sent < REQUESTS;) {
    for (; sent < REQUESTS && sent - answered < PIPELINED; sent++) socket.write(repeat);
    while (answered < sent) {
      const found = text.split('HTTP/1.1 ').slice(1);
      if (found.length + answered < sent) {
        await new Promise((resolve) => socket.once('data', resolve));
        continue;
      }
      for (const answer of found) assert.match(answer, /^202 /);
      answered += found.length;
      text = '';
    }
  }
  expectBounded(memory, `${REQUESTS} repeats`);
  const says = certified(await send(server, CALL, envelopeOf(content, signer)), rootKey);
  assert.equal(String(says(['request_status', hashOfMap(content), 'status'])), 'replied');
  assert.equal((await server.post('/query-json/it/get', '[]', ROOT)).body, '[1]');
});

test('as many JWTs as there are requests are each known for a while, and no more than have room', async (t) => {
  const key = signingKey('EdDSA', 'k');
  const keys = join(await temporaryDirectory(), 'keys.json');
  await writeFile(keys, JSON.stringify({ keys: [key.jwk] }));
  const iss = 'https://issuer.example';
  const flags = ['--jwt-issuer', iss, '--jwt-audience', 'svc', '--jwt-keys', keys, '--jwt-may', 'query:it'];
  const server = await start(t, flags);
  const exp = Math.floor(Date.now() / 1000) + 3600;
  using memory = new MemoryWatch(server);
  let next = 0;
  const show = async (): Promise<void> => {
    for (let at = next++; at < REQUESTS; at = next++) {
      // One in ten proves nothing.
      const audience = at % 10 === 0 ? 'other' : 'svc';
      const token = signed(key, { iss, aud: audience, sub: `user ${at}`, exp });
      const { status } = await server.get('/x/me', { authorization: `Bearer ${token}` });
      assert.equal(status, audience === 'svc' ? 200 : 401);
    }
  };
  await Promise.all(Array.from({ length: 16 }, show));
  expectBounded(memory, `${REQUESTS} JWTs`);
  assert.equal((await server.get('/actors', ROOT)).status, 200);
});
