/**
 * Every route of the table × right and wrong properties of a request, by a client that writes bytes, by Node's own and
 * by `fetch`. A new route is walked as soon as it is in the table; SAMPLES has the parts of its valid requests.
 */
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { suite, test, type TestContext } from 'node:test';
import {
  GATEWAY_BYTES_MAX,
  GUARDED_BYTES_MAX,
  routeKeyOf,
  type RouteSpec,
  ROUTES,
} from '../../../subsystems/http/route-table.ts';
import { RawClient } from '../../support/http-client.ts';
import { ANY_ACTOR, compileMotoko } from '../../support/motoko.ts';
import { startServer } from '../../support/server.ts';
import { startHttpHost } from './counter-host.ts';

const TOKEN = 'secret';
const RIGHT = { authorization: `Bearer ${TOKEN}` };
const WRONG = { authorization: 'Bearer Secret' };
const SPECS: readonly RouteSpec[] = ROUTES;
/** Names for METHOD where it has to be a query, and bodies. */
const SAMPLES: Readonly<Record<string, { readonly method?: string; readonly body?: string }>> = {
  'POST /query-json/:actor/:method': { method: 'get' },
  'POST /query/:actor/:method': { method: 'get' },
  'GET /watch/:actor/:method': { method: 'get' },
  'POST /watch': { body: '{"queries":[{"id":"a","actor":"counter","method":"get"}]}' },
  'POST /cycles/:actor': { body: '5' },
  'POST /install/:name': { body: 'module' },
  'POST /upgrade/:actor': { body: 'module' },
};

interface Seen {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}
interface Asked {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Length that the header gives for a body that is not sent. */
  readonly contentLength?: number;
  /** Number of bytes to send in chunks, as far as the server takes them. */
  readonly chunkedBytes?: number;
}
type Ask = (origin: string, method: string, target: string, asked?: Asked) => Promise<Seen>;

const CHUNK = Buffer.alloc(1024 * 1024, '1');

/** Sends a request byte by byte. A stream is left as soon as its header is there. */
const askByHand: Ask = async (origin, method, target, { headers = {}, body, contentLength, chunkedBytes } = {}) => {
  await using client = new RawClient(origin);
  const lines: Record<string, string> = { Host: 'x', ...headers, Connection: 'close' };
  if (chunkedBytes !== undefined) lines['Transfer-Encoding'] = 'chunked';
  else if (contentLength !== undefined || body !== undefined)
    lines['Content-Length'] = String(contentLength ?? body?.length);
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  client.write(`${method} ${target} HTTP/1.1\r\n${head.join('')}\r\n${body ?? ''}`);
  for (let sent = 0; sent < (chunkedBytes ?? 0) && client.received === '' && !client.isClosed; sent += CHUNK.length) {
    client.write(`${CHUNK.length.toString(16)}\r\n`);
    client.write(CHUNK);
    client.write('\r\n');
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (chunkedBytes !== undefined) client.write('0\r\n\r\n');
  const answer = await client.until('\r\n\r\n', 60_000);
  const headEnd = answer.indexOf('\r\n\r\n');
  const length = method === 'HEAD' ? 0 : Number(/\r\ncontent-length: (\d+)/i.exec(answer)?.[1] ?? 0);
  while (client.received.length < headEnd + 4 + length && !client.isClosed)
    await new Promise((resolve) => setTimeout(resolve, 1));
  return {
    status: Number(answer.slice(9, 12)),
    contentType: /\r\ncontent-type: (.*?)\r\n/i.exec(answer)?.[1] ?? '',
    text: Buffer.from(client.received.slice(headEnd + 4, headEnd + 4 + length), 'latin1').toString('utf8'),
  };
};

const askByNode: Ask = (origin, method, target, { headers = {}, body, contentLength, chunkedBytes } = {}) =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(origin);
    const length = contentLength ?? body?.length;
    const request = httpRequest({
      hostname,
      port,
      method,
      path: target,
      agent: false,
      headers: length === undefined ? headers : { ...headers, 'content-length': length },
    });
    request.on('error', reject);
    request.on('response', (response) => {
      const contentType = response.headers['content-type'] ?? '';
      const status = response.statusCode ?? 0;
      if (response.headers['content-length'] === undefined) {
        resolve({ status, contentType, text: '' });
        response.destroy();
        return;
      }
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('end', () => {
        resolve({ status, contentType, text });
        request.destroy();
      });
    });
    if (chunkedBytes !== undefined) {
      let sent = 0;
      const send = (): void => {
        while (sent < chunkedBytes) {
          sent += CHUNK.length;
          if (!request.write(CHUNK)) {
            request.once('drain', send);
            return;
          }
        }
        request.end();
      };
      send();
    } else if (contentLength === undefined) request.end(body);
    else request.flushHeaders();
  });

