import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { send } from '../../support/http-client.ts';
import { CodecPool } from '../../../subsystems/codec/codec-pool.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { CallerClaims } from '../../../subsystems/http/x-caller.ts';
import { startHttpHost } from './counter-host.ts';

suite('calls', () => {
  test('a raw call takes the body as the argument, also when it is empty, and answers with bytes', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/call/counter/inc', { body: 'ignored' });
    assert.equal(answer.status, 200);
    assert.equal(answer.text, '[1]');
    assert.equal(answer.headers['content-type'], 'application/octet-stream');
    assert.equal((await send(origin, 'POST', '/call/counter/inc')).text, '[2]');
    assert.equal((await send(origin, 'POST', '/query/counter/get')).text, '[2]');
    assert.equal((await send(origin, 'POST', '/call/counter/echo')).body.length, 0);
  });

  test('all bytes pass through unchanged, whether few or many', async (t) => {
    const { origin } = await startHttpHost(t);
    for (const length of [1, 64, 65, 1000, 16 * 1024, 16 * 1024 + 1, 300_000]) {
      const body = Uint8Array.from({ length }, (_unused, index) => (index * 7 + (index >> 8)) & 0xff);
      const answer = await send(origin, 'POST', '/call/counter/echo', { body });
      assert.equal(Buffer.compare(answer.body, body), 0, `${length} bytes`);
      assert.equal(answer.headers['content-length'], String(length));
    }
  });

  test('an actor is found by name or id, and names in the path are percent-decoded once', async (t) => {
    const { origin } = await startHttpHost(t);
    assert.equal((await send(origin, 'POST', '/call/80000000001000010101/inc')).text, '[1]');
    assert.equal((await send(origin, 'POST', '/call/c%6funter/in%63')).text, '[2]');
    assert.equal((await send(origin, 'POST', '/call/counter/with%20space%2Fslash%25')).text, '["odd"]');
    assert.equal((await send(origin, 'POST', '/call/counter/with%2520space%252Fslash%2525')).status, 404);
  });

  test('any content type is taken, even one that is none', async (t) => {
    const { origin } = await startHttpHost(t);
    for (const type of ['application/json', 'text/plain', 'rubbish', ';;;', 'a/b; c="', '']) {
      const answer = await send(origin, 'POST', '/call-json/counter/get', {
        body: '[]',
        headers: { 'content-type': type },
      });
      assert.equal(answer.status, 200, type);
    }
  });

  test('a JSON call answers with JSON; an empty body is an empty list of arguments', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/call-json/counter/echo', { body: '["ü", 1]' });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
    assert.deepEqual(answer.json(), ['ü', 1]);
    assert.deepEqual((await send(origin, 'POST', '/call-json/counter/echo')).json(), []);
    assert.deepEqual((await send(origin, 'POST', '/query-json/counter/get?lossless=1', { body: '[]' })).json(), [0]);
  });

  test('bad arguments are 400 with the place, and the method does not run', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    for (const body of ['{', '{}', '5', '\u0000']) {
      const answer = await send(origin, 'POST', '/call-json/counter/inc', { body });
      assert.equal(answer.status, 400, body);
      assert.match((answer.json() as { message: string }).message, /^args: expected/);
      assert.equal((answer.json() as { code: number }).code, 400);
    }
    assert.equal(canisters.resolve('counter').count, 0);
  });

  test('outcomes become the statuses of the contract', async (t) => {
    const { origin } = await startHttpHost(t);
    const expected = [
      ['boom', 400, 5, 'canister trapped: boom'],
      ['limit', 400, 5, 'instruction limit of 10 passed'],
      ['reject', 400, 4, 'no, thanks ✗'],
      ['silent', 500, 5, 'did not reply'],
      ['dry', 402, 402, 'out of cycles'],
      ['gone', 503, 503, "the actor's thread has stopped"],
      ['nowhere', 404, 404, undefined],
    ] as const;
    for (const [method, status, code, message] of expected) {
      for (const prefix of ['call', 'call-json']) {
        const answer = await send(origin, 'POST', `/${prefix}/counter/${method}`, { body: '[]' });
        assert.equal(answer.status, status, `${prefix} ${method}`);
        assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
        const error = answer.json() as { code: number; message: string };
        assert.deepEqual(Object.keys(error), ['code', 'message']);
        assert.equal(error.code, code);
        if (message !== undefined) assert.equal(error.message, message);
        assert.equal(answer.headers['retry-after'], status === 503 ? '1' : undefined);
      }
    }
  });

  test('an update method at a query endpoint is 400', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    for (const prefix of ['query', 'query-json']) {
      const answer = await send(origin, 'POST', `/${prefix}/counter/inc`, { body: '[]' });
      assert.equal(answer.status, 400);
      assert.equal((answer.json() as { code: number }).code, 400);
    }
    assert.equal(canisters.resolve('counter').count, 0);
  });

  test('no such actor is 404', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/call-json/nobody/inc', { body: '[]' });
    assert.equal(answer.status, 404);
    assert.deepEqual(answer.json(), { code: 404, message: 'no such actor: nobody' });
  });

  test('a reply that does not fit the interface is the fault of the actor: 400, code 5', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/query-json/counter/garbage', { body: '[]' });
    assert.equal(answer.status, 400);
    assert.deepEqual(answer.json(), {
      code: 5,
      message: 'the reply of counter.garbage does not fit its interface: args: expected JSON',
    });
    assert.equal((await send(origin, 'POST', '/query/counter/garbage')).text, 'not JSON at all');
  });

  test('without an interface JSON needs the lossless form', async (t) => {
    const { origin } = await startHttpHost(t);
    const plain = await send(origin, 'POST', '/call-json/bare/echo', { body: '[1]' });
    assert.equal(plain.status, 400);
    assert.match(plain.text, /bare has no Candid interface: use \?lossless=1/);
    assert.equal((await send(origin, 'POST', '/call-json/bare/echo?lossless=1', { body: '[1]' })).text, '[1]');
    const undescribed = await send(origin, 'POST', '/query-json/counter/hidden', { body: '[]' });
    assert.equal(undescribed.status, 400);
    assert.match(undescribed.text, /does not describe method/);
    assert.equal((await send(origin, 'POST', '/query-json/counter/hidden?lossless=1')).text, '["hidden"]');
    assert.equal((await send(origin, 'POST', '/query-json/bare/nowhere?lossless=1')).status, 404);
  });

  test('an unexpected failure is 500 without its cause, which the log has', async (t) => {
    const { origin, log } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/call/counter/crash');
    assert.equal(answer.status, 500);
    assert.equal((answer.json() as { code: number }).code, 500);
    assert.doesNotMatch(answer.text, /secret cause/);
    assert.match(log.errors.join('\n'), /secret cause/);
  });
});

