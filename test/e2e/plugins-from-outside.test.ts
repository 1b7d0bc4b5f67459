/** Packages of a team in a real server: two ways out, and metrics that are pushed to a collector. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { test, type TestContext } from 'node:test';
import { OUTSIDE_CA_FILE, startOutsideServer } from '../support/outside-server.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const PLUGINS = join(ROOT, 'test/fixtures/plugins');
const MANIFEST = JSON.stringify({ actors: { fetcher: { main: join(ROOT, 'config/examples/fetcher/Fetcher.mo') } } });

/** Returns the flags for one of them. */
function plugin(capability: string, file: string, options: Readonly<Record<string, string>>): readonly string[] {
  const given = Object.entries(options).map(([name, value]) => ['--plugin-option', `${capability}.${name}=${value}`]);
  return ['--plugin', `${capability}=${join(PLUGINS, file)}`, ...given.flat()];
}

interface Proxy {
  readonly url: string;
  readonly asked: readonly string[];
  close(): Promise<void>;
}

/** Starts the proxy that the package's own tests use. */
async function startProxy(t: TestContext, credentials: string): Promise<Proxy> {
  const module: string = join(PLUGINS, 'team-outcalls/test/proxy.js');
  const { startProxy: start } = (await import(module)) as {
    readonly startProxy: (options: { readonly credentials: string }) => Promise<Proxy>;
  };
  const proxy = await start({ credentials });
  t.after(() => proxy.close());
  return proxy;
}

interface Metric {
  readonly name: string;
  readonly sum?: { readonly dataPoints: readonly Point[] };
}

interface Point {
  readonly asInt?: string;
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue: string } }[];
}

/** Starts a server for pushed metrics; returns the newest value of a counter, for one class of endpoints if given. */
async function startCollector(t: TestContext) {
  let newest: readonly Metric[] = [];
  let arrived = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (piece: string) => (text += piece));
    request.on('end', () => {
      const pushed = JSON.parse(text) as {
        resourceMetrics: readonly { scopeMetrics: readonly { metrics: readonly Metric[] }[] }[];
      };
      newest = pushed.resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
      response.end('{}');
      arrived.resolve();
      arrived = Promise.withResolvers();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const valueOf = (name: string, endpoint?: string): number => {
    const points = newest.find((metric) => metric.name === name)?.sum?.dataPoints ?? [];
    const isWanted = ({ attributes }: Point): boolean =>
      endpoint === undefined ||
      attributes.some(({ key, value }) => key === 'endpoint' && value.stringValue === endpoint);
    return Number(points.find(isWanted)?.asInt ?? 0);
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    valueOf,
    /** Resolves when a push has brought it. */
    async brought(value: number, name: string, endpoint?: string): Promise<void> {
      while (valueOf(name, endpoint) < value) await arrived.promise;
    },
  };
}

const fetched = async (server: RunningServer, url: string): Promise<string> =>
  (await server.post('/call-json/fetcher/fetch', JSON.stringify([url]))).body;

test('outcalls go through a proxy, https in a tunnel, and what is counted is pushed to a collector', async (t) => {
  const proxy = await startProxy(t, 'ada:secret');
  const collector = await startCollector(t);
  const plain = await startOutsideServer(t);
  const secure = await startOutsideServer(t, { certificate: 'good' });
  const wrong = await startOutsideServer(t, { certificate: 'wrong-name' });
  const server = await startServer(t, {
    manifest: MANIFEST,
    env: { NODE_EXTRA_CA_CERTS: OUTSIDE_CA_FILE, TEAM_PROXY_CREDENTIALS: 'ada:secret' },
    args: [
      ...plugin('outcalls', 'team-outcalls/proxied.js', { proxy: proxy.url }),
      ...plugin('metrics', 'otlp-metrics/index.js', { 'interval-ms': '50', endpoint: collector.url }),
    ],
  });

  assert.match(await fetched(server, `${plain.origin}/json/7`), /\{\\"n\\":7,\\"name\\":\\"Ada\\"\}/);
  assert.match(await fetched(server, `${secure.origin}/json/8`), /\{\\"n\\":8,\\"name\\":\\"Ada\\"\}/);
  assert.match(
    await fetched(server, `${wrong.origin}/json/9`),
    /failed.*ALTNAME/,
    'the certificate is the one of the server',
  );
  await plain.close();
  assert.match(
    await fetched(server, `${plain.origin}/json/7`),
    /failed.*the proxy could not ask the server.*nobody listens/,
  );
  assert.deepEqual(proxy.asked, [
    `GET ${plain.origin}/json/7 HTTP/1.1`,
    `CONNECT localhost:${secure.port} HTTP/1.1`,
    `CONNECT localhost:${wrong.port} HTTP/1.1`,
    `GET ${plain.origin}/json/7 HTTP/1.1`,
  ]);
  assert.equal(wrong.received.length, 0);

  await collector.brought(4, 'svc_http_requests_total', 'call-json');
  const shown = await server.get('/metrics');
  assert.match(shown.body, /^svc_http_requests_total\{endpoint="call-json"\} 4$/m);
  assert.match(shown.body, /^svc_http_connections \d+$/m, 'what http shows stands there, too');
  await fetched(server, `${secure.origin}/json/8`);
  assert.equal(await server.stop(), 0);
  assert.equal(collector.valueOf('svc_http_requests_total', 'call-json'), 5, 'the last push is made at the stop');
  assert.doesNotMatch(server.output.stdout + server.output.stderr, /secret/);
});

test('what one run records, the next replays without a connection', async (t) => {
  const directory = join(await temporaryDirectory(), 'recording');
  const outside = await startOutsideServer(t);
  const start = (mode: 'record' | 'replay'): Promise<RunningServer> =>
    startServer(t, {
      manifest: MANIFEST,
      args: plugin('outcalls', 'team-outcalls/recorded.js', { mode, directory }),
    });
  const recorded = await start('record');
  const first = await fetched(recorded, `${outside.origin}/json/1`);
  assert.match(first, /\\"n\\":1/);
  assert.match(await fetched(recorded, `${outside.origin}/status/404`), /"status":404/);
  assert.equal(await recorded.stop(), 0);
  assert.equal((await readdir(directory)).length, 2);
  await outside.close();

  const replayed = await start('replay');
  const withoutTime = (body: string): string => body.replace(/"fetchedAt":[^,}]*/, '');
  assert.equal(withoutTime(await fetched(replayed, `${outside.origin}/json/1`)), withoutTime(first));
  assert.match(await fetched(replayed, `${outside.origin}/status/404`), /"status":404/);
  assert.match(await fetched(replayed, `${outside.origin}/json/2`), /the recording has no answer to GET/);
  assert.equal(await replayed.stop(), 0);
});
