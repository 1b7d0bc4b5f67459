import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { send } from '../../support/http-client.ts';
import { createMetering } from '../../../subsystems/metering/create-metering.ts';
import { prefersJson } from '../../../subsystems/http/accept.ts';
import { CounterCanister, startHttpHost } from './counter-host.ts';

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
      'dry',
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

  test('an interface is .did text, and for whoever prefers JSON a table of its types; large ones, too', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const asked = (accept: string, actor = 'counter'): ReturnType<typeof send> =>
      send(origin, 'GET', `/candid/${actor}`, { headers: { accept } });
    for (const accept of ['*/*', 'text/plain', 'text/plain, application/json;q=0.5']) {
      const text = await asked(accept);
      assert.deepEqual(
        [text.headers['content-type'], text.text],
        ['text/plain; charset=utf-8', 'service : { inc : () -> (nat) }'],
      );
    }
    const table = await asked('application/json');
    assert.equal(table.headers['content-type'], 'application/json; charset=utf-8');
    assert.deepEqual(table.json(), {
      methods: [{ name: 'inc', kind: 'update', parameters: [], results: [{ type: 0 }] }],
      types: [{ kind: 'nat' }],
    });
    const fields = Array.from({ length: 2_000 }, (_item, at) => `field${at} : nat`).join('; ');
    await canisters.giveInterface(canisters.resolve('bare'), `service : { f : (record { ${fields} }) -> () }`);
    const large = (await asked('application/json', 'bare')).json() as { types: { fields?: unknown[] }[] };
    assert.equal(large.types[0]?.fields?.length, 2_000);
  });

  test('without an interface, or with one that is not understood, there is no table', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    const bare = canisters.resolve('bare');
    const asked = (): ReturnType<typeof send> =>
      send(origin, 'GET', '/candid/bare', { headers: { accept: 'application/json' } });
    assert.deepEqual([(await asked()).status, ((await asked()).json() as { code: number }).code], [404, 404]);
    bare.candidProblem = 'line 1, column 9: expected a service';
    assert.match((await asked()).text, /was not understood \(line 1, column 9/);
  });

  test('/inspect says which actors have too few cycles for a message: none without metering', async (t) => {
    const dryOf = async (isEnabled: boolean): Promise<unknown[]> => {
      const metering = createMetering({ isEnabled, instructionLimit: 1_000, startingCycles: 0n });
      const { origin, canisters } = await startHttpHost(t, { metering });
      const balances = [0n, 589_999n, 590_000n];
      canisters.canisters.length = 0;
      for (const [index, balance] of balances.entries())
        canisters.canisters.push(Object.assign(new CounterCanister(`a${index}`, index + 1), { balance }));
      return ((await send(origin, 'GET', '/inspect')).json() as { dry: unknown }[]).map(({ dry }) => dry);
    };
    assert.deepEqual(await dryOf(true), [true, true, false]);
    assert.deepEqual(await dryOf(false), [false, false, false]);
  });

  test('/inspect gives pages: after an id, so many, with a part of their names', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    for (let number = 3; number <= 20; number++)
      canisters.canisters.push(new CounterCanister(`Shop-${number}`, number));
    const namesOf = async (query: string): Promise<string[]> =>
      ((await send(origin, 'GET', `/inspect?${query}`)).json() as { name: string }[]).map(({ name }) => name);
    const idOf = (number: number): string => `80000000001000${number.toString(16).padStart(2, '0')}0101`;
    assert.deepEqual(await namesOf('limit=2'), ['counter', 'bare']);
    assert.deepEqual(await namesOf(`after=${idOf(2)}&limit=2`), ['Shop-3', 'Shop-4']);
    assert.deepEqual(await namesOf(`limit=2&name=shop-1&after=${idOf(10)}`), ['Shop-11', 'Shop-12']);
    assert.deepEqual(await namesOf('name=SHOP%2D2'), ['Shop-20']);
    assert.deepEqual(await namesOf(`after=${idOf(20)}`), []);
    // Paging goes on behind a deleted actor.
    canisters.canisters.splice(4, 1);
    assert.deepEqual(await namesOf(`after=${idOf(5)}&limit=1`), ['Shop-6']);
    for (const query of ['after=', 'after=counter', 'limit=0', 'limit=-1', 'limit=x', 'limit=1e3', 'name=%ff']) {
      const answer = await send(origin, 'GET', `/inspect?${query}`);
      assert.equal(answer.status, 400, query);
      assert.match(answer.text, /query parameter (after|limit|name): expected/);
    }
    assert.equal((await send(origin, 'GET', '/inspect?size=3')).status, 404);
  });

  test('10,000 actors are told of in slices: others are answered in between', async (t) => {
    const { origin, canisters } = await startHttpHost(t);
    for (let number = 3; number <= 10_000; number++) canisters.canisters.push(new CounterCanister(`a${number}`, 3));
    for (const path of ['/inspect', '/actors']) {
      let turns = 0;
      let isOver = false;
      const count = (): void => {
        turns++;
        if (!isOver) setImmediate(count);
      };
      count();
      const answer = await send(origin, 'GET', path);
      isOver = true;
      assert.equal((answer.json() as unknown[]).length, 10_000);
      assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8');
      assert.ok(turns > 5, `${turns} turns of the event loop while ${path} was answered`);
    }
  });

  test('/history shows each message, with its argument as text where it is Candid, else as hex', async (t) => {
    const { origin, canisters, log } = await startHttpHost(t);
    const entry = {
      seq: 8,
      timeMs: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
      kind: 'update' as const,
      method: 'inc',
      caller: Uint8Array.of(4),
      argument: Buffer.from('1, "a"'),
      argumentBytes: 6,
      outcome: 'reply' as const,
      code: undefined,
      message: undefined,
      stack: undefined,
      instructions: 10,
      cycles: 590_004,
      ms: 1.23456,
      trace: { number: 12, cause: 11, root: 3 },
      reply: Buffer.from('[1]'),
      isReplyCut: true,
    };
    const argument = Buffer.from([0xff, 0]);
    canisters.resolve('counter').history = [
      entry,
      {
        ...entry,
        seq: 9,
        argument,
        argumentBytes: 2,
        outcome: 'outOfCycles',
        code: 2,
        message: 'dry',
        stack: 'inner\nouter',
      },
      { ...entry, seq: 10, argument, argumentBytes: 300, outcome: 'noReply', code: 5, message: 'silent' },
    ];
    const answer = await send(origin, 'GET', '/history/counter');
    const common = { time: '2026-01-02T03:04:05.678Z', kind: 'update', method: 'inc', caller: '2vxsx-fae' };
    const numbers = { instructions: 10, cycles: 590_004, ms: 1.235 };
    const place = { id: 'test-12', cause: 'test-11', root: 'test-3' };
    assert.deepEqual(answer.json(), [
      {
        seq: 8,
        ...place,
        ...common,
        args: '(1, "a")',
        reply: '([1])',
        outcome: 'reply',
        code: null,
        message: null,
        stack: null,
        ...numbers,
      },
      {
        seq: 9,
        ...place,
        ...common,
        args: 'ff00',
        reply: null,
        outcome: 'out_of_cycles',
        code: 2,
        message: 'dry',
        stack: ['inner', 'outer'],
        ...numbers,
      },
      {
        seq: 10,
        ...place,
        ...common,
        args: 'ff00…',
        reply: null,
        outcome: 'reject',
        code: 5,
        message: 'silent',
        stack: null,
        ...numbers,
      },
    ]);
    const job = log.events.at(-1)?.fields;
    assert.deepEqual([job?.['kind'], job?.['actor'], job?.['ok']], ['history', '80000000001000010101', 'true']);
    assert.equal((await send(origin, 'GET', '/history/nobody')).status, 404);
    assert.equal((await send(origin, 'GET', '/history/bare')).text, '[]');
  });
});
