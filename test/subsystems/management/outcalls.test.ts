import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, test } from 'node:test';
import type { ModuleInfo } from '../../../subsystems/execution/index.ts';
import { OUTCALL_BOUNDS, type OutcallBounds } from '../../../subsystems/management/outcalls/outcall-turns.ts';
import {
  OUTCALL_FAILURES,
  type OutcallRequest,
  type OutcallResponse,
  type Outcalls,
} from '../../../subsystems/outcalls/index.ts';
import type { RecordStore } from '../../../subsystems/management/records/record-store.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { type FakeCanister, moduleOf } from './fake-host.ts';
import { base64, codec, ManagementBench, text } from './management-bench.ts';
import { TRANSFORM_DID } from '../../../subsystems/management/outcalls/transform-did.ts';

const OK: OutcallResponse = { status: 200, headers: [{ name: 'x-a', value: 'b' }], body: Buffer.from('body') };

/** Keeps requests; answers when the test says so. */
class HeldOutcalls implements Outcalls {
  readonly asked: {
    request: OutcallRequest;
    signal: AbortSignal;
    answer: (response: OutcallResponse) => void;
    fail: (error: Error) => void;
  }[] = [];
  /** Answers requests at once, if given. */
  byItself: ((request: OutcallRequest) => OutcallResponse) | undefined;

  send(request: OutcallRequest, { signal }: { readonly signal: AbortSignal }): Promise<OutcallResponse> {
    const { promise, resolve, reject } = Promise.withResolvers<OutcallResponse>();
    this.asked.push({ request, signal, answer: resolve, fail: reject });
    if (this.byItself !== undefined) resolve(this.byItself(request));
    return promise;
  }
}

const ARGUMENT = {
  url: 'https://example.org/a',
  max_response_bytes: null,
  method: { get: null },
  headers: [],
  body: null,
  transform: null,
  is_replicated: null,
};

interface Made {
  readonly bench: ManagementBench;
  readonly canister: FakeCanister;
  readonly outcalls: HeldOutcalls;
  readonly ask: (argument?: Partial<Record<keyof typeof ARGUMENT, unknown>>) => ReturnType<ManagementBench['paid']>;
  readonly refused: (
    argument: Partial<Record<keyof typeof ARGUMENT, unknown>>,
  ) => ReturnType<ManagementBench['refused']>;
}

async function make(
  options: { timeoutMs?: number; bounds?: Partial<OutcallBounds>; storage?: RecordStore; isHeld?: boolean } = {},
): Promise<Made> {
  const outcalls = new HeldOutcalls();
  if (options.isHeld !== true) outcalls.byItself = () => OK;
  const bench = new ManagementBench(
    { outcallTimeoutMs: options.timeoutMs, outcallBounds: { ...OUTCALL_BOUNDS, ...options.bounds } },
    { outcalls, ...(options.storage !== undefined && { storage: options.storage }) },
  );
  const canister = bench.canister();
  const wasm = moduleOf({});
  const module: ModuleInfo = {
    ...(await bench.host.prepare(wasm)),
    methods: new Map([
      ['tidy', 'query'],
      ['write', 'update'],
    ]),
  };
  canister.code = { module, wasm };
  const from = bench.from(canister);
  return {
    bench,
    canister,
    outcalls,
    ask: (argument = {}) => bench.paid('http_request', { ...ARGUMENT, ...argument }, { ...from, cycles: 9n }),
    refused: (argument) => bench.refused('http_request', { ...ARGUMENT, ...argument }, from),
  };
}