/**
 * Sends a request as most programs do. Requests that `fetch` cannot make are left to Node's client: fragments, bare
 * `?`, lengths of bodies that do not come.
 */
const askByFetch: Ask = async (origin, method, target, asked = {}) => {
  const { headers = {}, body, contentLength, chunkedBytes } = asked;
  const hasBodyElsewhere = contentLength !== undefined || chunkedBytes !== undefined || (method === 'GET' && body);
  if (hasBodyElsewhere || new URL(`${origin}${target}`).href !== `${origin}${target}` || /#|\?$/.test(target))
    return await askByNode(origin, method, target, asked);
  const leave = new AbortController();
  const response = await fetch(`${origin}${target}`, {
    method,
    // The connection is not reused: another host may get the port next.
    headers: { ...headers, connection: 'close' },
    ...(body !== undefined && { body }),
    redirect: 'manual',
    signal: leave.signal,
  });
  const contentType = response.headers.get('content-type') ?? '';
  const hasEnd = response.headers.has('content-length') && method !== 'HEAD';
  const text = hasEnd ? await response.text() : '';
  leave.abort();
  return { status: response.status, contentType, text };
};

const CLIENTS: readonly (readonly [string, Ask])[] = [
  ['by hand', askByHand],
  ["by Node's client", askByNode],
  ['by fetch', askByFetch],
];

/** Returns a valid target of the route. */
function targetOf(spec: RouteSpec, actor = 'counter'): string {
  const method = SAMPLES[routeKeyOf(spec)]?.method ?? 'inc';
  return spec.path
    .replace(':actor', actor)
    .replace(':method', method)
    .replace(':name', 'fresh')
    .replace('*', 'src/main.mo');
}

type Host = Awaited<ReturnType<typeof startHttpHost>>;
type Visit = (spec: RouteSpec, ask: (target: string, asked?: Asked, method?: string) => Promise<Seen>) => Promise<void>;

/**
 * Walks each route with each client. Requests that may change something have hosts of their own, so that one does not
 * affect the next; those that only read share one.
 */
async function walk(t: TestContext, specs: readonly RouteSpec[], visit: Visit, clients = CLIENTS): Promise<void> {
  const shared = await startHttpHost(t, { token: TOKEN });
  for (const [client, ask] of clients) {
    for (const spec of specs) {
      await t.test(`${routeKeyOf(spec)}, ${client}`, async (inner) => {
        const { origin } = spec.method === 'GET' ? shared : await startHttpHost(inner, { token: TOKEN });
        await visit(spec, (target, asked, method = spec.method) => ask(origin, method, target, asked));
      });
    }
  }
}

/** Walks each route with each client, with requests that are refused all of them: they share a host. */
async function walkRefused(
  t: TestContext,
  specs: readonly RouteSpec[],
  visit: Visit,
  prepare?: (host: Host) => void,
): Promise<void> {
  const host = await startHttpHost(t, { token: TOKEN });
  prepare?.(host);
  for (const [client, ask] of CLIENTS) {
    for (const spec of specs) {
      await t.test(`${routeKeyOf(spec)}, ${client}`, () =>
        visit(spec, (target, asked, method = spec.method) => ask(host.origin, method, target, asked)),
      );
    }
  }
}

const REFUSAL = { status: 401, contentType: 'text/plain; charset=utf-8', text: 'missing or wrong bearer token' };
const messageOf = ({ text }: Seen): string => (JSON.parse(text) as { message: string }).message;

function assertAnswered(seen: Seen, what: string): void {
  assert.ok(![401, 403, 405, 413, 500, 502].includes(seen.status), `${what}: ${seen.status} ${seen.text}`);
  if (seen.status === 404) assert.doesNotMatch(messageOf(seen), /^no such path|unknown query/, what);
}

suite('each route of the table', () => {
  test('without the token, or with a wrong one: 401 to the letter, unless it is open', async (t) => {
    const visit: Visit = async (spec, ask) => {
      for (const headers of [{}, WRONG]) {
        const seen = await ask(targetOf(spec), { headers });
        if (spec.access === 'token') assert.deepEqual(seen, REFUSAL);
        else assertAnswered(seen, 'open');
      }
    };
    const isRefused = ({ access }: RouteSpec): boolean => access === 'token';
    await walkRefused(t, SPECS.filter(isRefused), visit);
    await walk(
      t,
      SPECS.filter((spec) => !isRefused(spec)),
      visit,
    );
  });

  test('with the token: it is there', async (t) => {
    await walk(t, SPECS, async (spec, ask) => {
      const body = SAMPLES[routeKeyOf(spec)]?.body ?? (spec.method === 'GET' ? undefined : '[]');
      assertAnswered(await ask(targetOf(spec), { headers: RIGHT, ...(body !== undefined && { body }) }), 'right token');
    });
  });

  test('in another case, with a slash more, or percent-encoded: another path, which is nobody’s', async (t) => {
    const named = SPECS.filter(({ path }) => path !== '/');
    await walkRefused(t, named, async (spec, ask) => {
      const target = targetOf(spec);
      const [first = ''] = target.slice(1).split('/');
      const others = [
        target.replace(first, first.toUpperCase()),
        target.replace(first, first.slice(0, 1).toUpperCase() + first.slice(1)),
        `/${target}`,
        `${target}/`,
        target.replace(first, `%${first.charCodeAt(0).toString(16)}${first.slice(1)}`),
        `${target}#a`,
        ...spec.path
          .split('/')
          .slice(2)
          .filter((word) => /^\w/.test(word))
          .map((word) => target.replace(`/${word}`, `/%${word.charCodeAt(0).toString(16)}${word.slice(1)}`)),
      ];
      for (const other of others) {
        assert.deepEqual(await ask(other), REFUSAL, other);
        assert.equal((await ask(other, { headers: RIGHT })).status, 404, other);
      }
    });
  });

  test('with a query that it does not take: 401 without the token, 404 with it', async (t) => {
    await walkRefused(t, SPECS, async (spec, ask) => {
      const known = Object.keys(spec.query ?? {});
      const queries = [
        '?unexpected=1',
        '?',
        '?=',
        ...known.filter((name) => name !== spec.repeated).map((name) => `?${name}=1&${name}=1`),
      ];
      for (const query of queries) {
        assert.deepEqual(await ask(targetOf(spec) + query), REFUSAL, query);
        const seen = await ask(targetOf(spec) + query, { headers: RIGHT });
        assert.equal(seen.status, 404, query);
        assert.match(messageOf(seen), /query parameter/, query);
      }
    });
  });

  test('with a method that its path does not have: 401 without the token, 404 with it', async (t) => {
    await walkRefused(t, SPECS, async (spec, ask) => {
      const has = new Set<string>(SPECS.filter(({ path }) => path === spec.path).map(({ method }) => method));
      const others = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'PROPFIND'].filter((method) => !has.has(method));
      for (const method of others) {
        assert.equal((await ask(targetOf(spec), {}, method)).status, 401, method);
        const seen = await ask(targetOf(spec), { headers: RIGHT }, method);
        assert.equal(seen.status, 404, method);
        if (method !== 'HEAD' && spec.path !== '/')
          assert.match(messageOf(seen), /^no such path: .*; there is /, method);
      }
      assert.equal((await ask(targetOf(spec), {}, 'OPTIONS')).status, 204);
    });
  });

  test('with a length over its cap: 413 before anything of the body is read, but 401 without the token', async (t) => {
    await walkRefused(t, SPECS, async (spec, ask) => {
      const contentLength = (spec.bodyBytesMax ?? GUARDED_BYTES_MAX) + 1;
      const refused = await ask(targetOf(spec), { contentLength });
      assert.equal(refused.status, spec.access === 'token' ? 401 : 413);
      const seen = await ask(targetOf(spec), { contentLength, headers: RIGHT });
      assert.deepEqual([seen.status, seen.contentType], [413, 'text/plain; charset=utf-8']);
      assert.match(seen.text, new RegExp(`larger than ${contentLength - 1} bytes`));
    });
  });

  test('with a body in chunks over its cap: 413 as soon as that is known, where the body matters', async (t) => {
    const readers = SPECS.filter(({ path, method }) => method !== 'GET' && /^\/(call|query|cycles|upgrade)/.test(path));
    assert.equal(readers.length, 6);
    const visit = async (spec: RouteSpec, ask: (target: string, asked?: Asked) => Promise<Seen>): Promise<void> => {
      const chunkedBytes = (spec.bodyBytesMax ?? GUARDED_BYTES_MAX) + 1;
      const seen = await ask(targetOf(spec), { chunkedBytes, headers: RIGHT });
      assert.deepEqual([seen.status, seen.contentType], [413, 'application/json; charset=utf-8']);
    };
    // Half a gigabyte in all: each route with one of the clients.
    for (const [at, client] of CLIENTS.entries()) {
      const its = readers.filter((_spec, index) => index % CLIENTS.length === at);
      await walk(t, its, visit, [client]);
    }
  });

  test('while the server starts: 503 with the note, behind the token; probes answer', async (t) => {
    const starting = (host: Host): void => {
      host.readiness.isReady = false;
      host.readiness.note = 'recovering counter';
    };
    const visit = async (spec: RouteSpec, ask: (target: string, asked?: Asked) => Promise<Seen>): Promise<void> => {
      const seen = await ask(targetOf(spec), { headers: RIGHT });
      if (spec.path === '/health') assert.deepEqual([seen.status, seen.text], [200, 'ok']);
      else assert.deepEqual([seen.status, seen.text], [503, 'starting: recovering counter']);
      if (spec.access === 'token') assert.deepEqual(await ask(targetOf(spec)), REFUSAL);
    };
    await walkRefused(t, SPECS, visit, starting);
  });

  test('of an actor that is not there: 404', async (t) => {
    const ofActors = SPECS.filter(({ path }) => path.includes(':actor'));
    await walkRefused(t, ofActors, async (spec, ask) => {
      for (const actor of ['nobody', '80000000001000ff0101', '%00', 'COUNTER']) {
        const seen = await ask(targetOf(spec, actor), { headers: RIGHT });
        assert.equal(seen.status, 404, `${actor}: ${seen.text}`);
        assert.match(seen.contentType, /^application\/json/);
      }
    });
  });
});

