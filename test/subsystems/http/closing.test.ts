import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Capability, defineCapability, type Plugin, systemClock } from '../../../kernel/index.ts';
import { httpPlugin } from '../../../plugins/http.ts';
import { Agents } from '../../../subsystems/agents/index.ts';
import { NoAgents } from '../../../subsystems/agents/no-agents.ts';
import { Auth } from '../../../subsystems/auth/index.ts';
import { Cluster } from '../../../subsystems/cluster/index.ts';
import { OneServer } from '../../../subsystems/cluster/one-server.ts';
import { createBearerAuth } from '../../../subsystems/auth/bearer-auth.ts';
import { Canisters } from '../../../subsystems/canisters/index.ts';
import { Codec } from '../../../subsystems/codec/index.ts';
import { createHttpServer } from '../../../subsystems/http/http-server.ts';
import { HttpServer, type PluginAnswer } from '../../../subsystems/http/index.ts';
import { Metering } from '../../../subsystems/metering/index.ts';
import { Metrics } from '../../../subsystems/metrics/index.ts';
import { Inspector } from '../../../subsystems/inspector/index.ts';
import { NoInspector } from '../../../subsystems/inspector/no-inspector.ts';
import { Variables } from '../../../subsystems/variables/index.ts';
import { NoMetrics } from '../../../subsystems/metrics/no-metrics.ts';
import { Storage } from '../../../subsystems/storage/index.ts';
import { MopsClosures } from '../../../subsystems/mops-closure/index.ts';
import { OpenApi } from '../../../subsystems/openapi/index.ts';
import { NoMopsClosures } from '../../../subsystems/mops-closure/no-mops-closures.ts';
import { Timeline } from '../../../subsystems/timeline/index.ts';
import { PastActors } from '../../../subsystems/canisters/past/index.ts';
import { Replay } from '../../../subsystems/replay/index.ts';
import { NoReplay } from '../../../subsystems/replay/no-replay.ts';
import { NoTimeline } from '../../../subsystems/timeline/no-timeline.ts';
import { NoVariables } from '../../../subsystems/variables/no-variables.ts';
import { NoOpenApi } from '../../../subsystems/openapi/no-openapi.ts';
import { Gateway } from '../../../subsystems/gateway/index.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { arrived } from '../../support/arrived.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RawClient, send } from '../../support/http-client.ts';
import { fakeAmbient, startKernel } from '../../support/kernel.ts';
import {
  CounterCanisters,
  counterCodec,
  counterMetering,
  NO_PAST,
  RecordingLog,
  startHttpHost,
} from './counter-host.ts';
import { ScriptedGateway } from './scripted-gateway.ts';