describe('http_request', () => {
  test('sends what was asked, and answers with what came; all cycles come back', async () => {
    const { ask, outcalls, bench, canister } = await make();
    const { result, refunded } = await ask({
      method: { post: null },
      headers: [
        { name: 'X-A', value: 'grüß' },
        { name: 'Content-Length', value: '3' },
      ],
      body: base64('abc'),
      url: 'HTTPS://Example.ORG:443/ä?b=%20#part',
      max_response_bytes: '1000',
    });
    assert.deepEqual(result, { status: 200, headers: [{ name: 'x-a', value: 'b' }], body: base64('body') });
    assert.equal(refunded, 9n);
    const [{ request } = { request: undefined }] = outcalls.asked;
    assert.ok(request);
    assert.deepEqual(
      { ...request, body: Buffer.from(request.body).toString() },
      {
        sender: canister.id,
        method: 'POST',
        url: 'https://example.org/%C3%A4?b=%20',
        headers: [
          { name: 'X-A', value: 'grüß' },
          { name: 'user-agent', value: 'ic/1.0' },
          { name: 'accept-encoding', value: 'identity' },
        ],
        body: 'abc',
        responseBytesMax: 1000,
      },
    );
    const { ends, requestBytes, responseBytes } = bench.management.outcalls;
    assert.deepEqual([ends.answered, requestBytes, responseBytes], [1, 27, 8]);
    assert.deepEqual(
      bench.host.endedOutcalls.map(({ method, url, status, outcome }) => [method, url, status, outcome.kind]),
      [['POST', 'https://example.org/%C3%A4?b=%20', 200, 'reply']],
    );
  });

  test('its own user-agent and accept-encoding stay', async () => {
    const { ask, outcalls } = await make();
    const headers = [
      { name: 'User-Agent', value: 'me' },
      { name: 'Accept-Encoding', value: 'gzip' },
    ];
    await ask({ headers });
    assert.deepEqual(outcalls.asked[0]?.request.headers, headers);
  });

  test('what breaks a limit or a rule is refused with IC0408 and never sent', async () => {
    const { refused, outcalls } = await make();
    const header = (name: string, value = '') => ({ headers: [{ name, value }] });
    const cases: readonly (readonly [Parameters<typeof refused>[0], RegExp])[] = [
      [{ url: '' }, /no absolute URL: it begins with no scheme/],
      [{ url: '//example.org/' }, /no absolute URL: it begins with no scheme/],
      [{ url: 'http:///example.org/x' }, /"http:\/\/\/example[.]org\/x" has no host at character 8/],
      [{ url: 'https:////example.org' }, /has no host at character 9/],
      [{ url: 'http://' }, /has no host at character 8/],
      [{ url: 'http://?a=b' }, /has no host at character 8/],
      [{ url: 'http://:80/' }, /has no host at character 8/],
      [{ url: 'http:example.org' }, /needs \/\/ at character 6, between http: and the host/],
      [{ url: 'HTTPS:/example.org' }, /needs \/\/ at character 8/],
      [{ url: 'http:' }, /needs \/\/ at character 6/],
      [{ url: 'http://@example.org/' }, /user name or a password at character 8/],
      [{ url: 'http://:@example.org/' }, /no host|user name/],
      [{ url: 'http://a@b@example.org/' }, /user name or a password/],
      [{ url: 'http://example.org:0/' }, /port 0/],
      [{ url: 'http://example.org:8o/' }, /host and port is neither/],
      [{ url: 'http://[::1/' }, /host and port is neither/],
      [{ url: 'http://[fe80::1%25eth0]/' }, /host and port is neither/],
      [{ url: 'http://256.0.0.1/' }, /host and port is neither/],
      [{ url: 'http://a%00b/' }, /host and port is neither/],
      [{ url: 'http://example.org\u3000/..\\' }, /backslash/],
      [{ url: '/relative' }, /no absolute URL/],
      [{ url: 'ftp://example.org/' }, /only https: and http:/],
      [{ url: 'file:///etc/passwd' }, /only https: and http:/],
      [{ url: 'https://user:pass@example.org/' }, /user name or a password/],
      [{ url: 'https://example.org/ x' }, /blank/],
      [{ url: 'https://exa\nmple.org/' }, /control character/],
      [{ url: 'https:\\\\example.org' }, /backslash/],
      [{ url: 'https://example.org:99999/' }, /no absolute URL/],
      [{ url: `https://example.org/${'a'.repeat(8192)}` }, /at most 8192/],
      [{ max_response_bytes: '2000001' }, /max_response_bytes is 2000001: at most 2000000/],
      [{ max_response_bytes: '18446744073709551615' }, /at most 2000000/],
      [{ method: { put: null } }, /needs is_replicated = opt false/],
      [{ method: { delete: null }, is_replicated: true }, /needs is_replicated/],
      [{ method: { patch: null } }, /needs is_replicated/],
      [{ headers: Array.from({ length: 65 }, () => ({ name: 'a', value: '' })) }, /65 headers: at most 64/],
      [header('a', 'x'.repeat(8193)), /at most 8192 bytes/],
      [header('a'.repeat(8193)), /at most 8192 bytes/],
      [{ headers: Array.from({ length: 7 }, () => ({ name: 'a', value: 'x'.repeat(8000) })) }, /at most 49152/],
      [header(''), /no name of a header/],
      [header('a b'), /no name of a header/],
      [header('a:'), /no name of a header/],
      [header('ä'), /no name of a header/],
      [header('a', 'x\r\nb: c'), /control character/],
      [header('a', '\0'), /control character/],
      [header('Transfer-Encoding', 'chunked'), /host's own/],
      [header('connection', 'close'), /host's own/],
      [header('Upgrade', 'x'), /host's own/],
      [header('expect', '100-continue'), /host's own/],
      [header('content-length', '7'), /content-length says "7", and the body has 0/],
      [
        {
          headers: [
            { name: 'host', value: 'a' },
            { name: 'Host', value: 'b' },
          ],
        },
        /host is there twice/,
      ],
      [{ method: { post: null }, body: base64(Buffer.alloc(2_000_001)) }, /2000001 bytes: at most 2000000/],
      [{ transform: { function: { principal: 'aaaaa-aa', method: 'tidy' }, context: '' } }, /not one of the calling/],
    ];
    for (const [argument, message] of cases) {
      const { code, message: got } = await refused(argument);
      assert.equal(code, 4, got);
      assert.match(got, message);
      assert.ok(got.startsWith('IC0408') && got.length < 400, got);
    }
    assert.equal(outcalls.asked.length, 0);
  });

  test('URLs of every right form are sent as the URL standard writes them', async () => {
    const { ask, outcalls } = await make();
    for (const [url, sent] of [
      ['http://example.org', 'http://example.org/'],
      ['http://example.org?a#b', 'http://example.org/?a'],
      ['http://example.org:/', 'http://example.org/'],
      ['https://EXAMPLE.org:8443/a@b?c@d', 'https://example.org:8443/a@b?c@d'],
      ['http://[::1]:80/', 'http://[::1]/'],
      ['http://[::FFFF:1.2.3.4]:81/', 'http://[::ffff:102:304]:81/'],
      ['http://bücher.example/ü', 'http://xn--bcher-kva.example/%C3%BC'],
      ['http://example.org/a//b/../c', 'http://example.org/a//c'],
      ['http://example.org:010/', 'http://example.org:10/'],
      ['http://example.org/http:///x', 'http://example.org/http:///x'],
    ] as const) {
      await ask({ url });
      assert.equal(outcalls.asked.at(-1)?.request.url, sent);
    }
  });

  test('the largest request, and every method that is_replicated = false allows', async () => {
    const { ask, outcalls } = await make();
    const body = base64(Buffer.alloc(1_999_998));
    await ask({ method: { post: null }, body, headers: [{ name: 'a', value: 'b' }] });
    for (const method of ['put', 'delete', 'patch', 'get', 'head'])
      await ask({ method: { [method]: null }, is_replicated: false });
    assert.deepEqual(
      outcalls.asked.map(({ request }) => request.method),
      ['POST', 'PUT', 'DELETE', 'PATCH', 'GET', 'HEAD'],
    );
  });

  test('a response over a limit is refused with code 1', async () => {
    const { refused, outcalls, bench } = await make();
    const many = Array.from({ length: 65 }, () => ({ name: 'a', value: 'b' }));
    for (const [response, message] of [
      [{ ...OK, body: Buffer.alloc(997) }, /1001 bytes of headers and body, and max_response_bytes is 1000/],
      [{ ...OK, headers: many }, /65 headers/],
      [{ ...OK, headers: [{ name: 'a', value: 'x'.repeat(9000) }] }, /at most 8192 bytes/],
    ] as const) {
      outcalls.byItself = () => response;
      const { code, message: got } = await refused({ max_response_bytes: 1000 });
      assert.equal(code, 1);
      assert.match(got, message);
    }
    outcalls.byItself = () => ({ ...OK, body: Buffer.alloc(996) });
    assert.equal((await bench.raw('http_request', Buffer.from('DIDL\0\0'))).response.kind, 'reject');
    assert.equal(bench.management.outcalls.ends.too_large, 3);
  });

  test('failures become rejects: 2 what may be tried again, 4 what this host does not do, 1 the rest', async () => {
    const { refused, outcalls } = await make({ isHeld: true });
    const expected = {
      'outcall-refused': [4, 'IC0406'],
      'outcall-failed': [2, 'IC0201'],
      'outcall-timeout': [2, 'IC0201'],
      'outcall-too-large': [1, 'IC0101'],
      'outcalls-busy': [2, 'IC0201'],
      'outcalls-stopping': [2, 'IC0201'],
      'outcalls-off': [4, 'IC0406'],
      'outcall-not-recorded': [1, 'IC0101'],
      'outcall-recording-failed': [2, 'IC0201'],
    } as const satisfies Record<keyof typeof OUTCALL_FAILURES, unknown>;
    for (const failure of Object.keys(OUTCALL_FAILURES) as (keyof typeof OUTCALL_FAILURES)[]) {
      const answer = refused({});
      while (outcalls.asked.length === 0) await nextTurn();
      outcalls.asked.pop()?.fail(OUTCALL_FAILURES[failure]('the words'));
      const { code, message } = await answer;
      const [wanted, number] = expected[failure];
      assert.deepEqual([failure, code, message], [failure, wanted, `${number}: the words`]);
    }
  });

  test('a plugin that fails otherwise is logged, and the caller learns nothing of it', async () => {
    const { ask, outcalls, bench } = await make({ isHeld: true });
    const answer = ask();
    while (outcalls.asked.length === 0) await nextTurn();
    outcalls.asked[0]?.fail(new Error('secret'));
    const { response } = await answer;
    assert.ok(response.kind === 'reject' && response.code === 1);
    assert.doesNotMatch(response.message, /secret/);
    assert.match(bench.log.lines.join(), /outcalls plugin failed: secret/);
  });

  test('after the deadline the caller is told, whether the plugin heeds it or not', async () => {
    const { refused, outcalls, bench } = await make({ isHeld: true, timeoutMs: 5000, bounds: { activeMax: 1 } });
    const first = refused({});
    const second = refused({});
    while (outcalls.asked.length === 0) await nextTurn();
    assert.deepEqual([bench.management.outcalls.active, bench.management.outcalls.waiting], [1, 1]);
    bench.clock.advance(4999);
    await nextTurn();
    assert.equal(outcalls.asked[0]?.signal.aborted, false);
    bench.clock.advance(1);
    for (const answer of [first, second])
      assert.deepEqual(await answer, { code: 2, message: 'IC0201: no complete response came within 5 s' });
    assert.equal(outcalls.asked.length, 1, 'what waited was never sent');
    assert.equal(outcalls.asked[0]?.signal.aborted, true);
    const { active, waiting, ends } = bench.management.outcalls;
    assert.deepEqual([active, waiting, ends.timeout], [0, 0, 2]);
  });

  test('nothing is sent before the call is durable', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const storage = Object.assign(new NoStorage(), { isKept: true, settled: () => promise });
    const { ask, outcalls } = await make({ storage });
    const answer = ask();
    for (let turn = 0; turn < 20; turn++) await nextTurn();
    assert.equal(outcalls.asked.length, 0);
    resolve();
    assert.equal((await answer).response.kind, 'reply');
    assert.equal(outcalls.asked.length, 1);
  });

  test('places: of a canister, to a host, of all; who waits goes on in order, and a full queue refuses', async () => {
    const { ask, refused, outcalls, bench } = await make({
      isHeld: true,
      bounds: { activeMax: 3, toHostMax: 1, waitingMax: 2, ofCanisterMax: 2 },
    });
    const urls = () => outcalls.asked.map(({ request }) => new URL(request.url).host);
    const answers = ['a', 'a', 'b', 'c'].map((host) => ask({ url: `https://${host}.example/` }));
    while (outcalls.asked.length < 2) await nextTurn();
    assert.deepEqual(urls(), ['a.example', 'b.example'], 'one to each host, two of the canister');
    assert.match((await refused({})).message, /IC0201: 2 outcalls wait on this host already: try again later/);
    outcalls.asked[1]?.answer(OK);
    while (outcalls.asked.length < 3) await nextTurn();
    assert.deepEqual(urls()[2], 'c.example', 'the second to a cannot go on yet');
    outcalls.asked[0]?.answer(OK);
    while (outcalls.asked.length < 4) await nextTurn();
    outcalls.asked[2]?.answer(OK);
    outcalls.asked[3]?.answer(OK);
    for (const answer of answers) assert.equal((await answer).response.kind, 'reply');
    const { ends, active, waiting } = bench.management.outcalls;
    assert.deepEqual([ends.answered, ends.busy, active, waiting], [4, 1, 0, 0]);
  });

  test('bytes that wait are bounded, and so is what waits of one canister', async () => {
    const few = await make({ isHeld: true, bounds: { activeMax: 1, waitingOfCanisterMax: 1 } });
    const heavy = await make({ isHeld: true, bounds: { activeMax: 1, waitingBytesMax: 1000 } });
    const body = base64(Buffer.alloc(900));
    for (const { ask, refused, outcalls, message } of [
      { ...few, message: /1 outcalls of this actor wait/ },
      { ...heavy, message: /1000 bytes/ },
    ]) {
      const answers = [ask({ method: { post: null }, body }), ask({ method: { post: null }, body })];
      while (outcalls.asked.length < 1) await nextTurn();
      assert.match((await refused({ method: { post: null }, body })).message, message);
      outcalls.byItself = () => OK;
      outcalls.asked[0]?.answer(OK);
      await Promise.all(answers);
    }
  });

  test('a stop lets what is under way end for a moment, and rejects the rest and what comes', async () => {
    const { ask, outcalls, bench } = await make({ isHeld: true });
    const [ends, stays] = [ask(), ask()];
    while (outcalls.asked.length < 2) await nextTurn();
    const drained = bench.management.drain();
    outcalls.asked[0]?.answer(OK);
    assert.equal((await ends).response.kind, 'reply');
    const late = (await ask()).response;
    assert.ok(late.kind === 'reject' && late.code === 2);
    bench.clock.advance(3000);
    const { response } = await stays;
    assert.deepEqual(response, { kind: 'reject', code: 2, message: 'IC0201: the server is stopping' });
    await drained;
    await bench.management.drain();
  });
});

describe('transforms', () => {
  const types = codec.parseInterface(TRANSFORM_DID).methods.get('transform');
  assert.ok(types);
  const encode = (value: unknown): Uint8Array =>
    types.results.encode(Buffer.from(JSON.stringify([value])), { lossless: false });
  const transformOf = ({ id }: FakeCanister, method = 'tidy') => ({
    function: { principal: text(id), method },
    context: base64('context'),
  });
  const reply = (data: Uint8Array) => ({ kind: 'reply', data, instructions: 1, charge: 0 }) as const;

  test('get response and context, and what they answer takes its place', async () => {
    const { ask, bench, canister } = await make();
    bench.host.onTransform = (_canister, method, argument) => {
      const [given] = JSON.parse(Buffer.from(types.args.decode(argument, { lossless: false })).toString()) as unknown[];
      assert.deepEqual(given, {
        response: { status: 200, headers: [{ name: 'x-a', value: 'b' }], body: base64('body') },
        context: base64('context'),
      });
      return reply(encode({ status: 201, headers: [], body: base64(`${method}!`) }));
    };
    const { result } = await ask({ transform: transformOf(canister) });
    assert.deepEqual(result, { status: 201, headers: [], body: base64('tidy!') });
  });

  test('that are no query of the caller are refused before anything is sent', async () => {
    const { refused, outcalls, canister } = await make();
    for (const method of ['write', 'missing', '']) {
      const { code, message } = await refused({ transform: transformOf(canister, method) });
      assert.equal(code, 4);
      assert.match(message, /IC0408: transform.function "\w*" is no query method of the calling canister/);
    }
    assert.equal(outcalls.asked.length, 0);
  });

  test('that trap, answer too much or something else reject the outcall', async () => {
    const { refused, bench, canister } = await make();
    const failed = { message: 'words', instructions: 1, charge: 0 } as const;
    for (const [outcome, code, message] of [
      [{ ...failed, kind: 'trap', code: 5 }, 5, /the transform "tidy" failed: words/],
      [{ ...failed, kind: 'limit', code: 5 }, 5, /failed: words/],
      [{ ...failed, kind: 'reject', code: 4 }, 5, /failed: words/],
      [{ ...failed, kind: 'unavailable', code: 2 }, 2, /failed: words/],
      [reply(Buffer.from('DIDL\0\0')), 5, /is not an http_request_result/],
      [reply(Buffer.alloc(100, 0xff)), 5, /is not an http_request_result/],
      [
        reply(encode({ status: 200, headers: [], body: base64(Buffer.alloc(1000)) })),
        1,
        /has 10\d\d bytes, and max_response_bytes is 1000/,
      ],
    ] as const) {
      bench.host.onTransform = () => outcome;
      const answer = await refused({ transform: transformOf(canister), max_response_bytes: 1000 });
      assert.equal(answer.code, code, answer.message);
      assert.match(answer.message, message);
    }
    assert.equal(bench.management.outcalls.ends.transform, 7);
  });

  test('of a canister that was deleted meanwhile are not run', async () => {
    const { ask, bench, canister, outcalls } = await make({ isHeld: true });
    const answer = ask({ transform: transformOf(canister) });
    while (outcalls.asked.length < 1) await nextTurn();
    await bench.host.remove(canister);
    outcalls.asked[0]?.answer(OK);
    const { response } = await answer;
    assert.ok(response.kind === 'reject');
    assert.match(response.message, /the canister that called is gone/);
  });

  test('of code that has ended meanwhile are not run, and what still waits for its place is not sent', async () => {
    const { bench, canister, outcalls } = await make({ isHeld: true, bounds: { ofCanisterMax: 1 } });
    bench.host.onTransform = () => assert.fail('a transform of other code');
    let isAwaited = true;
    const from = { ...bench.from(canister), isAwaited: () => isAwaited };
    const calls = [1, 2].map(() => bench.paid('http_request', { ...ARGUMENT, transform: transformOf(canister) }, from));
    while (outcalls.asked.length < 1) await nextTurn();
    isAwaited = false;
    outcalls.asked[0]?.answer(OK);
    const [sent, waiting] = await Promise.all(calls);
    assert.ok(sent?.response.kind === 'reject' && waiting?.response.kind === 'reject');
    assert.match(sent.response.message, /the code that called has ended/);
    assert.match(waiting.response.message, /nobody waits for it any more/);
    assert.equal(outcalls.asked.length, 1);
  });
});