suite('websites', () => {
  for (const [client, ask] of CLIENTS) {
    test(`need no token, have any method and query, a cap of 8 MiB, and wait for the start, ${client}`, async (t) => {
      const host = await startHttpHost(t, { token: TOKEN });
      const { origin } = host;
      for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
        for (const headers of [{}, WRONG, RIGHT]) {
          const seen = await ask(origin, method, '/site/counter/x?unexpected=1', { headers });
          assert.deepEqual([seen.status, seen.text], [200, 'site /x?unexpected=1'], method);
        }
      }
      assert.equal((await ask(origin, 'GET', '/Site/counter/x')).status, 401);
      assert.equal((await ask(origin, 'GET', '/site/nobody/x')).status, 404);
      const over = GATEWAY_BYTES_MAX + 1;
      assert.equal((await ask(origin, 'POST', '/site/counter/x', { contentLength: over })).status, 413);
      assert.equal((await ask(origin, 'POST', '/site/counter/x', { chunkedBytes: over })).status, 413);
      host.readiness.isReady = false;
      assert.equal((await ask(origin, 'GET', '/site/counter/x')).status, 503);
    });
  }
});

suite('each route of a stopped and of a dry actor', () => {
  /** Routes of calls, which are refused; read-only routes answer as usual. */
  const CALLS = /^\/(call|query|call-json|query-json)\//;
  const ofActors = SPECS.filter(({ path }) => path.includes(':actor'));
  const changing = new Set([
    'POST /start/:actor',
    'POST /stop/:actor',
    'DELETE /actors/:actor',
    'POST /upgrade/:actor',
    'POST /cycles/:actor',
  ]);

  test('calls are refused, with 400 and with 402; everything else goes on', async (t) => {
    const server = await startServer(t, {
      manifest: '{"actors":{}}',
      args: ['--cycles', '1300000'],
      env: { SVC_TOKEN: TOKEN },
    });
    const { wasm } = await compileMotoko(`${ANY_ACTOR.slice(0, -3)}; public query func get() : async Nat { n } };`);
    for (const name of ['stopped', 'dry']) {
      const installed = await server.post(`/install/${name}`, wasm, RIGHT);
      assert.equal(installed.status, 200, installed.body);
    }
    assert.equal((await server.post('/stop/stopped', '', RIGHT)).status, 200);
    while ((await server.post('/call-json/dry/inc', '[]', RIGHT)).status === 200) continue;
    for (const [client, ask] of CLIENTS) {
      for (const spec of ofActors.filter((each) => !changing.has(routeKeyOf(each)))) {
        const isRaw = /^\/(call|query)\//.test(spec.path);
        const body = isRaw ? 'DIDL\0\0' : spec.method === 'GET' ? undefined : '[]';
        for (const [actor, status, code] of [
          ['stopped', 400, 5],
          ['dry', 402, 402],
        ] as const) {
          const seen = await ask(server.origin, spec.method, targetOf(spec, actor), {
            headers: RIGHT,
            ...(body !== undefined && { body }),
          });
          const what = `${routeKeyOf(spec)} of ${actor}, ${client}: ${seen.status} ${seen.text}`;
          if (CALLS.test(spec.path)) {
            assert.equal(seen.status, status, what);
            assert.equal((JSON.parse(seen.text) as { code: number }).code, code, what);
          } else assert.ok(seen.status < 500, what);
        }
      }
      const site = await ask(server.origin, 'GET', '/site/stopped/');
      assert.deepEqual([site.status, site.contentType], [502, 'text/plain; charset=utf-8'], site.text);
    }
    // The actors work again when they are started, and given cycles.
    assert.equal((await server.post('/start/stopped', '', RIGHT)).status, 200);
    assert.equal((await server.post('/cycles/dry', '10000000', RIGHT)).status, 200);
    for (const name of ['stopped', 'dry']) {
      assert.equal((await server.post(`/query-json/${name}/get`, '[]', RIGHT)).status, 200, name);
    }
  });
});
