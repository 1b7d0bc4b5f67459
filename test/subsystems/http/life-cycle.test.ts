import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { send } from '../../support/http-client.ts';
import { startHttpHost, TRAPPING_MODULE, UNFIT_MODULE, UPGRADE_REPORT } from './counter-host.ts';

const COUNTER_ID = '80000000001000010101';
const MODULE = Uint8Array.of(0, 0x61, 0x73, 0x6d);
const messageOf = (answer: { json(): unknown }): string => (answer.json() as { message: string }).message;

suite('upgrading', () => {
  test('/upgrade hands over module, argument and caller and answers `upgraded`', async (t) => {
    const { origin, canisters, log } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/upgrade/counter?arg=0x4449444C0000', {
      body: MODULE,
      headers: { 'x-caller': 'aaaaa-aa' },
    });
    assert.equal(answer.status, 200);
    assert.equal(answer.text, 'upgraded');
    assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8');
    const [upgraded] = canisters.upgraded;
    assert.equal(upgraded?.bytes, 4);
    assert.deepEqual(upgraded.options.argument, Buffer.from('4449444c0000', 'hex'));
    assert.equal(upgraded.options.caller.length, 0);
    const { kind, actor, ok } = log.events.at(-1)?.fields ?? {};
    assert.deepEqual({ kind, actor, ok }, { kind: 'upgrade', actor: COUNTER_ID, ok: 'true' });
  });

  test('an empty body, with or without a length, asks for the recorded module', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    assert.equal((await send(origin, 'POST', `/upgrade/${COUNTER_ID}`)).text, 'upgraded');
    const chunked = await send(origin, 'POST', '/upgrade/counter', { headers: { 'transfer-encoding': 'chunked' } });
    assert.equal(chunked.text, 'upgraded');
    assert.deepEqual(
      canisters.upgraded.map(({ bytes, options }) => ({ bytes, argument: options.argument, caller: options.caller })),
      Array.from({ length: 2 }, () => ({ bytes: undefined, argument: undefined, caller: Uint8Array.of(4) })),
    );
    const refused = await send(origin, 'POST', '/upgrade/bare');
    assert.equal(refused.status, 400);
    assert.deepEqual(refused.json(), { code: 400, message: 'no wasm recorded for that actor' });
  });

  test('a failed hook answers with its outcome and what it printed', async (t) => {
    const { origin, log } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/upgrade/counter', { body: TRAPPING_MODULE });
    assert.equal(answer.status, 400);
    assert.deepEqual(answer.json(), { code: 5, message: 'hook trapped', logs: ['saving'] });
    assert.equal(log.events.at(-1)?.fields['ok'], 'false');
  });

  test('with report=1 the answer is what changed, also with a refusal and a failed hook; force=true is handed over', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const { isUpgraded, module, ...rest } = UPGRADE_REPORT;
    const report = { upgraded: isUpgraded, module: { from: null, to: module.to }, ...rest };
    const ask = (query: string, body: Uint8Array) => send(origin, 'POST', `/upgrade/counter?${query}`, { body });
    const done = await ask('report=1', MODULE);
    assert.deepEqual([done.status, done.json()], [200, { ...report, upgraded: true, instructions: 7 }]);
    assert.equal(done.headers['content-type'], 'application/json; charset=utf-8');
    const refused = await ask('report=1', UNFIT_MODULE);
    assert.deepEqual([refused.status, refused.json()], [400, { ...report, code: 400, message: 'nobody knows' }]);
    const trapped = await ask('report=1', TRAPPING_MODULE);
    assert.deepEqual(trapped.json(), { ...report, code: 5, message: 'hook trapped', logs: ['saving'] });
    const plain = await send(origin, 'POST', '/upgrade/counter', { body: UNFIT_MODULE });
    assert.deepEqual([plain.status, plain.json()], [400, { code: 400, message: 'nobody knows' }]);
    assert.equal((await ask('arg=0x&force=true', UNFIT_MODULE)).text, 'upgraded');
    assert.deepEqual(
      canisters.upgraded.map(({ options }) => options.isForced),
      [false, true],
    );
    for (const query of ['report=0', 'report', 'force=1', 'force=true&force=true'])
      assert.equal((await ask(query, MODULE)).status, 404, query);
  });

  test('bad requests are refused before anything is upgraded', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const refused = [
      ['/upgrade/nobody', 404, {}],
      ['/upgrade/counter?mode=upgrade', 404, {}],
      ['/upgrade/counter?arg=0x1', 400, {}],
      ['/upgrade/counter', 400, { 'x-caller': 'me' }],
    ] as const;
    for (const [target, status, headers] of refused) {
      assert.equal((await send(origin, 'POST', target, { body: MODULE, headers })).status, status, target);
    }
    assert.equal(canisters.upgraded.length, 0);
  });
});

