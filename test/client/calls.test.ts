/** Calls and queries of `svc/client` against real servers, proxies that lose answers, and servers that are none. */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { before, suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AbortedError,
  AnswerError,
  BadArgumentError,
  Client,
  NetworkError,
  NotFoundError,
  OutOfCyclesError,
  RejectError,
  SvcError,
  TrapError,
  UnauthorizedError,
  UnavailableError,
} from '../../client/index.ts';
import { startCuttingProxy } from '../support/cutting-proxy.ts';
import { freePort } from '../support/free-port.ts';
import { type InProcessServer, startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { sendEndlessly, startOtherServer } from '../support/other-server.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const BANK = `
import Error "mo:core/Error";
import Principal "mo:core/Principal";
persistent actor {
  var paid : Nat = 0;
  public func pay(amount : Nat, note : ?Text) : async Nat { ignore note; paid += amount; paid };
  public query func total() : async Nat { paid };
  public query func big() : async Nat64 { 18_446_744_073_709_551_615 };
  public query func wave(name : Text) : async Text { "Hello, " # name };
  public shared query ({ caller }) func whoami() : async Principal { caller };
  public func refuse() : async () { throw Error.reject("no, thank you") };
  public func trap() : async () { assert false };
  public func wait() : async () { loop { paid += 1 } };
};`;

interface Bank {
  pay: { kind: 'update'; args: [number | string, (string | null)?]; results: [number | string] };
  total: { kind: 'query'; args: []; results: [number | string] };
  wave: { kind: 'query'; args: [string]; results: [string] };
  refuse: { kind: 'update'; args: []; results: [] };
}

let wasm: Uint8Array;
before(async () => {
  ({ wasm } = await compileMotoko(BANK));
});

const TOKEN = 'a-token-of-a-test';

async function startBank(t: TestContext, args: readonly string[] = []): Promise<InProcessServer> {
  const server = await startInProcess(t, { args });
  const headers = { authorization: `Bearer ${TOKEN}` };
  const installed = await server.post('/install/bank', wasm, headers);
  assert.equal(installed.status, 200, installed.body);
  return server;
}

async function failure(call: Promise<unknown>): Promise<SvcError> {
  const error = await call.then(
    (value) => assert.fail(`answered ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof SvcError, String(error));
  return error;
}

