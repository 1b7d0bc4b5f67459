import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { get as httpGet, type IncomingMessage } from 'node:http';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ServerError } from '../../../kernel/index.ts';
import { BackupParser } from '../../../subsystems/storage/backup-parser.ts';
import { BackupReader } from '../../../subsystems/storage/backup.ts';
import type { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { arrived } from '../../support/arrived.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { send } from '../../support/http-client.ts';
import { backupOf, filledTables, sourceOf } from '../storage/backup-files.ts';
import { startHttpHost } from './counter-host.ts';

const MEBIBYTE = 2 ** 20;

/** Hands out the backup of real tables, and counts the pieces. */
class TablesStorage {
  readonly tables: MemoryTables = filledTables();
  opened = 0;
  closed = 0;
  pieces = 0;
  /** The piece at which the tables turn out to be damaged. */
  failsAt = Infinity;

  async *backup(): AsyncIterable<Uint8Array> {
    const reader = new BackupReader(this.tables.snapshot());
    this.opened++;
    try {
      for (;;) {
        await sleep(1);
        if (this.pieces === this.failsAt) throw new ServerError('unavailable', 'state-corrupt', 'heap/00 is damaged');
        const piece = reader.next();
        if (piece === undefined) return;
        this.pieces++;
        yield piece;
      }
    } finally {
      reader.close();
      this.closed++;
    }
  }
}

/** A state without an end. */
class EndlessStorage {
  handedOut = 0;
  closed = 0;

  async *backup(): AsyncIterable<Uint8Array> {
    try {
      for (;;) {
        await sleep(0);
        this.handedOut++;
        yield new Uint8Array(MEBIBYTE);
      }
    } finally {
      this.closed++;
    }
  }
}

async function until(isSo: () => boolean): Promise<void> {
  for (let waitedMs = 0; !isSo(); waitedMs += 5) {
    assert.ok(waitedMs < 60_000, 'it did not come about');
    await sleep(5);
  }
}

/** Makes a client that has the head of the answer and reads no further. */
async function openBackup(t: TestContext, origin: string): Promise<IncomingMessage> {
  const request = httpGet(`${origin}/backup`, { agent: false });
  request.on('error', () => undefined);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.pause();
  response.on('error', () => undefined);
  t.after(() => void response.destroy());
  return response;
}

/** Returns the end of an HTTP/1.0 request's connection: `orderly`, or the error's code. */
async function endOfOldRequest(origin: string, target: string): Promise<string> {
  const { hostname, port } = new URL(origin);
  const socket = connect({ host: hostname, port: Number(port) });
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => (received += text));
  const ended = new Promise<string>((resolve) => {
    socket.once('end', () => resolve('orderly')).once('error', (error) => resolve(String(Reflect.get(error, 'code'))));
  });
  socket.write(`GET ${target} HTTP/1.0\r\n\r\n`);
  const end = await ended;
  socket.destroy();
  assert.match(received, /^HTTP\/1\.1 200 OK/, 'a part of the answer came');
  return end;
}

