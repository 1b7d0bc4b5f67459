/** Valid answers of a plugin's route, and the handling of invalid ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

/** Invalid answer by path, and the log line about it. */
const FAULTS: Readonly<Record<string, readonly [answer: () => unknown, said: RegExp]>> = {
  nothing: [() => undefined, /the answer of GET \/x\/p\/nothing is no object/],
  status: [() => ({ status: 99_999 }), /has a status that is none from 200 to 599/],
  type: [() => ({ body: 'x', contentType: 'text/plain\r\nx: y' }), /has a contentType that no header can carry/],
  body: [() => ({ body: 5 }), /has a body that is neither text nor a Uint8Array/],
  both: [() => ({ body: 'x', json: 1 }), /has both body and json/],
  'no-content': [() => ({ status: 204, body: 'x' }), /has a body, which status 204 cannot have/],
  circle: [() => ({ json: circle() }), /circular/],
  number: [() => ({ json: 5n }), /BigInt/],
  thrown: [() => Promise.reject(new Error('of the plugin alone')), /of the plugin alone/],
  unreadable: [() => Promise.reject(unreadable()), /the plugin p throws an object that cannot be read/],
};

function unreadable(): Error {
  return new Proxy(new Error('hidden'), { getPrototypeOf: () => assert.fail('looked at') });
}

function circle(): unknown {
  const round: { round?: unknown } = {};
  round.round = round;
  return round;
}

test('an answer that is none, or that throws, is a 500 without its cause, which the log has', async (t) => {
  const row = (path: string, answer: () => unknown) => ({
    plugin: 'p',
    method: 'GET' as const,
    path: `/${path}`,
    query: [],
    bodyBytesMax: undefined,
    answer: async () => (await answer()) as object,
  });
  const pluginRoutes = [
    ...Object.entries(FAULTS).map(([path, [answer]]) => row(path, answer)),
    row('good', () => ({ json: { a: 1 } })),
    row('empty', () => ({ status: 204 })),
    row('told', () => Promise.reject(new ServerError('invalid', 'bad-args', 'told to the client'))),
  ];
  const { origin, log } = await startHttpHost(t, { pluginRoutes });
  for (const [path, [, said]] of Object.entries(FAULTS)) {
    const { status, text } = await send(origin, 'GET', `/x/p/${path}`);
    assert.deepEqual([path, status], [path, 500]);
    assert.match(text, /internal error; the cause is in the server log/);
    assert.match(log.errors.at(-1) ?? '', said, path);
  }
  assert.equal(log.errors.length, Object.keys(FAULTS).length);
  assert.equal((await send(origin, 'GET', '/x/p/good')).text, '{"a":1}');
  assert.equal((await send(origin, 'GET', '/x/p/empty')).status, 204);
  const { status, text } = await send(origin, 'GET', '/x/p/told');
  assert.deepEqual([status, text], [400, '{"code":400,"message":"told to the client"}']);
});
