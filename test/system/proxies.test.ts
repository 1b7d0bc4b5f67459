/**
 * The configurations of config/proxies, run by nginx, HAProxy and Caddy in front of a real server: what docs/proxies.md
 * promises of each request. Clients come from 127.0.0.2, since the proxies' own address, 127.0.0.1, is the trusted one.
 * Two servers of which one dies: `proxies-failover.test.ts`.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../support/free-port.ts';
import { Http2Client } from '../support/http2-client.ts';
import { PROXIES, type Proxy, type ProxyKind, startProxy } from '../support/proxies.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const MIB = 2 ** 20;
const TOKEN = 'sesame';
const AUTH = { authorization: `Bearer ${TOKEN}` };
const CLIENT = '127.0.0.2';
const DEADLINE_MS = 60_000;
/** Time in which an event has to arrive: a proxy that collects answers keeps it until much more has come. */
const EVENT_MS_MAX = 10_000;

/** One byte more than the largest body. */
const LARGE = new Uint8Array(192 * MIB + 1).fill(1);

/** Prints, and answers with the number of bytes that it was sent. */
const WITNESS = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "debug_print" (func $print (param i32 i32)))
  (memory 1)
  (data (i32.const 16) "seen")
  (func (export "canister_update take")
    (i32.store (i32.const 0) (call $size))
    (call $append (i32.const 0) (i32.const 4))
    (call $print (i32.const 16) (i32.const 4))
    (call $reply)))`);

const endings: (() => Promise<void>)[] = [];
let accessLog: string;
let server: RunningServer;

before(async () => {
  accessLog = join(await temporaryDirectory(), 'access.log');
  const args = ['--trust-proxy', '127.0.0.1', '--access-log', accessLog, '--auth-token', TOKEN];
  server = await startServer({ after: (end) => void endings.push(end) }, { args });
  const { status, body } = await server.post('/install/witness', WITNESS, AUTH);
  assert.equal(status, 200, body);
});
after(async () => {
  for (const end of endings) await end();
});

/** Starts a proxy whose second server is the running one; nobody listens where it looks for the first. */
async function inFront(t: TestContext, kind: ProxyKind, change?: (text: string) => string): Promise<Proxy> {
  const proxy = await startProxy(t, kind, [await freePort(), Number(new URL(server.origin).port)], change);
  await using client = await Http2Client.connect(proxy.port);
  const deadline = Date.now() + DEADLINE_MS;
  while ((await client.request('GET', '/health/ready')).status !== 200) {
    assert.ok(Date.now() < deadline, proxy.printed());
    await sleep(50);
  }
  return proxy;
}

/** Resolves to the client that the access log names for a request; the request's target has to be its own. */
async function clientOf(target: string): Promise<string> {
  for (const deadline = Date.now() + DEADLINE_MS; ; await sleep(50)) {
    const lines = (await readFile(accessLog, 'utf8').catch(() => '')).split('\n').filter((line) => line !== '');
    const entries = lines.map((line) => JSON.parse(line) as { readonly target: string; readonly client: string });
    const found = entries.find((entry) => entry.target === target);
    if (found !== undefined) return found.client;
    assert.ok(Date.now() < deadline, `no line for ${target}`);
  }
}

async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`${what}: nothing within ${ms} ms`)), ms);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function streamsAreTimely(proxy: Proxy, msMax = EVENT_MS_MAX): Promise<void> {
  await using client = await Http2Client.connect(proxy.port);
  const next = async (what: string, stream: { next(): Promise<string> }): Promise<string> =>
    within(msMax, what, stream.next());
  const open = async (path: string) => within(msMax, path, client.events(path, AUTH));
  const watch = await open('/watch/counter/get');
  const [, first] = /data: \[(\d+)\]/.exec(await next('the first result', watch)) ?? assert.fail();
  const events = await open('/events/witness');
  const inspect = await open('/inspect?limit=1');
  assert.match(await next('the first round', inspect), /^data: \[\{"id":/);
  for (let change = 1; change <= 2; change++) {
    const answer = await client.request('POST', '/call-json/counter/inc', { headers: AUTH, body: '[]' });
    assert.equal(answer.body, `[${Number(first) + change}]`);
    assert.match(await next('a change', watch), new RegExp(`data: \\[${Number(first) + change}\\]`));
    assert.equal((await client.request('POST', '/call/witness/take', { headers: AUTH, body: '' })).status, 200);
    assert.match(await next('a line', events), /event: debug\ndata: seen$/);
    assert.match(await next('a round', inspect), /^data: \[\{"id":/);
  }
  for (const stream of [watch, events, inspect]) stream.close();
}

for (const kind of PROXIES) {
  test(kind, { timeout: 300_000 }, async (t) => {
    const proxy = await inFront(t, kind);

    await t.test('HTTP/2, and events as they come', () => streamsAreTimely(proxy));

    await t.test('the client is who the proxy was reached from, whatever headers say', async () => {
      await using client = await Http2Client.connect(proxy.port, CLIENT);
      const spoofs = [
        {},
        { 'x-forwarded-for': '203.0.113.9' },
        { 'x-forwarded-for': '203.0.113.9, 127.0.0.1' },
        { forwarded: 'for=203.0.113.9' },
        { forwarded: 'for=203.0.113.9', 'x-forwarded-for': '203.0.113.9' },
        { 'x-real-ip': '203.0.113.9', 'x-forwarded-host': 'elsewhere.example' },
      ];
      const targetOf = (at: number): string => `/version?${kind}=${at}`;
      for (const [at, headers] of spoofs.entries()) await client.request('GET', targetOf(at), { headers });
      for (const [at, headers] of spoofs.entries())
        assert.equal(await clientOf(targetOf(at)), CLIENT, JSON.stringify(headers));
    });

    await t.test('bodies up to 192 MiB arrive whole, and larger ones are 413', async () => {
      await using client = await Http2Client.connect(proxy.port);
      const send = async (path: string, bytes: number, headers: Readonly<Record<string, string>> = AUTH) =>
        client.request('POST', path, { headers, body: LARGE.subarray(0, bytes) });
      const took = await send('/call/witness/take', 64 * MIB);
      // The answer is the number of bytes, 00 00 00 04 in its own bytes.
      assert.deepEqual([took.status, took.body], [200, '\0\0\0\u0004']);
      // No module is as large as the body may be, which the server says about those that it has read.
      const direct = await server.post('/install/large', LARGE.subarray(0, 192 * MIB), AUTH);
      assert.equal(direct.status, 400, direct.body);
      const refused = await send('/install/large', 192 * MIB);
      assert.deepEqual([refused.status, refused.body], [direct.status, direct.body]);
      assert.equal((await send('/install/large', 192 * MIB + 1)).status, 413);
      assert.equal((await send('/install/large', 192 * MIB, {})).status, 401);
    });

    await t.test('targets, names and preflights arrive as they were sent', async () => {
      await using client = await Http2Client.connect(proxy.port);
      const target = '/site/website/a%2Fb//c?x=%20&y=+';
      const website = await client.request('GET', target);
      const direct = await server.get(target);
      assert.deepEqual([website.status, website.body], [direct.status, direct.body]);
      const preflight = await client.request('OPTIONS', '/call-json/counter/inc');
      assert.deepEqual([preflight.status, preflight.headers['access-control-allow-origin']], [204, '*']);
      assert.equal((await client.request('GET', '/actors')).status, 401);
      const { status, body } = await client.request('GET', '/actors', { headers: AUTH });
      assert.deepEqual({ status, body }, await server.get('/actors', AUTH));
    });
  });
}

test('plain HTTP is sent to HTTPS with its method and body', async (t) => {
  for (const kind of ['nginx', 'haproxy'] as const) {
    const { plainPort } = await inFront(t, kind);
    const request = { method: 'POST', body: '[]', redirect: 'manual' } as const;
    const response = await fetch(`http://127.0.0.1:${plainPort}/call-json/counter/inc?lossless=1`, request);
    assert.equal(response.status, 308);
    assert.match(
      response.headers.get('location') ?? '',
      /^https:\/\/127\.0\.0\.1(:\d+)?\/call-json\/counter\/inc\?lossless=1$/,
    );
  }
});

test('a proxy that collects answers is seen', async (t) => {
  const proxy = await inFront(t, 'nginx', (text) =>
    text.replace('proxy_buffering off;', 'proxy_ignore_headers X-Accel-Buffering;'),
  );
  // Nothing bounds how early: nginx hands on what it has when more comes.
  await assert.rejects(streamsAreTimely(proxy, 1_500), /nothing within/);
});

test('a proxy that hands on what clients say of themselves is seen', async (t) => {
  const proxy = await inFront(t, 'nginx', (text) =>
    text.replace('X-Forwarded-For $proxy_add_x_forwarded_for', 'X-Forwarded-For $http_x_forwarded_for'),
  );
  await using client = await Http2Client.connect(proxy.port, CLIENT);
  await client.request('GET', '/version?planted=1', { headers: { 'x-forwarded-for': '203.0.113.9' } });
  assert.equal(await clientOf('/version?planted=1'), '203.0.113.9');
});