suite('reinstalling', () => {
  test('?mode=reinstall replaces an actor that is there and answers its id', async (t) => {
    const { origin, canisters, log } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/install/counter?mode=reinstall&arg=0x00', {
      body: MODULE,
      headers: { 'x-caller': 'aaaaa-aa' },
    });
    assert.deepEqual([answer.status, answer.text], [200, COUNTER_ID]);
    const [reinstalled] = canisters.reinstalled;
    assert.equal(reinstalled?.name, 'counter');
    const { argument, caller, hasCertificate } = reinstalled.options;
    assert.deepEqual([argument, caller, hasCertificate], [Buffer.of(0), new Uint8Array(0), undefined]);
    assert.equal(canisters.installed.length, 0);
    assert.equal(log.events.at(-1)?.fields['actor'], COUNTER_ID);
  });

  test('it refuses a missing actor, an empty body and other modes', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    assert.equal((await send(origin, 'POST', '/install/nobody?mode=reinstall', { body: MODULE })).status, 404);
    assert.equal((await send(origin, 'POST', '/install/counter?mode=reinstall')).status, 400);
    for (const mode of ['', 'upgrade', 'REINSTALL']) {
      const answer = await send(origin, 'POST', `/install/counter?mode=${mode}`, { body: MODULE });
      assert.equal(answer.status, 404, mode);
      assert.match(messageOf(answer), /expected mode=reinstall/);
    }
    const trapped = await send(origin, 'POST', '/install/counter?mode=reinstall', { body: TRAPPING_MODULE });
    assert.deepEqual(trapped.json(), { code: 5, message: 'hook trapped', logs: ['starting'] });
    assert.equal(canisters.reinstalled.length, 0);
  });
});

suite('stopping, starting, deleting', () => {
  test('each answers with what was done and is logged as a job', async (t) => {
    const { origin, canisters, log } = await startHttpHost(t);
    const answers: string[] = [];
    for (const [method, target] of [
      ['POST', '/stop/counter'],
      ['POST', '/start/counter'],
      ['POST', `/stop/${COUNTER_ID}`],
      ['DELETE', '/actors/counter'],
    ] as const) {
      answers.push((await send(origin, method, target)).text);
    }
    assert.deepEqual(answers, ['stopped', 'started', 'stopped', 'deleted']);
    assert.deepEqual(
      log.events.map(({ fields }) => [fields['kind'], fields['actor'], fields['ok']]),
      ['stop', 'start', 'stop', 'delete'].map((kind) => [kind, COUNTER_ID, 'true']),
    );
    assert.deepEqual(
      canisters.list().map(({ name }) => name),
      ['bare'],
    );
    assert.equal((await send(origin, 'POST', '/stop/counter')).status, 404);
  });

  test('stopping answers only when the actor is stopped; meanwhile it shows as stopping', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    let release = (): void => undefined;
    canisters.resolve('counter').held = new Promise((resolve) => {
      release = resolve;
    });
    let isAnswered = false;
    const stopping = send(origin, 'POST', '/stop/counter').finally(() => {
      isAnswered = true;
    });
    while (canisters.resolve('counter').status !== 'stopping') await new Promise((resolve) => setTimeout(resolve, 5));
    const [shown] = (await send(origin, 'GET', '/inspect')).json() as { status: string }[];
    assert.equal(shown?.status, 'stopping');
    assert.equal(isAnswered, false);
    release();
    assert.equal((await stopping).text, 'stopped');
  });

  test('a running actor is not deleted, and an unknown one or a query is 404', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const refused = await send(origin, 'DELETE', '/actors/counter');
    assert.equal(refused.status, 400);
    assert.match(messageOf(refused), /is running: stop it first/);
    for (const [method, target] of [
      ['POST', '/stop/nobody'],
      ['POST', '/start/nobody'],
      ['DELETE', '/actors/nobody'],
      ['POST', '/stop/counter?now=1'],
      ['DELETE', '/actors/counter?force=1'],
      ['DELETE', '/actors/counter?force=false'],
      ['DELETE', '/actors/counter?force=true&force=true'],
      ['POST', '/stop/counter?force=true'],
      ['DELETE', '/actors/nobody?force=true'],
      ['GET', '/stop/counter'],
      ['DELETE', '/actors'],
    ] as const) {
      assert.equal((await send(origin, method, target)).status, 404, `${method} ${target}`);
    }
    assert.equal(canisters.list().length, 2);
  });

  test('?force=true deletes a running actor, too', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const answer = await send(origin, 'DELETE', '/actors/counter?force=true');
    assert.deepEqual([answer.status, answer.text], [200, 'deleted']);
    assert.deepEqual(
      canisters.list().map(({ name }) => name),
      ['bare'],
    );
  });

  test('a body is read and ignored, so that the connection can be used again', async (t) => {
    const { origin } = await startHttpHost(t);
    const answer = await send(origin, 'POST', '/stop/counter', { body: 'x'.repeat(1_000_000) });
    assert.deepEqual([answer.status, answer.text], [200, 'stopped']);
  });

  test('all of them need the token', async (t) => {
    const { origin, canisters } = await startHttpHost(t, { token: 'secret' });
    for (const [method, target] of [
      ['POST', '/upgrade/counter'],
      ['POST', '/stop/counter'],
      ['POST', '/start/counter'],
      ['DELETE', '/actors/counter'],
    ] as const) {
      assert.equal((await send(origin, method, target)).status, 401, target);
    }
    assert.equal(canisters.upgraded.length, 0);
  });
});