suite('large JSON', () => {
  test('arguments and results above 256 KiB are converted, and refused, as small ones are', async (t) => {
    const pool = new CodecPool();
    t.after(() => pool.close());
    const codec = createCodec(pool);
    const { origin, canisters } = await startHttpHost(t);
    canisters.resolve('counter').candid = codec.parseInterface('service : { echo : (text) -> (text) }');
    for (const length of [10, 300_000, 2_000_000]) {
      const text = 'ü'.repeat(length / 2);
      const answer = await send(origin, 'POST', '/call-json/counter/echo', { body: JSON.stringify([text]) });
      assert.equal(answer.status, 200);
      assert.deepEqual(answer.json(), [text]);
      const refused = await send(origin, 'POST', '/call-json/counter/echo', { body: `["${'x'.repeat(length)}", 1]` });
      assert.equal(refused.status, 400);
      assert.match((refused.json() as { message: string }).message, /args/);
    }
  });

  test('while a large body is converted, others are answered', async (t) => {
    const pool = new CodecPool();
    t.after(() => pool.close());
    const codec = createCodec(pool);
    const { origin, canisters } = await startHttpHost(t);
    canisters.resolve('counter').candid = codec.parseInterface('service : { echo : (vec nat) -> (vec nat) }');
    const body = JSON.stringify([Array.from({ length: 400_000 }, (_unused, index) => index)]);
    const large = { isDone: false };
    const answer = send(origin, 'POST', '/call-json/counter/echo', { body }).finally(() => {
      large.isDone = true;
    });
    let answeredMeanwhile = 0;
    while (!large.isDone) {
      assert.equal((await send(origin, 'GET', '/health')).text, 'ok');
      answeredMeanwhile++;
    }
    assert.equal((await answer).text, body);
    assert.ok(answeredMeanwhile >= 5, `${answeredMeanwhile} answers meanwhile`);
  });
});

