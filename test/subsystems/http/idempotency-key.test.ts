import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { RawClient, send } from '../../support/http-client.ts';
import { startHttpHost } from './counter-host.ts';

suite('Idempotency-Key', () => {
  test('goes with calls as it is, and with none of them if there is none', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const keys = ['k', '~!"#,;=\\', 'x'.repeat(255), '"8e03978e-40d5-43dd-bc93-6894a57f9324"'];
    for (const route of ['call', 'call-json']) {
      for (const key of keys) {
        const headers = { 'Idempotency-KEY': key };
        assert.equal((await send(origin, 'POST', `/${route}/counter/inc`, { headers, body: '[]' })).status, 200, key);
      }
      await send(origin, 'POST', `/${route}/counter/inc`, { body: '[]' });
    }
    assert.deepEqual(canisters.keys, [...keys, undefined, ...keys, undefined]);
  });

  test('a key that is none is 400, says why, and nothing is called', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const bad: readonly (readonly [key: string | string[], reason: RegExp])[] = [
      ['', /it has 0 characters/],
      ['x'.repeat(256), /it has 256 characters; a key is 1 to 255 visible ASCII characters/],
      ['a b', /other than visible ASCII/],
      ['a\tb', /other than visible ASCII/],
      ['caf\u00e9', /other than visible ASCII/],
      [['one', 'two'], /other than visible ASCII/],
    ];
    for (const route of ['call', 'call-json']) {
      for (const [key, reason] of bad) {
        const headers = { 'idempotency-key': key };
        const answer = await send(origin, 'POST', `/${route}/counter/inc`, { headers, body: '[]' });
        assert.equal(answer.status, 400, String(key));
        const { code, message } = answer.json() as { code: number; message: string };
        assert.equal(code, 400);
        assert.match(message, reason);
      }
    }
    assert.deepEqual(canisters.keys, []);
    assert.equal((await send(origin, 'POST', '/query/counter/get')).text, '[0]');
  });

  test('a key of 1 MiB is 431, like every header of that size', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    await using client = new RawClient(origin);
    client.write('POST /call/counter/inc HTTP/1.1\r\nHost: x\r\ncontent-length: 0\r\nidempotency-key: ');
    client.write('x'.repeat(2 ** 20));
    client.write('\r\n\r\n');
    assert.match(await client.ended(), /^HTTP\/1\.1 431 /);
    assert.deepEqual(canisters.keys, []);
  });

  test('queries take no notice of it, whatever it is', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    for (const route of ['query', 'query-json']) {
      for (const key of ['k', 'a b']) {
        const headers = { 'idempotency-key': key };
        assert.equal((await send(origin, 'POST', `/${route}/counter/get`, { headers })).status, 200);
      }
    }
    assert.deepEqual(canisters.keys, [undefined, undefined, undefined, undefined]);
  });

  test('a key that was used for another call is 422, and one too many 503 with Retry-After', async (t) => {
    const { origin } = await startHttpHost(t);
    const answerTo = async (key: string) =>
      await send(origin, 'POST', '/call-json/counter/inc', { headers: { 'idempotency-key': key }, body: '[]' });
    const used = await answerTo('used');
    assert.deepEqual([used.status, used.json()], [422, { code: 422, message: 'another argument' }]);
    const many = await answerTo('many');
    assert.deepEqual([many.status, many.headers['retry-after']], [503, '1']);
  });
});
