/** Tests how query parameters are written, for every parameter of every route that has one. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { queryOf } from '../../../subsystems/http/request-target.ts';
import { type RouteSpec, ROUTES } from '../../../subsystems/http/route-table.ts';
import { EventClient } from '../../support/event-client.ts';
import { send } from '../../support/http-client.ts';
import { startInProcess } from '../../support/in-process-server.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { startHttpHost } from './counter-host.ts';

const SPECS: readonly RouteSpec[] = ROUTES;
/** Parameters with each of the values that they take; undefined: every value is valid. */
const PARAMETERS = SPECS.flatMap(({ path, query = {} }) =>
  Object.entries(query).flatMap(([name, taken]) => [taken].flat().map((only) => ({ path, query, name, only }))),
);
const TEXTS = ['a b', 'a+b', '["ü & = ? # % €😀"]', '', '%2B', ' ', '\0\n'];

const escaped = (text: string): string =>
  Array.from(Buffer.from(text), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

function problemOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof ServerError);
    return error.kind;
  }
  return 'none';
}

suite('query parameters', () => {
  test('of every route are read as a form of a browser writes them', () => {
    assert.ok(PARAMETERS.length > 10);
    for (const { path, query, name, only } of PARAMETERS) {
      for (const text of only === undefined ? TEXTS : [only]) {
        const written = [
          new URLSearchParams([[name, text]]).toString(),
          `${name}=${encodeURIComponent(text)}`,
          `${escaped(name)}=${escaped(text).toUpperCase()}`,
          `&${name}=${encodeURIComponent(text)}`,
          `&&${name}=${encodeURIComponent(text)}&`,
        ];
        for (const each of written)
          assert.deepEqual([...queryOf(`${path}?${each}`, { query })], [[name, text]], `${path}?${each}`);
      }
    }
  });

  test('with escapes that are broken or no UTF-8 are refused, and one that is there twice in any disguise', () => {
    for (const { path, query, name, only } of PARAMETERS) {
      const expected = only === undefined ? 'invalid' : 'missing';
      for (const value of ['%', '%2', '%zz', '%ff', '%c3%28', '%ed%a0%80', 'a+%'])
        assert.equal(
          problemOf(() => queryOf(`${path}?${name}=${value}`, { query })),
          expected,
          `${path} ${name}=${value}`,
        );
      const value = only ?? '1';
      for (const query2 of [
        `${name}=${value}&${escaped(name)}=${value}`,
        `${name}=${value}&%zz=1`,
        `${name}+=${value}`,
      ])
        assert.equal(
          problemOf(() => queryOf(`${path}?${query2}`, { query })),
          'missing',
          `${path}?${query2}`,
        );
    }
  });

  test('of a plugin’s route are decoded, too', async (t) => {
    const pluginRoutes = [
      {
        plugin: 'p',
        method: 'GET' as const,
        path: '/q',
        query: ['q'],
        bodyBytesMax: undefined,
        answer: async ({ query }: { query: ReadonlyMap<string, string> }) => ({ json: query.get('q') }),
      },
    ];
    const { origin } = await startHttpHost(t, { pluginRoutes });
    assert.equal((await send(origin, 'GET', '/x/p/q?q=a+b%2Bc%C3%BC')).text, '"a b+cü"');
    const { status, text } = await send(origin, 'GET', '/x/p/q?q=%zz');
    assert.deepEqual(
      [status, text],
      [400, '{"code":400,"message":"query parameter q: expected percent-encoded UTF-8"}'],
    );
  });

  test('of /watch reach the query as they were meant, for everybody who encodes', async (t) => {
    const server = await startInProcess(t);
    const { wasm } = await compileMotoko(
      'persistent actor { public query func echo(text : Text) : async Text { text } }',
    );
    assert.equal((await server.post('/install/it', wasm)).status, 200);
    const args = JSON.stringify(['a b+c ü']);
    for (const written of [
      new URLSearchParams({ args }).toString(),
      `args=${encodeURIComponent(args)}`,
      'args=%5B%22a+b%2Bc+%C3%BC%22%5D',
    ]) {
      await using client = await EventClient.open(server.origin, `/watch/it/echo?${written}`);
      assert.equal((await client.next())?.data, args, written);
    }
  });
});
