import assert from 'node:assert/strict';
import { ServerError } from '../../../kernel/index.ts';
import {
  OUTCALL_FAILURES,
  type OutcallRequest,
  type Outcalls,
  type OutcallResponse,
} from '../../../subsystems/outcalls/index.ts';
import { UndiciOutcalls } from '../../../subsystems/outcalls/undici-outcalls.ts';
import { type OutsideServer, startOutsideServer } from './support/outside-server.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

/** Bytes of a flood that the limits let through, with those in the system's buffers. */
const FLOOD_BYTES_MAX = 64 * 1024 * 1024;

/** Returns a request as the management canister would pass it on. */
export function requestOf(url: string, more: Partial<OutcallRequest> = {}): OutcallRequest {
  return {
    sender: Uint8Array.of(1),
    method: 'GET',
    url: new URL(url).href,
    headers: [{ name: 'user-agent', value: 'ic/1.0' }],
    body: new Uint8Array(0),
    responseBytesMax: 2_000_000,
    ...more,
  };
}

export const NEVER: { readonly signal: AbortSignal } = { signal: new AbortController().signal };

export const textOf = ({ body }: OutcallResponse): string => Buffer.from(body).toString('utf8');

/** Returns code and message of a failed outcall. */
export async function failureOf(sent: Promise<OutcallResponse>): Promise<{ code: string; message: string }> {
  try {
    await sent;
  } catch (error) {
    assert.ok(error instanceof ServerError, String(error));
    assert.ok(Object.hasOwn(OUTCALL_FAILURES, error.code), `${error.code} is none of the failures of outcalls`);
    return { code: error.code, message: error.message };
  }
  throw new Error('the outcall did not fail');
}

/** Makes the server's own outcalls, which end with the test. */
export type OwnOutcalls = () => Outcalls;

/**
 * Declares the suite that every sender of outcalls has to pass. `make` returns one that may reach 127.0.0.1, and that
 * ends with the test.
 */
