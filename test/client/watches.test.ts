/**
 * Live queries of `svc/client`: one stream for all, none told twice or lost, over kills, cut streams, and servers that
 * are none.
 */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { before, suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type ClientOptions, type SvcError, type WatchListener } from '../../client/index.ts';
import { startCuttingProxy } from '../support/cutting-proxy.ts';
import { freePort } from '../support/free-port.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { sendEndlessly, startOtherServer } from '../support/other-server.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const CELLS = `
import Array "mo:core/Array";
import VarArray "mo:core/VarArray";
import Principal "mo:core/Principal";
persistent actor {
  let cells = VarArray.repeat<Nat>(0, 400);
  var fails = false;
  public func set(at : Nat, value : Nat) : async () { cells[at] := value };
  public func fail(now : Bool) : async () { fails := now };
  public query func get(at : Nat) : async Nat { cells[at] };
  public query func careful() : async Nat { assert not fails; cells[0] };
  public query func text(at : Nat, note : Text) : async (Nat, Text) { (cells[at], note) };
  public shared query ({ caller }) func whoami() : async Principal { caller };
};`;

let wasm: Uint8Array;
before(async () => {
  ({ wasm } = await compileMotoko(CELLS));
});

const TOKEN = 'a-token-of-a-test';
const AUTHORIZATION = { authorization: `Bearer ${TOKEN}` };

async function startCells(t: TestContext, args: readonly string[] = []): Promise<InProcessServer> {
  const server = await startInProcess(t, { args });
  assert.equal((await server.post('/install/cells', wasm, AUTHORIZATION)).status, 200);
  return server;
}

/** Waits until something holds; fails with what it is instead. */
async function until(holds: () => boolean | Promise<boolean>, told: () => unknown, ms = 20_000): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await holds())) {
    assert.ok(performance.now() < deadline, JSON.stringify(told()));
    await sleep(10);
  }
}

/** Everything that a listener was told: values as they are, the rest by name. */
class Listening implements WatchListener {
  readonly told: unknown[] = [];
  readonly errors: SvcError[] = [];

  value(results: readonly unknown[]): void {
    this.told.push(results);
  }
  error(error: SvcError): void {
    this.told.push(error.name);
    this.errors.push(error);
  }
  online(isOnline: boolean, error?: SvcError): void {
    this.told.push(isOnline ? 'online' : `offline: ${error?.name}`);
  }
  upgrade(hash: string | null): void {
    this.told.push(`upgrade ${hash?.length}`);
  }
  end(error: SvcError): void {
    this.told.push(`end: ${error.name} ${error.code}`);
    this.errors.push(error);
  }
  tells(...expected: readonly unknown[]): Promise<void> {
    return until(
      () => this.told.length >= expected.length,
      () => this.told,
    ).then(() => assert.deepEqual(this.told, expected));
  }
  get values(): readonly unknown[] {
    return this.told.filter((each) => Array.isArray(each));
  }
}

/** Returns a client whose live queries end with the test. */
function clientOf(t: TestContext, options: ClientOptions): Client {
  const client = new Client(options);
  t.after(() => client.close());
  return client;
}

async function streamsOf(server: Pick<InProcessServer, 'get'>): Promise<number> {
  const { body } = await server.get('/metrics', AUTHORIZATION);
  return Number(/^svc_http_event_streams (\d+)$/m.exec(body)?.[1]);
}

