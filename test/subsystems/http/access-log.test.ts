import assert from 'node:assert/strict';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { startHttpHost } from './counter-host.ts';

const TRUSTED = [{ address: '127.0.0.1', prefix: 32 }];
const DEADLINE_MS = 30_000;

async function linesOf(file: string, count: number): Promise<Record<string, unknown>[]> {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const text = await readFile(file, 'utf8').catch(() => '');
    const lines = text.split('\n').slice(0, -1);
    if (lines.length >= count) return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.ok(Date.now() < deadline, `${file} has ${lines.length} of ${count} lines`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

test('each request is a line with its client, also what was refused and what its client gave up', async (t) => {
  const accessLog = join(await temporaryDirectory(), 'access.log');
  const { origin, canisters } = await startHttpHost(t, { accessLog, trustedProxies: TRUSTED, token: 'sesame' });
  const held = Promise.withResolvers<void>();
  canisters.resolve('counter').held = held.promise;
  t.after(() => held.resolve());
  const headers = { authorization: 'Bearer sesame', 'x-forwarded-for': '1.1.1.1, 203.0.113.9' };
  await (await fetch(`${origin}/call-json/counter/inc`, { method: 'POST', body: '[]', headers })).text();
  await (await fetch(`${origin}/list`)).text();
  await (await fetch(`${origin}/health?${'x'.repeat(2000)}`)).text();
  const given = request(`${origin}/call-json/counter/slow`, { method: 'POST', headers }).on('error', () => undefined);
  given.end('[]');
  setTimeout(() => given.destroy(), 200);
  const lines = await linesOf(accessLog, 4);
  const [call, refused, long, gone] = lines;
  assert.deepEqual(Object.keys(call ?? {}), ['ts', 'event', 'client', 'method', 'target', 'status', 'whole', 'ms']);
  assert.ok(Math.abs(Number(call?.['ts']) - Date.now()) < DEADLINE_MS && Number(call?.['ms']) > 0);
  const told = lines.map(({ client, method, status, whole }) => [client, method, status, whole]);
  assert.deepEqual(told, [
    ['203.0.113.9', 'POST', 200, true],
    ['127.0.0.1', 'GET', 401, true],
    ['127.0.0.1', 'GET', long?.['status'], true],
    ['203.0.113.9', 'POST', 0, false],
  ]);
  assert.equal(refused?.['target'], '/list');
  assert.equal(String(long?.['target']).length, 501);
  assert.equal(gone?.['target'], '/call-json/counter/slow');
});

test('the file is rotated by renaming it, and the last lines are written at the stop', async (t) => {
  const directory = await temporaryDirectory();
  const [accessLog, old] = [join(directory, 'access.log'), join(directory, 'access.log.1')];
  const { origin, server } = await startHttpHost(t, { accessLog });
  await (await fetch(`${origin}/health`)).text();
  await linesOf(accessLog, 1);
  await rename(accessLog, old);
  await (await fetch(`${origin}/version`, { headers: { connection: 'close' } })).text();
  await server.close();
  assert.deepEqual(
    (await linesOf(accessLog, 1)).map(({ target }) => target),
    ['/version'],
  );
  assert.equal((await linesOf(old, 1)).length, 1);
});

test('a file that cannot be written refuses the start, and later costs lines alone', async (t) => {
  const directory = await temporaryDirectory();
  const unwritable = startHttpHost(t, { accessLog: join(directory, 'missing/access.log') });
  await assert.rejects(unwritable, (error: unknown) => {
    assert.ok(error instanceof ServerError && error.code === 'cannot-write-access-log', String(error));
    return true;
  });
  const accessLog = join(directory, 'access.log');
  const { origin, log } = await startHttpHost(t, { accessLog });
  await rm(accessLog);
  await mkdir(accessLog);
  const deadline = Date.now() + DEADLINE_MS;
  const has = (pattern: RegExp): boolean => log.warnings.some((line) => pattern.test(line));
  while (!has(/cannot write .*access.log, lines are dropped/)) {
    assert.equal((await fetch(`${origin}/health`)).status, 200);
    assert.ok(Date.now() < deadline);
    await new Promise((done) => setTimeout(done, 100));
  }
  await rm(accessLog, { recursive: true });
  await (await fetch(`${origin}/version`)).text();
  await linesOf(accessLog, 1);
  while (!has(/written again; [1-9]\d* line/)) {
    assert.ok(Date.now() < deadline);
    await new Promise((done) => setTimeout(done, 20));
  }
});