export function describeOutcalls(
  name: string,
  make: (t: SuiteContext, own: OwnOutcalls) => Promise<Outcalls>,
  runner: SuiteRunner = nodeRunner,
): void {
  const both = async (t: SuiteContext): Promise<{ outcalls: Outcalls; server: OutsideServer }> => ({
    outcalls: await make(t, () => {
      const own = new UndiciOutcalls({ denyPrivate: false });
      t.after(() => own.close());
      return own;
    }),
    server: await startOutsideServer(t),
  });

  suite(runner, name, (test) => {
    test('a response comes back with status, headers in lower case and body', async (t) => {
      const { outcalls, server } = await both(t);
      const response = await outcalls.send(requestOf(`${server.origin}/json/7`), NEVER);
      assert.equal(response.status, 200);
      assert.deepEqual(
        response.headers.filter(({ name: header }) => header.startsWith('x-')),
        [{ name: 'x-mixed', value: 'Case' }],
      );
      assert.equal(textOf(response), '{"n":7,"name":"Ada"}');
    });

    test('method, target, headers and body arrive as they were given', async (t) => {
      const { outcalls, server } = await both(t);
      const body = Uint8Array.from({ length: 256 }, (_, index) => index);
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const) {
        const headers = [
          { name: 'X-One', value: 'grüß 🎈' },
          { name: 'host', value: 'example.org' },
        ];
        await outcalls.send(requestOf(`${server.origin}/hello/x?a=%20b&c=ä`, { method, headers, body }), NEVER);
        const request = server.received.at(-1);
        assert.ok(request);
        assert.deepEqual([request.method, request.target], [method, '/hello/x?a=%20b&c=%C3%A4']);
        assert.equal(Buffer.from(request.headers.get('x-one') ?? '', 'latin1').toString('utf8'), 'grüß 🎈');
        assert.equal(request.headers.get('host'), 'example.org');
        assert.deepEqual(new Uint8Array(request.body), body, method);
      }
      await outcalls.send(requestOf(`${server.origin}/hello`, { method: 'POST' }), NEVER);
      assert.equal(server.received.at(-1)?.headers.get('content-length'), '0');
    });

    test('a 4xx, a 5xx and a redirect are answers', async (t) => {
      const { outcalls, server } = await both(t);
      for (const status of [404, 500, 599]) {
        const response = await outcalls.send(requestOf(`${server.origin}/status/${status}`), NEVER);
        assert.deepEqual([response.status, textOf(response)], [status, 'as asked']);
      }
      const redirect = await outcalls.send(requestOf(`${server.origin}/redirect`), NEVER);
      assert.equal(redirect.status, 302);
      assert.equal(server.received.filter(({ target }) => target === '/redirect').length, 1, 'nobody follows it');
    });

    test('HEAD has no body, whatever its content-length says', async (t) => {
      const { outcalls, server } = await both(t);
      const response = await outcalls.send(requestOf(`${server.origin}/head`, { method: 'HEAD' }), NEVER);
      assert.deepEqual([response.status, response.body.length], [200, 0]);
    });

    test('204 and 304 have no body either, and an interim answer none of its own', async (t) => {
      const { outcalls, server } = await both(t);
      for (const status of [204, 304]) {
        const { headers, ...response } = await outcalls.send(requestOf(`${server.origin}/bodiless/${status}`), NEVER);
        assert.deepEqual([response.status, response.body.length], [status, 0]);
        assert.ok(headers.some(({ name: header, value }) => header === 'etag' && value === '"1"'));
      }
      const response = await outcalls.send(requestOf(`${server.origin}/bodiless/103`), NEVER);
      assert.deepEqual([response.status, textOf(response)], [200, 'hello']);
    });

    test('interim answers are read over, however they come', async (t) => {
      const { outcalls, server } = await both(t);
      for (const method of ['GET', 'POST'] as const)
        for (const path of ['interims/100', 'interims/102', 'interims/103', 'interimslate/100']) {
          const response = await outcalls.send(requestOf(`${server.origin}/${path}`, { method }), NEVER);
          assert.deepEqual([response.status, textOf(response)], [200, 'hello'], path);
        }
    });

    test('bodies by length, in chunks and until the end come whole, and no byte of them is unpacked', async (t) => {
      const { outcalls, server } = await both(t);
      for (const [path, length] of [
        ['bytes/2000000', 2_000_000],
        ['bytes/0', 0],
        ['chunked/5000', 5000],
        ['until/300000', 300_000],
      ] as const) {
        const { body, headers } = await outcalls.send(requestOf(`${server.origin}/${path}`), NEVER);
        assert.equal(body.length, length, path);
        assert.ok(body.every((byte) => byte === path.charCodeAt(0)));
        assert.ok(!headers.some(({ name: header }) => header === 'transfer-encoding'));
      }
      const bomb = await outcalls.send(requestOf(`${server.origin}/gzip/100000000`), NEVER);
      assert.ok(bomb.body.length < 200_000);
      assert.ok(bomb.headers.some(({ name: header, value }) => header === 'content-encoding' && value === 'gzip'));
    });

    test('header values are text, whether they were UTF-8 or not', async (t) => {
      const { outcalls, server } = await both(t);
      for (const kind of ['utf8', 'latin1']) {
        const { headers } = await outcalls.send(requestOf(`${server.origin}/${kind}`), NEVER);
        assert.equal(headers.find(({ name: header }) => header === `x-${kind}`)?.value, 'grüß');
      }
    });

    test('blanks around a value are no part of it', async (t) => {
      const { outcalls, server } = await both(t);
      const { headers } = await outcalls.send(requestOf(`${server.origin}/blanks`), NEVER);
      assert.equal(headers.find(({ name: header }) => header === 'x-blanks')?.value, 'a b');
    });

    test('a body over the limit is refused before it is read whole', async (t) => {
      const { outcalls, server } = await both(t);
      const small = { responseBytesMax: 1000 };
      const exact = await outcalls.send(requestOf(`${server.origin}/bytes/1000`, small), NEVER);
      assert.equal(exact.body.length, 1000);
      for (const path of ['bytes/1001', 'chunked/1001', 'until/1001', 'flood', 'announced']) {
        const { code } = await failureOf(outcalls.send(requestOf(`${server.origin}/${path}`, small), NEVER));
        assert.equal(code, 'outcall-too-large', path);
      }
      assert.ok(server.written < FLOOD_BYTES_MAX, `${server.written} bytes were taken of ten thousand million`);
    });

    test('what is no HTTP, or breaks off, fails and says so', async (t) => {
      const { outcalls, server } = await both(t);
      for (const path of [
        'badheader',
        'badstatus',
        'lowstatus',
        'nothttp',
        'smuggle',
        'upgrade',
        'close',
        'closeearly',
        'closechunked',
        'reset',
      ]) {
        const { code, message } = await failureOf(outcalls.send(requestOf(`${server.origin}/${path}`), NEVER));
        assert.equal(code, 'outcall-failed', path);
        assert.ok(message.length > 10 && message.length < 300, message);
      }
      const after = await outcalls.send(requestOf(`${server.origin}/hello`), NEVER);
      assert.equal(textOf(after), 'hello');
    });

    test('what never becomes a body is not read for ever', async (t) => {
      const { outcalls, server } = await both(t);
      for (const path of ['headerflood', 'extensions', 'interim', 'trailers']) {
        const { code } = await failureOf(outcalls.send(requestOf(`${server.origin}/${path}`), NEVER));
        assert.ok(['outcall-failed', 'outcall-too-large'].includes(code), `${path}: ${code}`);
      }
      assert.ok(server.written < 2 * FLOOD_BYTES_MAX, `${server.written} bytes were taken`);
    });

    test('more than content-length says is not taken for the next response', async (t) => {
      const { outcalls, server } = await both(t);
      assert.equal(textOf(await outcalls.send(requestOf(`${server.origin}/toolong`), NEVER)), 'hel');
      for (let more = 0; more < 3; more++)
        assert.equal(textOf(await outcalls.send(requestOf(`${server.origin}/hello`), NEVER)), 'hello');
    });

    test('nobody listens, and no such name', async (t) => {
      const { outcalls, server } = await both(t);
      await server.close();
      for (const url of [server.origin, 'http://no-such-name.invalid/']) {
        const { code, message } = await failureOf(outcalls.send(requestOf(url), NEVER));
        assert.equal(code, 'outcall-failed');
        assert.match(message, /nobody listens|no such host|could not be looked up|EAI_/);
      }
    });

    test('an aborted signal ends it at any point with its reason, and frees the connection', async (t) => {
      const { outcalls, server } = await both(t);
      for (const path of ['stall', 'stallbody', 'drip', 'held']) {
        const controller = new AbortController();
        const sent = outcalls.send(requestOf(`${server.origin}/${path}`), { signal: controller.signal });
        await server.arrived(server.received.length + 1);
        controller.abort(OUTCALL_FAILURES['outcall-timeout']('too late'));
        assert.deepEqual(await failureOf(sent), { code: 'outcall-timeout', message: 'too late' });
      }
      const aborted = AbortSignal.abort(OUTCALL_FAILURES['outcall-timeout']('before it began'));
      const before = server.received.length;
      assert.equal(
        (await failureOf(outcalls.send(requestOf(`${server.origin}/hello`), { signal: aborted }))).message,
        'before it began',
      );
      assert.equal(server.received.length, before, 'it was never sent');
      while (server.open > 0) await new Promise((resolve) => setImmediate(resolve));
    });

    test('many at once all come back, each with its own answer', async (t) => {
      const { outcalls, server } = await both(t);
      const sent = Array.from({ length: 60 }, (_, n) => outcalls.send(requestOf(`${server.origin}/json/${n}`), NEVER));
      for (const [n, response] of (await Promise.all(sent)).entries())
        assert.equal(textOf(response), `{"n":${n},"name":"Ada"}`);
    });
  });
}