suite('a real server', () => {
  test('all queries of a client share one stream, whenever they come and go', async (t) => {
    const server = await startCells(t);
    const client = clientOf(t, { url: server.origin });
    const all = Array.from({ length: 40 }, () => new Listening());
    const watches = all.slice(0, 20).map((listening, at) => client.watch('cells', 'get', [at], listening));
    await Promise.all(all.slice(0, 20).map((listening) => listening.tells([0])));
    assert.equal(await streamsOf(server), 1);
    // The others come one by one, while values change.
    for (const [at, listening] of all.entries()) {
      if (at >= 20) watches.push(client.watch('cells', 'get', [at], listening));
      await client.call('cells', 'set', [at, at + 1]);
      if (at % 8 === 0) await sleep(15);
    }
    await until(
      () => all.every(({ values }, at) => JSON.stringify(values.at(-1)) === `[${at + 1}]`),
      () => all.map(({ told }) => told),
    );
    for (const [at, { told }] of all.entries()) {
      assert.deepEqual(
        told.filter((value, place) => JSON.stringify(value) !== JSON.stringify(told[place + 1])),
        told,
      );
      assert.ok(told.length <= 2, `${at}: ${JSON.stringify(told)}`);
    }
    assert.equal(await streamsOf(server), 1);
    for (const watch of watches.slice(1)) watch.close();
    await client.call('cells', 'set', [0, 100]);
    await client.call('cells', 'set', [1, 100]);
    await until(
      () => JSON.stringify(all[0]?.values.at(-1)) === '[100]',
      () => all[0]?.told,
    );
    assert.deepEqual(all[1]?.values.at(-1), [2]);
    watches[0]?.close();
    await until(
      async () => (await streamsOf(server)) === 0,
      () => 'a stream is left',
    );
  });

  test('one who comes later is told at once; the same query is asked once', async (t) => {
    const server = await startCells(t);
    const client = clientOf(t, { url: server.origin });
    const [first, second, third] = [new Listening(), new Listening(), new Listening()];
    const watch = client.watch('cells', 'get', [1], first);
    await first.tells([0]);
    client.watch('cells', 'get', [1], second);
    await second.tells([0]);
    watch.close();
    await client.call('cells', 'set', [1, 5]);
    await second.tells([0], [5]);
    const control = new AbortController();
    client.watch('cells', 'get', [1], third, { signal: control.signal });
    await third.tells([5]);
    control.abort();
    await client.call('cells', 'set', [1, 6]);
    await second.tells([0], [5], [6]);
    assert.deepEqual([first.told, third.told], [[[0]], [[5]]]);
    second.told.length = 0;
    const gone = new Listening();
    client.watch('cells', 'get', [1], gone, { signal: AbortSignal.abort() });
    await sleep(50);
    assert.deepEqual(gone.told, []);
    assert.equal(await streamsOf(server), 1);
    client.watch('cells', 'text', [1, 'a'.repeat(100)], (results: readonly unknown[]) => second.value(results));
    await second.tells([6, 'a'.repeat(100)]);
  });

  test('an error, and an end, of one are told to it alone', async (t) => {
    const server = await startCells(t);
    const client = clientOf(t, { url: server.origin });
    const careful = new Listening();
    const other = new Listening();
    const ends = [
      ['cells', 'gett', [], 'end: NotFoundError 404'],
      ['nobody', 'get', [1], 'end: NotFoundError 404'],
      ['cells', 'set', [1, 1], 'end: BadArgumentError 400'],
      ['cells', 'get', ['x'], 'end: BadArgumentError 400'],
      ['\u{10ffff}"\n', 'get', [], 'end: NotFoundError 404'],
      ['cells', 'text', [1, '\ud800'], 'end: BadArgumentError 400'],
      ['cells', 'text', [1, 'x'.repeat(210_000)], 'end: BadArgumentError 400'],
    ] as const;
    client.watch('cells', 'careful', [], careful);
    client.watch('cells', 'get', [1], other);
    for (const [actor, method, args, end] of ends) {
      const listening = new Listening();
      client.watch(actor, method, args, listening);
      await listening.tells(end);
      assert.deepEqual([listening.errors[0]?.actor, listening.errors[0]?.method], [actor, method]);
    }
    assert.throws(() => client.watch('cells', 'get', [1n], other), /BigInt/);
    await careful.tells([0]);
    await client.call('cells', 'fail', [true]);
    await careful.tells([0], 'TrapError');
    assert.match(careful.errors[0]?.message ?? '', /assertion failed/);
    // The stream is opened anew, and the trap is not told again; nor is the value lost that was there before it.
    const third = new Listening();
    client.watch('cells', 'get', [2], third);
    await third.tells([0]);
    await client.call('cells', 'fail', [false]);
    await careful.tells([0], 'TrapError', [0]);
    await server.post('/upgrade/cells', wasm);
    await other.tells([0], 'upgrade 64');
    await server.post('/stop/cells');
    await server.post('/upgrade/cells?force=true', wasm);
    assert.equal((await server.fetch('/actors/cells?force=true', { method: 'DELETE' })).status, 200);
    await until(
      () => other.told.at(-1) === 'end: NotFoundError 404',
      () => other.told,
    );
    assert.deepEqual(other.values, [[0]]);
  });

  test('callers, encodings and tokens have streams of their own', async (t) => {
    const server = await startCells(t, ['--auth-token', TOKEN]);
    const client = clientOf(t, { url: server.origin, token: TOKEN });
    const [own, other, lossless, wrong] = [new Listening(), new Listening(), new Listening(), new Listening()];
    client.watch('cells', 'whoami', [], own);
    client.watch('cells', 'whoami', [], other, { caller: 'aaaaa-aa' });
    client.watch('cells', 'whoami', [], lossless, { lossless: true });
    clientOf(t, { url: server.origin, token: 'x' }).watch('cells', 'whoami', [], wrong);
    await own.tells(['2vxsx-fae']);
    await other.tells(['aaaaa-aa']);
    await lossless.tells([{ $svc: 'principal', value: '2vxsx-fae' }]);
    await wrong.tells('end: UnauthorizedError 401');
    assert.equal(await streamsOf(server), 3);
    // A token that is renewed when the server refuses the one before.
    const tokens = ['old'];
    const renewed = new Listening();
    clientOf(t, { url: server.origin, token: () => tokens.shift() ?? TOKEN }).watch('cells', 'get', [1], renewed);
    await renewed.tells([0]);
    const failing = new Listening();
    clientOf(t, { url: server.origin, token: () => Promise.reject(new Error('no session')) }).watch(
      'cells',
      'get',
      [1],
      failing,
    );
    await failing.tells('end: UnauthorizedError 0');
  });

  test('more than a hundred queries take a second stream, and more than 300 are refused', async (t) => {
    const server = await startCells(t);
    const client = clientOf(t, { url: server.origin });
    const all = Array.from({ length: 301 }, () => new Listening());
    for (const [at, listening] of all.entries()) client.watch('cells', 'get', [at], listening);
    await until(
      () => all.every(({ told }) => told.length === 1),
      () => all.map(({ told }) => told),
    );
    assert.equal(await streamsOf(server), 3);
    assert.deepEqual(all.at(-1)?.told, ['end: BadArgumentError 400']);
    assert.match(all.at(-1)?.errors[0]?.message ?? '', /too many queries at once: .*300/);
    assert.ok(all.slice(0, 300).every(({ values }) => values.length === 1));
  });
});