/** Time for more than one look at the open connections. */
const CLOSED_MS = 100;
const get = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`;
const slow = 'POST /call/counter/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n';

suite('opening and closing', () => {
  test('the origin is the real address, and unknown before', async (t) => {
    const server = createHttpServer(
      {
        agents: new NoAgents(),
        auth: createBearerAuth({ token: undefined }),
        cluster: new OneServer(),
        readiness: { isReady: true, note: '' },
        canisters: new CounterCanisters(),
        codec: counterCodec,
        gateway: new ScriptedGateway(new CounterCanisters()),
        storage: new NoStorage(),
        inspector: new NoInspector(),
        metering: counterMetering,
        metrics: new NoMetrics(),
        openApi: new NoOpenApi(),
        variables: new NoVariables(),
        timeline: new NoTimeline(),
        past: NO_PAST,
        replay: new NoReplay(),
        mopsClosures: new NoMopsClosures(),
        clock: systemClock,
        log: new RecordingLog(),
      },
      { host: '127.0.0.1', port: 0, version: '1', build: 'dev' },
    );
    t.after(() => server.close());
    assert.equal(server.origin, undefined);
    const origin = (await server.listen()) ?? assert.fail();
    assert.match(origin, /^http:\/\/127\.0\.0\.1:[1-9]\d+$/);
    assert.equal(server.origin, origin);
    assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
  });

  test('a taken port is an error that names it', async (t) => {
    const { origin } = await startHttpHost(t);
    const port = Number(new URL(origin).port);
    await assert.rejects(startHttpHost(t, { port }), {
      code: 'cannot-listen',
      message: `cannot listen on 127.0.0.1 port ${port}: another process listens there: stop it, or choose another port (--listen)`,
    });
  });

  test('closing a server that never listened, or twice, is fine', async (t) => {
    const { server } = await startHttpHost(t);
    await Promise.all([server.close(), server.close()]);
    await server.close();
  });

  test('an answer that its client takes slowly is sent to its end, also when nothing else is owed', async (t) => {
    const { origin, server } = await startHttpHost(t);
    const bytes = 20_000_000;
    const { hostname: host, port } = new URL(origin);
    const headers = { 'content-length': bytes };
    const asked = request({ host, port, method: 'POST', path: '/call/counter/echo', headers, agent: false });
    asked.end(Buffer.alloc(bytes, 'x'));
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    response.pause();
    const closed = server.close();
    await arrived();
    let received = 0;
    for await (const chunk of response) received += (chunk as Buffer).length;
    assert.equal(received, bytes);
    await closed;
  });

  test('a route of a plugin that never answers does not hold up the end: it is given up, and named', async (t) => {
    const clock = new FakeClock();
    const answer = (): Promise<PluginAnswer> => new Promise(() => undefined);
    const pluginRoutes = [
      { plugin: 'p', method: 'GET', path: '/never', query: [], bodyBytesMax: undefined, answer },
    ] as const;
    const { origin, server, log } = await startHttpHost(t, { clock, pluginRoutes });
    const asked = send(origin, 'GET', '/x/p/never');
    await arrived();
    const closed = server.close();
    clock.advance(9_999);
    await arrived();
    assert.deepEqual(log.errors, []);
    clock.advance(1);
    const { status, text } = await asked;
    assert.equal(status, 503);
    assert.match(text, /shutting down: GET \/x\/p\/never has not answered/);
    clock.advance(CLOSED_MS);
    await closed;
    assert.deepEqual(log.errors, ['GET /x/p/never did not answer in time: the server ends without it']);
  });

  test('a long array that is being streamed is sent to its end', async (t) => {
    const { origin, server, canisters, log } = await startHttpHost(t);
    const nothing = new Uint8Array(0);
    // 30 MB: more than the system keeps for a client that does not read.
    canisters.resolve('counter').history = Array.from({ length: 3_000 }, (_, seq) => ({
      seq,
      timeMs: 0,
      kind: 'update',
      method: 'inc',
      caller: Uint8Array.of(4),
      argument: nothing,
      argumentBytes: 0,
      outcome: 'reject',
      code: 4,
      message: 'x'.repeat(10_000),
      stack: undefined,
      instructions: 0,
      cycles: 0,
      ms: 0,
      trace: { number: seq, cause: 0, root: seq },
      reply: nothing,
      isReplyCut: false,
    }));
    const { hostname: host, port } = new URL(origin);
    const asked = request({ host, port, path: '/history/counter', agent: false }).end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    assert.equal(response.headers['content-length'], undefined, 'it is streamed');
    const closed = server.close();
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    assert.equal((JSON.parse(Buffer.concat(chunks).toString()) as unknown[]).length, 3_000);
    await closed;
    assert.deepEqual(log.warnings, []);
  });

  test('answers that are owed are sent before the server is closed, and end their connections', async (t) => {
    const { origin, server, canisters } = await startHttpHost(t);
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    await using client = new RawClient(origin);
    client.write(slow);
    await arrived();
    let isClosed = false;
    const closed = server.close().then(() => {
      isClosed = true;
    });
    await arrived();
    assert.equal(isClosed, false);
    held.resolve();
    const answer = await client.ended();
    assert.match(answer, /^HTTP\/1\.1 200 OK/);
    assert.match(answer, /connection: close/i);
    assert.match(answer, /\["done"\]$/);
    await closed;
    await assert.rejects(send(origin, 'GET', '/health'), { code: 'ECONNREFUSED' });
  });

  test('the scheduler is drained, once, before the server closes, so that queued calls do not hold it open', async (t) => {
    const canisters = new CounterCanisters();
    const queued = Promise.withResolvers<void>();
    canisters.resolve('counter').held = queued.promise;
    const given = <T>(capability: Capability<T>, value: T): Plugin => ({
      name: capability.name,
      provides: capability,
      requires: {},
      create: () => value,
    });
    const drains: boolean[] = [];
    const scheduler: Plugin = {
      name: 'scheduler',
      provides: defineCapability<unknown>('scheduler'),
      requires: {},
      create: () => ({}),
      drain: async () => {
        const isTaken = await send(origin, 'GET', '/health').then(
          () => true,
          () => false,
        );
        drains.push(isTaken);
        queued.resolve();
      },
    };
    const plugins = [
      given<unknown>(Agents, new NoAgents()),
      given<unknown>(Auth, createBearerAuth({ token: undefined })),
      given<unknown>(Cluster, new OneServer()),
      given<unknown>(Canisters, canisters),
      given<unknown>(Codec, counterCodec),
      given<unknown>(Gateway, new ScriptedGateway(canisters)),
      given<unknown>(Storage, new NoStorage()),
      given<unknown>(Metrics, new NoMetrics()),
      given<unknown>(OpenApi, new NoOpenApi()),
      given<unknown>(Metering, counterMetering),
      given<unknown>(MopsClosures, new NoMopsClosures()),
      given<unknown>(Inspector, new NoInspector()),
      given<unknown>(Variables, new NoVariables()),
      given<unknown>(Timeline, new NoTimeline()),
      given<unknown>(PastActors, NO_PAST),
      given<unknown>(Replay, new NoReplay()),
      scheduler,
      httpPlugin,
    ];
    const config = { http: { host: '127.0.0.1', port: 0, version: '1', build: 'dev' } };
    const ambient = { ...fakeAmbient(), clock: systemClock };
    const kernel = await startKernel(t, plugins, { config, ambient });
    const origin = kernel.get(HttpServer).origin ?? '';
    await using client = new RawClient(origin);
    client.write(slow);
    await arrived();
    await kernel.stop();
    assert.deepEqual(drains, [false], 'nothing is taken any more by then');
    assert.match(await client.ended(), /^HTTP\/1\.1 200 OK/);
  });

  test('idle connections are closed at once', async (t) => {
    const { origin, server } = await startHttpHost(t);
    await using client = new RawClient(origin);
    client.write(get('/health'));
    await client.until('ok');
    await using silent = new RawClient(origin);
    await arrived();
    const startedMs = performance.now();
    await server.close();
    // Otherwise they stay open for 75 s.
    assert.ok(performance.now() - startedMs < 30_000);
    await Promise.all([client.ended(), silent.ended()]);
  });

  test('a new request on a kept connection is 503 and ends it', async (t) => {
    const { origin, server, canisters } = await startHttpHost(t);
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    await using client = new RawClient(origin);
    client.write(slow);
    await arrived();
    server.stopAccepting();
    client.write(get('/actors'));
    await arrived();
    held.resolve();
    const answer = await client.ended();
    assert.match(answer, /^HTTP\/1\.1 200 OK/);
    assert.doesNotMatch(answer, /counter/);
    await server.close();
  });

  test('stopAccepting lets the probes of kept connections see the end coming', async (t) => {
    const { origin, server, canisters } = await startHttpHost(t);
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    await using busy = new RawClient(origin);
    busy.write(slow);
    // Half a request: node:http does not take this connection for idle.
    await using probe = new RawClient(origin);
    probe.write('GET /health/ready HTTP/1.1\r\n');
    await using other = new RawClient(origin);
    other.write('GET /actors HTTP/1.1\r\n');
    await arrived();
    server.stopAccepting();
    probe.write('Host: x\r\n\r\n');
    other.write('Host: x\r\n\r\n');
    assert.match(await probe.ended(), /^HTTP\/1\.1 503 [^]*\r\n\r\nshutting down$/);
    assert.match(await other.ended(), /^HTTP\/1\.1 503 [^]*connection: close[^]*\r\n\r\nshutting down$/i);
    held.resolve();
    await server.close();
  });

  test('a request that never arrives whole does not hold the server open', async (t) => {
    const clock = new FakeClock();
    const { origin, server, canisters } = await startHttpHost(t, { clock });
    await using headless = new RawClient(origin);
    headless.write('GET /health HT');
    await using bodyless = new RawClient(origin);
    bodyless.write('POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab');
    await arrived();
    const closed = server.close();
    clock.advance(1000);
    await arrived();
    assert.ok(!headless.isClosed && !bodyless.isClosed, 'it has a second to arrive');
    clock.advance(20);
    await closed;
    assert.equal(canisters.resolve('counter').count, 0);
  });

  test('answers that are owed are sent although the request behind them never arrives whole', async (t) => {
    const clock = new FakeClock();
    const { origin, server, canisters } = await startHttpHost(t, { clock });
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    await using client = new RawClient(origin);
    const half = 'POST /call/counter/inc HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab';
    client.write(slow + slow + half);
    await arrived();
    const closed = server.close();
    for (let second = 0; second < 3; second++) {
      clock.advance(1000);
      await arrived();
    }
    assert.ok(!client.isClosed, 'two answers are owed');
    held.resolve();
    const text = await client.until('["done"]');
    assert.match(text, /^HTTP\/1\.1 200 OK/);
    clock.advance(1000);
    const answers = (await client.ended()).match(/\["done"\]/g);
    assert.equal(answers?.length, 2);
    await closed;
    assert.equal(canisters.resolve('counter').count, 0);
  });

  test('the signal cuts connections whose answer does not come', async (t) => {
    const { origin, server, canisters } = await startHttpHost(t);
    canisters.resolve('counter').held = new Promise(() => undefined);
    await using client = new RawClient(origin);
    client.write(slow);
    await arrived();
    await server.close({ signal: AbortSignal.timeout(100) });
    assert.equal(await client.ended(), '');
  });

  test('an idle connection is closed after its time, a busy one is not', async (t) => {
    const clock = new FakeClock();
    const { origin, canisters } = await startHttpHost(t, { clock });
    const held = Promise.withResolvers<void>();
    canisters.resolve('counter').held = held.promise;
    await using idle = new RawClient(origin);
    idle.write(get('/health'));
    await using busy = new RawClient(origin);
    busy.write(slow);
    await idle.until('ok');
    await arrived();
    clock.advance(70_000);
    await arrived();
    assert.equal(idle.isClosed, false, '75 s are the time');
    for (let passedMs = 0; passedMs < 80_000; passedMs += 5000) clock.advance(5000);
    await idle.ended();
    await using active = new RawClient(origin);
    for (let round = 1; round <= 10; round++) {
      active.write(get('/health'));
      while (active.received.split('\r\n\r\nok').length - 1 < round) await sleep(1);
      for (let passedMs = 0; passedMs < 60_000; passedMs += 5000) clock.advance(5000);
    }
    assert.equal(active.isClosed, false);
    assert.equal(busy.received, '');
    held.resolve();
    await busy.until('done');
  });
});
