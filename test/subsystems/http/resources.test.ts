import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { send } from '../../support/http-client.ts';
import { prefersJson } from '../../../subsystems/http/routes/logs.ts';
import { startHttpHost } from './counter-host.ts';

suite('resources', () => {
  test('/actors lists names and ids', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'GET', '/actors');
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
    assert.deepEqual(answer.json(), [
      { name: 'counter', id: '80000000001000010101' },
      { name: 'bare', id: '80000000001000020101' },
    ]);
  });

  test('/version names version, build and engine', async (t) => {
    const { origin } = await startHttpHost(t);
    const { node, v8 } = process.versions;
    assert.deepEqual((await send(origin, 'GET', '/version')).json(), { version: '9.8.7', build: 'abc123', node, v8 });
  });

  test('/install hands over module, argument and caller and answers with the id as text', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/install/fresh?arg=0x4449444C0000', {
      body: Uint8Array.of(0, 0x61, 0x73, 0x6d),
      headers: { 'x-caller': 'aaaaa-aa' },
    });
    assert.equal(answer.status, 200);
    assert.equal(answer.text, '80000000001000030101');
    assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
    const [installed] = canisters.installed;
    assert.equal(installed?.bytes, 4);
    assert.deepEqual(installed.options.argument, Buffer.from('4449444c0000', 'hex'));
    assert.equal(installed.options.caller.length, 0);
  });

  test('/install without ?arg gives no argument and the anonymous caller', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    await send(origin, 'POST', '/install/fresh', { body: 'x' });
    assert.equal(canisters.installed[0]?.options.argument, undefined);
    assert.deepEqual(canisters.installed[0]?.options.caller, Uint8Array.of(4));
  });

  test('/install refuses bad arguments, an empty body and a taken name with 400', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    for (const argument of ['', '44', '0x4', '0xzz', '0x44%20', 'x44']) {
      const answer = await send(origin, 'POST', `/install/fresh?arg=${argument}`, { body: 'x' });
      assert.equal(answer.status, 400, argument);
      assert.match((answer.json() as { message: string }).message, /arg: expected 0x/);
    }
    assert.match((await send(origin, 'POST', '/install/fresh')).text, /the body is empty/);
    const taken = await send(origin, 'POST', '/install/counter', { body: 'x' });
    assert.equal(taken.status, 400);
    assert.match(taken.text, /is already installed/);
    assert.equal(canisters.installed.length, 0);
  });

  test('a failed init answers with its outcome and what it printed', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/install/trapping', { body: 'x' });
    assert.equal(answer.status, 400);
    assert.deepEqual(answer.json(), { code: 5, message: 'init trapped', logs: ['line 1', 'line 2'] });
  });

  test('/cycles reads and adds as decimal text', async (t) => {
    const { origin } = await startHttpHost(t);
    const balance = await send(origin, 'GET', '/cycles/counter');
    assert.equal(balance.text, '100000000000000000000');
    assert.equal(balance.headers['content-type'], 'text/plain; charset=utf-8');
    assert.equal((await send(origin, 'POST', '/cycles/counter', { body: '5\n' })).text, '100000000000000000005');
    assert.equal((await send(origin, 'GET', '/cycles/80000000001000010101')).text, '100000000000000000005');
    assert.equal((await send(origin, 'GET', '/cycles/nobody')).status, 404);
  });

  test('/cycles refuses what is not a decimal amount', async (t) => {
    const { origin } = await startHttpHost(t);
    const amounts = ['', '-1', '+1', '1.5', '1e3', '0x10', '1 2', 'ten', '١', String(2n ** 128n), '1'.repeat(1000)];
    for (const body of amounts) {
      const answer = await send(origin, 'POST', '/cycles/counter', { body });
      assert.equal(answer.status, 400, body);
      assert.match((answer.json() as { message: string }).message, /decimal text below 2\^128/);
    }
    assert.equal((await send(origin, 'GET', '/cycles/counter')).text, '100000000000000000000');
  });

  test('/logs gives each line once, as text or as JSON', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const counter = canisters.resolve('counter');
    const print = (): void => {
      counter.print('first', Date.UTC(2026, 0, 2, 3, 4, 5, 678));
      counter.print('zweite ü', Date.UTC(2026, 0, 2, 3, 4, 6));
    };
    print();
    const text = await send(origin, 'GET', '/logs/counter');
    assert.equal(text.text, 'first\nzweite ü\n');
    assert.equal(text.headers['content-type'], 'text/plain; charset=utf-8');
    assert.equal((await send(origin, 'GET', '/logs/counter')).text, '');
    print();
    const json = await send(origin, 'GET', '/logs/counter', { headers: { accept: 'application/json' } });
    assert.equal(json.headers['content-type'], 'application/json; charset=utf-8');
    assert.deepEqual(json.json(), [
      { seq: 3, time: '2026-01-02T03:04:05.678Z', text: 'first' },
      { seq: 4, time: '2026-01-02T03:04:06.000Z', text: 'zweite ü' },
    ]);
  });

  test('Accept is weighed', () => {
    for (const accept of [
      'application/json',
      'APPLICATION/JSON',
      'text/html, application/json;q=0.1',
      'application/json, text/plain',
    ]) {
      assert.equal(prefersJson(accept), true, accept);
    }
    for (const accept of [
      undefined,
      '',
      '*/*',
      'text/plain, application/json',
      'application/json;q=0',
      'application/json;q=0.5, text/plain',
      'application/jsonx',
    ]) {
      assert.equal(prefersJson(accept), false, String(accept));
    }
  });

  test('/inspect shows every actor', async (t) => {
    const { origin } = await startHttpHost(t);
    const items = (await send(origin, 'GET', '/inspect')).json() as { methods: unknown[]; [key: string]: unknown }[];
    assert.equal(items.length, 2);
    const [first, second] = items;
    assert.deepEqual(Object.keys(first ?? {}), [
      'id',
      'principal',
      'name',
      'status',
      'live',
      'cycles',
      'heapBytes',
      'stableBytes',
      'messages',
      'traps',
      'queued',
      'moduleHash',
      'methods',
      'candid',
      'candidProblem',
      'idleMs',
    ]);
    assert.equal(first?.['cycles'], '100000000000000000000');
    assert.deepEqual(first?.methods[0], { name: 'inc', kind: 'update' });
    assert.equal(first?.['candid'], 'service : { inc : () -> (nat) }');
    assert.equal(second?.['candid'], null);
    assert.ok(Number.isInteger(first?.['idleMs']) && Number(first?.['idleMs']) >= 0);
  });
});