suite('GET /backup', () => {
  test('sends the whole backup under a dated name, without a length', async (t) => {
    const storage = new TablesStorage();
    const clock = new FakeClock(Date.UTC(2026, 10, 21, 8, 30, 5, 250));
    const { origin } = await startHttpHost(t, { storage, clock });
    const answer = await send(origin, 'GET', '/backup');
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['content-type'], 'application/octet-stream');
    assert.equal(answer.headers['content-disposition'], 'attachment; filename="svc-2026-11-21T083005Z.backup"');
    assert.equal(answer.headers['content-length'], undefined);
    assert.equal(answer.headers['svc-version'], '9.8.7');
    assert.equal(answer.headers['access-control-allow-origin'], '*');
    const parser = new BackupParser(sourceOf(answer.body));
    let entries = 0;
    for await (const changes of parser.changes()) entries += changes.length;
    assert.equal(entries, new Set(contentKeys(storage.tables)).size);
    assert.equal(answer.body.length, backupOf(storage.tables).length);
    assert.deepEqual([storage.opened, storage.closed], [1, 1]);
  });

  test('needs the token, readiness and no query', async (t) => {
    const storage = new TablesStorage();
    const { origin, readiness } = await startHttpHost(t, { storage, token: 'x' });
    assert.equal((await send(origin, 'GET', '/backup')).status, 401);
    const headers = { authorization: 'Bearer x' };
    assert.equal((await send(origin, 'GET', '/backup?full=1', { headers })).status, 404);
    assert.equal((await send(origin, 'POST', '/backup', { headers })).status, 404);
    readiness.isReady = false;
    assert.equal((await send(origin, 'GET', '/backup', { headers })).status, 503);
    assert.equal(storage.opened, 0);
    readiness.isReady = true;
    assert.equal((await send(origin, 'GET', '/backup', { headers })).status, 200);
  });

  test('without a state directory it is 400 with the reason', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'GET', '/backup');
    assert.equal(answer.status, 400);
    assert.match((answer.json() as { message: string }).message, /keeps no state: start it with --state DIR/);
  });

  test('a client that does not read is waited for, and one that leaves gives the snapshot back', async (t) => {
    const storage = new EndlessStorage();
    const { origin, log } = await startHttpHost(t, { storage });
    const response = await openBackup(t, origin);
    // The loop ends when the system's buffers between the two sockets are full.
    for (let before = -1; before !== storage.handedOut;) {
      before = storage.handedOut;
      await arrived();
      assert.ok(before < 64, `${before} MiB were made for a client that reads nothing`);
    }
    assert.equal(storage.closed, 0);
    response.destroy();
    await until(() => storage.closed === 1);
    await until(() => log.warnings.length === 1);
    assert.match(log.warnings[0] ?? '', /^an answer was cut after \d+ bytes: the client is gone$/);
    assert.deepEqual(log.errors, []);
  });

  test('a client that leaves before the first piece gives the snapshot back, too', async (t) => {
    const begun = Promise.withResolvers<void>();
    let isClosed = false;
    const storage = {
      async *backup(): AsyncIterable<Uint8Array> {
        try {
          begun.resolve();
          await sleep(100);
          yield new Uint8Array(MEBIBYTE);
        } finally {
          isClosed = true;
        }
      },
    };
    const { origin } = await startHttpHost(t, { storage });
    const request = httpGet(`${origin}/backup`, { agent: false });
    request.on('error', () => undefined);
    await begun.promise;
    request.destroy();
    await until(() => isClosed);
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
  });

  test('a client that takes nothing for too long is cut off', async (t) => {
    const storage = new EndlessStorage();
    const clock = new FakeClock();
    const { origin, log } = await startHttpHost(t, { storage, clock });
    await openBackup(t, origin);
    // Pieces are sent until the buffers between the two are full; then time passes.
    for (let before = -1; before !== storage.handedOut;) {
      before = storage.handedOut;
      await arrived();
    }
    clock.advance(299_750);
    assert.equal(storage.closed, 0);
    clock.advance(250);
    await until(() => storage.closed === 1);
    await until(() => log.warnings.length === 1);
    assert.match(log.warnings[0] ?? '', /the client has taken nothing for 300000 ms$/);
  });

  test('a second one at the same time is 503', async (t) => {
    const storage = new EndlessStorage();
    const { origin } = await startHttpHost(t, { storage });
    const first = await openBackup(t, origin);
    const second = await send(origin, 'GET', '/backup');
    assert.equal(second.status, 503);
    assert.equal(second.headers['retry-after'], '1');
    first.destroy();
    await until(() => storage.closed === 1);
    const third = await openBackup(t, origin);
    assert.equal(third.statusCode, 200);
  });

  test('what breaks in the middle ends the connection, so that nobody takes it for whole', async (t) => {
    const storage = new TablesStorage();
    storage.failsAt = 3;
    const { origin, log } = await startHttpHost(t, { storage });
    await assert.rejects(send(origin, 'GET', '/backup'), { code: 'ECONNRESET' });
    assert.equal(storage.closed, 1);
    assert.deepEqual(log.warnings, ['heap/00 is damaged']);
    // Without chunks, an orderly end would be the body's end.
    storage.pieces = 0;
    assert.equal(await endOfOldRequest(origin, '/backup'), 'ECONNRESET');
    storage.pieces = 0;
    storage.failsAt = 0;
    const answer = await send(origin, 'GET', '/backup');
    assert.equal(answer.status, 503);
    assert.equal((answer.json() as { message: string }).message, 'heap/00 is damaged');
  });

  test('a server that stops does not wait for it', async (t) => {
    const storage = new EndlessStorage();
    const { origin, server, log } = await startHttpHost(t, { storage });
    const response = await openBackup(t, origin);
    const closed = new Promise<void>((resolve) => void response.once('close', resolve));
    await server.close();
    response.resume();
    await closed;
    assert.equal(response.complete, false);
    assert.equal(storage.closed, 1);
    assert.match(log.warnings[0] ?? '', /the server stops$/);
  });
});

function contentKeys(tables: MemoryTables): readonly string[] {
  return (['meta', 'heap', 'stable', 'log', 'queue', 'module', 'blob'] as const).flatMap((family) =>
    [...tables.range(family, new Uint8Array(0), undefined)].map(
      ([key]) => `${family} ${Buffer.from(key).toString('hex')}`,
    ),
  );
}
