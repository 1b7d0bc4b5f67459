/** Promises of README: the example actors, served by a real process. */
import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { type RunningServer, startServer } from '../support/server.ts';

let shared: RunningServer;
before(async (t) => {
  shared = await startServer(t as TestContext);
});

test('the counter counts, adds, and answers queries', async () => {
  const server = shared;
  assert.deepEqual(await server.post('/call-json/counter/inc'), { status: 200, body: '[1]' });
  assert.deepEqual(await server.post('/call-json/counter/inc'), { status: 200, body: '[2]' });
  assert.deepEqual(await server.post('/call-json/counter/add', '["5"]'), { status: 200, body: '[7]' });
  assert.deepEqual(await server.post('/query-json/counter/get'), { status: 200, body: '[7]' });

  const response = await server.fetch('/call-json/counter/inc', { method: 'POST', body: '[]' });
  assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
  assert.match(response.headers.get('svc-version') ?? '', /^\d+\.\d+\.\d+/);
  assert.equal(response.headers.get('access-control-allow-origin'), '*');
});

test('a trap answers 400 with its text and changes nothing', async () => {
  const server = shared;
  const counted = await server.post('/call-json/counter/inc');
  const trapped = await server.post('/call-json/counter/boom');
  assert.equal(trapped.status, 400);
  const error = JSON.parse(trapped.body) as { code: number; message: string };
  assert.equal(error.code, 5);
  assert.match(error.message, /boom/i);
  assert.deepEqual(await server.post('/query-json/counter/get'), counted);
});

test('an endless loop stops at the instruction limit while health answers within 50 ms', async (t) => {
  const server = await startServer(t, { args: ['--instruction-limit', '4000000000'] });
  await server.post('/call-json/counter/inc');
  let isSpinning = true;
  const spin = server.post('/call-json/counter/spin').finally(() => {
    isSpinning = false;
  });
  const probesMs: number[] = [];
  let probes = 0;
  while (isSpinning && probes < 10_000) {
    const askedMs = performance.now();
    const health = await server.get('/health');
    assert.deepEqual(health, { status: 200, body: 'ok' });
    // The first probes include the client's own start.
    if (probes++ > 5) probesMs.push(performance.now() - askedMs);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const stopped = await spin;
  assert.equal(stopped.status, 400);
  assert.match(stopped.body, /limit of 4000000000 instructions/);
  assert.ok(probes > 10, `only ${probes} probes fitted into the loop`);
  // A quarter of the probes may meet a machine that is busy elsewhere. A server that waits for the loop would have
  // answered too few.
  const most = probesMs.toSorted((a, b) => b - a)[Math.floor(probesMs.length / 4)] ?? 0;
  assert.ok(most < 50, `health probes took ${most.toFixed(1)} ms`);
  assert.deepEqual(await server.post('/call-json/counter/inc'), { status: 200, body: '[2]' });
});

test('an update method is refused on a query endpoint, with what to use instead', async () => {
  const server = shared;
  const counted = await server.post('/query-json/counter/get');
  const refused = await server.post('/query-json/counter/inc');
  assert.equal(refused.status, 400);
  assert.match(refused.body, /call-json/);
  assert.deepEqual(await server.post('/query-json/counter/get'), counted);
});

test('SIGTERM stops the server with the shutdown line and exit code 0', async (t) => {
  const server = await startServer(t);
  await server.post('/call-json/counter/inc');
  assert.equal(await server.stop(), 0);
  assert.match(server.output.stdout, /^shutdown: 0 actor\(s\) checkpointed$/m);
});

test('an actor that will not load is announced and answers 404 with the reason; the rest serve', async (t) => {
  const server = await startServer(t, {
    manifest: JSON.stringify({ actors: { broken: { wasm: `${import.meta.dirname}/examples.test.ts` } } }),
  });
  assert.match(server.output.stdout, /^REJECTED broken .+/m);
  const missing = await server.post('/call-json/broken/inc');
  assert.equal(missing.status, 404);
  assert.match(missing.body, /actor broken was rejected: /);
  assert.deepEqual(await server.get('/actors'), { status: 200, body: '[]' });
});