suite('x-caller', () => {
  const callerOf = async (origin: string, caller: string) =>
    send(origin, 'POST', '/query-json/counter/whoami', { body: '[]', headers: { 'x-caller': caller } });

  test('without it the caller is anonymous', async (t) => {
    const { origin } = await startHttpHost(t);
    assert.deepEqual((await send(origin, 'POST', '/query-json/counter/whoami')).json(), ['04']);
  });

  test('a principal becomes the caller, each time', async (t) => {
    const { origin } = await startHttpHost(t);
    const principals = [
      ['2vxsx-fae', '04'],
      ['aaaaa-aa', ''],
      ['bkyz2-fmaaa-aaaaa-qaaaq-cai', '80000000001000010101'],
      ['rrkah-fqaaa-aaaaa-aaaaq-cai', '00000000000000010101'],
    ] as const;
    for (let round = 0; round < 2; round++) {
      for (const [text, hex] of principals) assert.deepEqual((await callerOf(origin, text)).json(), [hex], text);
    }
  });

  test('anything else is 400 that names the header', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const garbage = [
      '2vxsx-faa',
      '2vxsxfae',
      '2vxsx-fae-',
      '-2vxsx-fae',
      '2vxsx--fae',
      'aaaaa',
      'x',
      '04',
      'rrkah-fqaaa-aaaaa-aaaaq-caj',
      '2vxsx-fae, 2vxsx-fae',
      'ü2vxsx-fae',
      'a'.repeat(5000),
      '2vxsx-f8e',
      '0x04',
    ];
    for (const text of [...garbage, '']) {
      const answer = await callerOf(origin, Buffer.from(text).toString('latin1'));
      assert.equal(answer.status, 400, text);
      assert.match((answer.json() as { message: string }).message, /x-caller/);
    }
    const refused = await send(origin, 'POST', '/call/counter/inc', { headers: { 'x-caller': 'garbage' } });
    assert.equal(refused.status, 400);
    assert.equal(canisters.resolve('counter').count, 0);
  });

  test('more callers than are remembered are still told apart', () => {
    const claims = new CallerClaims();
    const principals = Array.from({ length: 10_000 }, (_unused, index) =>
      Uint8Array.of(index >> 8, index & 0xff, 7, 1),
    );
    for (let round = 0; round < 2; round++) {
      for (const bytes of principals) assert.deepEqual(claims.callerOf(principalToText(bytes)), bytes);
    }
    assert.deepEqual(claims.callerOf('2vxsx-fae'), Uint8Array.of(4));
  });
});

suite('job events', () => {
  test('each piece of work is logged with fields that are all strings', async (t) => {
    const { origin, log } = await startHttpHost(t);
    const id = '80000000001000010101';
    await send(origin, 'POST', '/call/counter/inc');
    await send(origin, 'POST', '/query-json/counter/get');
    await send(origin, 'POST', '/call-json/counter/boom');
    await send(origin, 'POST', '/call/nobody/inc');
    await send(origin, 'GET', '/actors');
    await send(origin, 'GET', '/inspect');
    await send(origin, 'GET', '/logs/counter');
    await send(origin, 'GET', '/cycles/counter');
    await send(origin, 'POST', '/cycles/counter', { body: '1' });
    await send(origin, 'POST', '/install/fresh', { body: 'wasm' });
    await send(origin, 'GET', '/health');
    await send(origin, 'GET', '/nowhere');
    const seen = log.events.map(({ event, fields: { ms, ...fields } }) => {
      assert.equal(event, 'job');
      assert.match(String(ms), /^\d+\.\d+$/);
      return Object.values(fields).join('|');
    });
    assert.deepEqual(seen, [
      `call|${id}|inc|true`,
      `query|${id}|get|true`,
      `call|${id}|boom|false`,
      'call|||false',
      'list|||true',
      'inspect|||true',
      `logs|${id}||true`,
      `cycles|${id}||true`,
      `topup|${id}||true`,
      'install|80000000001000030101||true',
    ]);
    assert.deepEqual(Object.keys(log.events[0]?.fields ?? {}), ['kind', 'actor', 'method', 'ok', 'ms']);
  });
});