suite('a real server', () => {
  test('results of calls and queries, typed and not, lossless, as Candid, for a caller', async (t) => {
    const { origin } = await startBank(t);
    const client = new Client({ url: `${origin}/` });
    const bank = client.actor<Bank>('bank');
    const [paid] = await bank.call('pay', [5]);
    assert.equal(paid, 5);
    assert.deepEqual(await bank.call('pay', [7, 'for tea']), [12]);
    assert.deepEqual(await bank.query('total'), [12]);
    assert.deepEqual(await client.query<[string]>('bank', 'wave', ['Ä "b" \u2028']), ['Hello, Ä "b" \u2028']);
    assert.deepEqual(await client.query('bank', 'big'), ['18446744073709551615']);
    assert.deepEqual(await client.query('bank', 'big', [], { lossless: true }), [
      { $svc: 'nat64', value: '18446744073709551615' },
    ]);
    assert.deepEqual(await client.query('bank', 'whoami'), ['2vxsx-fae']);
    assert.deepEqual(await client.query('bank', 'whoami', [], { caller: 'aaaaa-aa' }), ['aaaaa-aa']);
    assert.deepEqual(await new Client({ url: origin, caller: 'aaaaa-aa' }).query('bank', 'whoami'), ['aaaaa-aa']);
    const none = Buffer.from('DIDL\0\0');
    assert.deepEqual(Buffer.from(await client.queryCandid('bank', 'total', none)).toString('hex'), '4449444c00017d0c');
    assert.equal((await client.callCandid('bank', 'total', none)).length, 8);
  });

  test('each failure is an error of its class, with code, status, actor and method', async (t) => {
    const { origin } = await startBank(t, ['--auth-token', TOKEN]);
    const client = new Client({ url: origin, token: TOKEN });
    const cases = [
      [RejectError, () => client.call('bank', 'refuse'), 4, 400, /no, thank you/],
      [TrapError, () => client.call('bank', 'trap'), 5, 400, /assertion failed/],
      [BadArgumentError, () => client.call('bank', 'pay', ['x']), 400, 400, /args\[0\]/],
      [BadArgumentError, () => client.query('bank', 'pay', [1]), 400, 400, /update/],
      [BadArgumentError, () => client.call('bank', 'pay', [1], { caller: 'nobody' }), 400, 400, /x-caller/],
      [BadArgumentError, () => client.call('bank', 'pay', [5n]), 400, 0, /args: .*BigInt/],
      [BadArgumentError, () => client.call('..', 'pay', [5]), 400, 0, /".." is no name/],
      [BadArgumentError, () => client.call('bank', '', [5]), 400, 0, /"" is no name/],
      [BadArgumentError, () => client.call('bank', 'pay', [5], { caller: 'a\nb' }), 400, 0, /x-caller/],
      [NotFoundError, () => client.call('bank', 'payy', [1]), 404, 404, /did you mean pay/],
      [NotFoundError, () => client.query('bänk/x', 'pay', [1]), 404, 404, /bänk\/x/],
      [UnauthorizedError, () => new Client({ url: origin }).query('bank', 'total'), 401, 401, /bearer token/],
      [
        UnauthorizedError,
        () => new Client({ url: origin, token: 'x' }).call('bank', 'pay', [1]),
        401,
        401,
        /bearer token/,
      ],
      [
        UnauthorizedError,
        () => new Client({ url: origin, token: () => Promise.reject(new Error('no session')) }).query('bank', 'total'),
        0,
        0,
        /no session/,
      ],
    ] as const;
    for (const [type, call, code, status, message] of cases) {
      const error = await failure(call());
      assert.ok(error instanceof type, `${error.name}: ${error.message}`);
      assert.deepEqual([error.name, error.code, error.status], [type.name, code, status], error.message);
      assert.match(error.message, message);
      assert.ok(error.actor !== '' && typeof error.method === 'string');
    }
    const { actor, method } = await failure(client.call('bank', 'trap'));
    assert.deepEqual([actor, method], ['bank', 'trap']);
    assert.deepEqual(await client.query('bank', 'total'), [0]);
  });

  test('a token function is asked before each request', async (t) => {
    const { origin } = await startBank(t, ['--auth-token', TOKEN]);
    const tokens = ['wrong', TOKEN];
    const client = new Client({ url: origin, token: async () => tokens.shift() ?? TOKEN });
    assert.deepEqual(await client.call('bank', 'pay', [1]), [1]);
    assert.deepEqual(tokens, []);
  });

  test('a call whose answers are lost is repeated with its key, and executed once', async (t) => {
    const server = await startBank(t);
    const proxy = await startCuttingProxy(t, Number(new URL(server.origin).port));
    const client = new Client({ url: proxy.origin });
    proxy.loseAnswers(3);
    assert.deepEqual(await client.call('bank', 'pay', [10]), [10]);
    proxy.loseAnswers(2);
    assert.deepEqual(await client.query('bank', 'total'), [10]);
    proxy.loseAnswers(1);
    const error = await failure(client.call('bank', 'pay', [10], { idempotencyKey: false }));
    assert.ok(error instanceof NetworkError);
    assert.deepEqual(await client.query('bank', 'total'), [20], 'it was executed, and not repeated');
    const key = { idempotencyKey: 'mine' };
    assert.deepEqual(await client.call('bank', 'pay', [1], key), [21]);
    assert.deepEqual(await client.call('bank', 'pay', [1], key), [21]);
    const other = await failure(client.call('bank', 'pay', [2], key));
    assert.ok(other instanceof BadArgumentError);
    assert.equal(other.code, 422);
  });

  test('calls outlive kills of the server: each is executed once', { timeout: 240_000 }, async (t) => {
    const port = await freePort();
    const state = await temporaryDirectory();
    const start = () => startServer(t, { manifest: '{"actors":{}}', port, args: ['--state', state] });
    let server = await start();
    assert.equal((await server.post('/install/bank', new Uint8Array(wasm))).status, 200);
    const client = new Client({ url: server.origin, tries: 100 });
    let answered = 0;
    let isOver = false;
    const caller = async (): Promise<void> => {
      while (!isOver) {
        await client.call('bank', 'pay', [1]);
        answered++;
      }
    };
    const callers = Array.from({ length: 8 }, caller);
    for (let kills = 0; kills < 3; kills++) {
      await sleep(300 + 400 * kills);
      await server.kill();
      server = await start();
    }
    await sleep(300);
    isOver = true;
    await Promise.all(callers);
    assert.ok(answered > 20, `${answered} calls`);
    assert.deepEqual(await client.query('bank', 'total'), [answered]);
  });
});