suite('what is between the client and the server', () => {
  test('kills and restarts: told what is new, and nothing twice', { timeout: 240_000 }, async (t) => {
    const port = await freePort();
    const state = await temporaryDirectory();
    const start = () => startServer(t, { manifest: '{"actors":{}}', port, args: ['--state', state] });
    let server = await start();
    assert.equal((await server.post('/install/cells', new Uint8Array(wasm))).status, 200);
    const client = clientOf(t, { url: server.origin, tries: 100 });
    const all = [new Listening(), new Listening(), new Listening()];
    for (const [at, listening] of all.entries()) client.watch('cells', 'get', [at], listening);
    await Promise.all(all.map((listening) => listening.tells([0])));
    for (let kills = 1; kills <= 2; kills++) {
      await server.kill();
      const change = client.call('cells', 'set', [0, kills]);
      await sleep(1500);
      server = await start();
      await change;
      await until(
        () => all.every(({ told }, at) => told.includes('online') || at > 3) && all[0]?.values.length === kills + 1,
        () => all.map(({ told }) => told),
      );
    }
    assert.equal(await server.stop(), 0);
    server = await start();
    await client.call('cells', 'set', [0, 9]);
    await until(
      () => all[0]?.values.length === 4,
      () => all[0]?.told,
    );
    assert.deepEqual(
      all.map(({ values }) => values),
      [[[0], [1], [2], [9]], [[0]], [[0]]],
    );
    for (const { told } of all) {
      const states = told.filter((each) => typeof each === 'string');
      assert.ok(states.length >= 2);
      // Offline and online by turns.
      assert.deepEqual(
        states.map((each) => each.slice(0, 2)),
        states.map((_, at) => (at % 2 === 0 ? 'of' : 'on')),
      );
    }
  });

  test('streams that are cut anywhere: in the end each has the newest answer, none twice in a row', async (t) => {
    const server = await startCells(t);
    const proxy = await startCuttingProxy(t, Number(new URL(server.origin).port));
    const watching = clientOf(t, { url: proxy.origin });
    const calling = clientOf(t, { url: server.origin });
    const all = Array.from({ length: 12 }, () => new Listening());
    let seed = 7;
    // From within the head of the answer to behind some events.
    proxy.cutBehind(() => 1 + ((seed = (seed * 48_271) % 2_147_483_647) % 1500));
    for (const [at, listening] of all.entries()) watching.watch('cells', 'text', [at, 'é\\n"'], listening);
    for (let value = 1; value <= 120; value++) {
      await calling.call('cells', 'set', [value % 12, value]);
      await sleep(30);
      if (value % 10 === 0) proxy.cutAll();
    }
    proxy.cutBehind(undefined);
    proxy.cutAll();
    await until(
      () =>
        all.every(
          ({ values }, at) => JSON.stringify(values.at(-1)) === JSON.stringify([at === 0 ? 120 : 108 + at, 'é\\n"']),
        ),
      () => all.map(({ told }) => told),
    );
    assert.ok(proxy.connections > 6, `${proxy.connections} connections`);
    for (const { values } of all) {
      const numbers = values.map((value) => (value as readonly number[])[0] ?? -1);
      assert.deepEqual(
        numbers,
        [...new Set(numbers)].toSorted((one, other) => one - other),
      );
    }
  });

  test('answers of /watch that are none: told as offline, asked again with pauses, and taken when they are right', async (t) => {
    const right = (response: ServerResponse): void => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('id: q1:00\ndata: [7]\n\n');
    };
    const stream = (text: string) => (response: ServerResponse) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      sendEndlessly(response, text);
    };
    const wrong: Readonly<Record<string, (response: ServerResponse) => void>> = {
      html: (response) => void response.end('<html>welcome</html>'),
      closed: (response) => void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
      broken: (response) => void response.writeHead(502, { 'retry-after': '0' }).end('<html>'),
      failing: (response) => void response.writeHead(500).end(),
      line: stream('data: x'),
      lines: stream('data:\n'),
      names: stream('id: '.repeat(100)),
      moved: (response) => void response.writeHead(307, { location: '/elsewhere' }).end(),
      cut: (response) => void response.socket?.destroy(),
    };
    for (const [name, answer] of Object.entries(wrong)) {
      const { origin, requests } = await startOtherServer(t, (response, _request, at) =>
        (at <= 3 ? answer : right)(response),
      );
      const client = clientOf(t, { url: origin, maxBytes: 300_000 });
      const listening = new Listening();
      const watch = client.watch('a', 'b', [], listening);
      await until(
        () => listening.values.length > 0,
        () => [name, listening.told],
      );
      watch.close();
      assert.ok(listening.told.length % 2 === 1, `${name}: ${JSON.stringify(listening.told)}`);
      assert.match(String(listening.told[0]), /^offline: (Network|Answer|Unavailable|Svc)Error$/, name);
      assert.deepEqual(listening.told.slice(-2), ['online', [7]], name);
      assert.equal(requests.length, 4);
    }
  });

  test('events that are none: unknown ids, data that is no JSON, floods; nothing is kept of them', async (t) => {
    let flood = 0;
    const { origin } = await startOtherServer(t, (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(
        ': hello\r\n\r\nid: q9:aa\rdata: [1]\r\rdata: [2]\n\nid: q1:bb\ndata: {no\n\nid: q1:cc\ndata: "x"\n\n',
      );
      response.write('id: q1\nevent: upgrade\ndata: junk\n\nid: q1:dd\nevent: trap\ndata: what\n\nretry: 1\nodd\n\n');
      const more = (): void => {
        while (flood++ < 30 && response.write('id: q9:aa\ndata: [1]\n\n'.repeat(10_000)));
        if (flood < 30) response.once('drain', more);
        else
          response.write(
            'id: q1:ee\ndata: [1,\ndata: 2]\n\nid: q1\nevent: end\ndata: {"code":404,"message":"gone"}\n\n',
          );
      };
      more();
    });
    const listening = new Listening();
    clientOf(t, { url: origin }).watch('a', 'b', [], listening);
    await listening.tells(
      'AnswerError',
      'AnswerError',
      'upgrade undefined',
      'BadArgumentError',
      [1, 2],
      'end: NotFoundError 404',
    );
  });

  test('a server that starts answers 401 before it knows what is open: nobody is ended', async (t) => {
    let asked = 0;
    const { origin } = await startOtherServer(t, (response, { url = '' }) => {
      if (url === '/health/ready') response.writeHead(++asked < 3 ? 503 : 200).end();
      else if (asked < 3) response.writeHead(401).end('missing or wrong bearer token');
      else {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('id: q1:00\ndata: [7]\n\n');
      }
    });
    const listening = new Listening();
    clientOf(t, { url: origin }).watch('a', 'b', [], listening);
    await until(
      () => listening.values.length > 0,
      () => listening.told,
    );
    assert.deepEqual(listening.values, [[7]]);
    assert.ok(!listening.told.some((each) => String(each).startsWith('end')), JSON.stringify(listening.told));
  });

  test('a query that the server cannot ask now is told as such, and its value comes even if it is the one before', async (t) => {
    const named: (string | undefined)[] = [];
    const { origin } = await startOtherServer(t, (response, { headers }, at) => {
      named.push(headers['last-event-id'] as string | undefined);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      if (at === 1) response.end('id: q1:00\ndata: [7]\n\n');
      else response.write('id: q1\nevent: unavailable\ndata: {"code":503,"message":"asleep"}\n\n');
      // As the server does: what the client named is not told.
      if (at === 3) response.write('id: q1:00\ndata: [7]\n\n');
    });
    const listening = new Listening();
    clientOf(t, { url: origin }).watch('a', 'b', [], listening);
    await until(
      () => listening.values.length === 2,
      () => listening.told,
    );
    assert.deepEqual(named, [undefined, 'q1:00', undefined]);
    assert.deepEqual(listening.told, [[7], 'UnavailableError', 'UnavailableError', [7]]);
  });

  test('a query that goes is not asked for any more, while the others are', async (t) => {
    const lists: string[] = [];
    const { origin } = await startOtherServer(t, (response, request) => {
      let body = '';
      request.on('data', (chunk) => (body += String(chunk)));
      request.on('end', () => lists.push(body));
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('id: q1:00\ndata: [7]\n\nid: q2:00\ndata: [8]\n\n');
    });
    const client = clientOf(t, { url: origin });
    const [stays, goes] = [new Listening(), new Listening()];
    client.watch('a', 'stays', [], stays);
    const watch = client.watch('a', 'goes', [], goes);
    await goes.tells([8]);
    watch.close();
    await until(
      () => lists.length === 2,
      () => lists,
      5000,
    );
    assert.deepEqual(
      lists.map((list) => [list.includes('stays'), list.includes('goes')]),
      [
        [true, true],
        [true, false],
      ],
    );
    assert.deepEqual(stays.told, [[7]]);
  });

  test('an answer too large to be kept is told again for who comes later, and not to who has it', async (t) => {
    const data = `["${'x'.repeat(34 * 1024 * 1024)}"]`;
    const { origin, requests } = await startOtherServer(t, (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`id: q1:00\ndata: ${data}\n\n`);
    });
    const client = clientOf(t, { url: origin });
    const [first, second] = [new Listening(), new Listening()];
    for (const [at, listening] of [first, second].entries()) {
      client.watch('a', 'b', [], listening);
      await until(
        () => listening.told.length > 0,
        () => `viewer ${at} was told nothing`,
      );
    }
    await sleep(100);
    assert.deepEqual([requests.length, requests[1]?.headers['last-event-id']], [2, undefined]);
    assert.deepEqual([first.values.length, second.values.length], [1, 1]);
  });
});