suite('servers that cannot answer, and servers that are none', () => {
  const ok = (response: ServerResponse): void => void response.end('[1]');

  test('502, 503, 504 and 429 are repeated with the same key, not before Retry-After', async (t) => {
    for (const status of [502, 503, 504, 429]) {
      const times: number[] = [];
      const { origin, requests } = await startOtherServer(t, (response, _request, at) => {
        times.push(performance.now());
        if (at < 3) response.writeHead(status, at === 1 ? { 'retry-after': '1' } : {}).end('<h1>not now</h1>');
        else ok(response);
      });
      assert.deepEqual(await new Client({ url: origin }).call('a', 'b'), [1]);
      const keys = new Set(requests.map(({ headers }) => headers['idempotency-key']));
      assert.equal(keys.size, 1);
      assert.match([...keys][0] as string, /^[0-9a-f]{32}$/);
      const [first = 0, second = 0, third = 0] = times;
      assert.ok(second - first >= 990, `${second - first} ms`);
      assert.ok(third - second >= 200, `${third - second} ms`);
    }
  });

  test('what was tried often enough, or is not to be repeated, fails with the last error', async (t) => {
    const { origin, requests } = await startOtherServer(t, (response) => void response.writeHead(503).end());
    const client = new Client({ url: origin, tries: 3 });
    const error = await failure(client.call('a', 'b'));
    assert.ok(error instanceof UnavailableError);
    assert.deepEqual([error.status, error.message, requests.length], [503, 'the server answered 503', 3]);
    assert.ok((await failure(client.query('a', 'b', [], { tries: 1 }))) instanceof UnavailableError);
    assert.equal(requests.length, 4);
    await failure(client.call('a', 'b', [], { idempotencyKey: false }));
    assert.equal(requests.length, 5);
    const nobody = new Client({ url: `http://127.0.0.1:${await freePort()}`, tries: 2 });
    const refused = await failure(nobody.query('a', 'b'));
    assert.ok(refused instanceof NetworkError);
    assert.match(refused.message, /ECONNREFUSED/);
  });

  test('what was refused is not repeated: 400, 402, 404, 500', async (t) => {
    const statuses = [
      [400, 4, RejectError],
      [402, 402, OutOfCyclesError],
      [404, 404, NotFoundError],
      [413, 413, BadArgumentError],
      [500, 5, TrapError],
      [500, 500, SvcError],
      [403, 403, UnauthorizedError],
    ] as const;
    for (const [status, code, type] of statuses) {
      const body = JSON.stringify({ code, message: 'because' });
      const { origin, requests } = await startOtherServer(t, (response) => void response.writeHead(status).end(body));
      const error = await failure(new Client({ url: origin }).call('a', 'b'));
      assert.deepEqual([error.constructor, error.message, requests.length], [type, 'because', 1]);
    }
  });

  test('401 while the server starts is asked again, with and without a key; else it is told', async (t) => {
    const path = ({ url = '' }: IncomingMessage): string => url;
    for (const idempotencyKey of [undefined, false] as const) {
      const { origin, requests } = await startOtherServer(t, (response, request) => {
        const asked = requests.filter((each) => path(each) === '/health/ready').length;
        if (path(request) === '/health/ready') response.writeHead(asked < 3 ? 503 : 200).end();
        else if (asked < 3) response.writeHead(401).end('missing or wrong bearer token');
        else ok(response);
      });
      const options = idempotencyKey === undefined ? {} : { idempotencyKey };
      assert.deepEqual(await new Client({ url: origin, tries: 1 }).call('a', 'b', [], options), [1]);
    }
    const { origin, requests } = await startOtherServer(t, (response, request) => {
      response.writeHead(path(request) === '/health/ready' ? 200 : 401).end();
    });
    assert.ok((await failure(new Client({ url: origin }).call('a', 'b'))) instanceof UnauthorizedError);
    assert.deepEqual(requests.map(path), ['/call-json/a/b', '/health/ready', '/call-json/a/b', '/health/ready']);
    const starting = await startOtherServer(t, (response, request) => {
      response.writeHead(path(request) === '/health/ready' ? 503 : 401).end();
    });
    const late = await failure(new Client({ url: starting.origin, deadlineMs: 1500 }).call('a', 'b'));
    assert.ok(late instanceof AbortedError, late.name);
  });

  test('a signal and a deadline end a call at each stage', async (t) => {
    const { origin, requests } = await startOtherServer(t, (response, { url = '' }) => {
      if (url.includes('slow')) response.write('[');
      if (url.includes('busy')) response.writeHead(503, { 'retry-after': '30' }).end();
    });
    const client = new Client({ url: origin });
    const gone = await failure(client.call('a', 'b', [], { signal: AbortSignal.abort(new Error('unmounted')) }));
    assert.ok(gone instanceof AbortedError && gone.cause instanceof Error && gone.cause.message === 'unmounted');
    assert.equal(requests.length, 0);
    for (const actor of ['silent', 'slow', 'busy']) {
      const control = new AbortController();
      const call = failure(client.call(actor, 'b', [], { signal: control.signal }));
      await sleep(100);
      control.abort();
      const aborted = await call;
      assert.deepEqual([aborted.name, aborted.message], ['AbortedError', 'the call was aborted'], actor);
      const begun = performance.now();
      const late = await failure(client.query(actor, 'b', [], { deadlineMs: 200 }));
      assert.match(late.message, /^no answer within 200 ms/, actor);
      assert.ok(late instanceof AbortedError && performance.now() - begun < 2000);
    }
  });

  test('answers that are none: no JSON, no array, nothing, too much, a redirection', async (t) => {
    const endless = (response: ServerResponse): void => sendEndlessly(response, '['.repeat(65_536));
    const answers: Readonly<Record<string, readonly [(response: ServerResponse) => void, RegExp]>> = {
      text: [(response) => void response.end('<html>welcome</html>'), /no JSON array/],
      object: [(response) => void response.end('{"a":1}'), /no JSON array/],
      null: [(response) => void response.end('null'), /no JSON array/],
      empty: [(response) => void response.end(), /no JSON array/],
      none: [(response) => void response.writeHead(204).end(), /no JSON array/],
      endless: [endless, /more than 1048576 bytes/],
      'endless-error': [(response) => endless(response.writeHead(400)), /more than 1048576 bytes/],
      deep: [(response) => void response.end('['.repeat(1_000_000)), /no JSON array/],
      moved: [(response) => void response.writeHead(308, { location: 'https://elsewhere/' }).end(), /elsewhere/],
    };
    const { origin, requests } = await startOtherServer(t, (response, { url = '' }) =>
      answers[url.split('/')[2] ?? '']?.[0](response),
    );
    const client = new Client({ url: origin, maxBytes: 1024 * 1024 });
    for (const [name, [, message]] of Object.entries(answers)) {
      const count = requests.length;
      const error = await failure(client.call(name, 'b'));
      assert.ok(error instanceof AnswerError, `${name}: ${error.name} ${error.message}`);
      assert.match(error.message, message, name);
      assert.equal(requests.length, count + 1, name);
    }
    const long = await startOtherServer(t, (response) => void response.writeHead(400).end('x'.repeat(100_000)));
    assert.ok((await failure(new Client({ url: long.origin }).call('a', 'b'))).message.length < 400);
    const strange = await startOtherServer(
      t,
      (response) => void response.writeHead(400).end('{"code":"x","message":[]}'),
    );
    assert.equal((await failure(new Client({ url: strange.origin }).call('a', 'b'))).code, 400);
  });

  test('an address that is none is refused at once', () => {
    assert.throws(() => new Client({ url: 'ftp://127.0.0.1' }), /url: expected http: or https:/);
    assert.throws(() => new Client({ url: 'here' }), TypeError);
    assert.throws(() => new Client(), TypeError);
  });

  test('a path in front of the server’s own, as behind a proxy', async (t) => {
    const { origin, requests } = await startOtherServer(t, ok);
    await new Client({ url: `${origin}/svc/` }).query('a b', 'c/d');
    assert.equal(requests[0]?.url, '/svc/query-json/a%20b/c%2Fd');
  });
});
