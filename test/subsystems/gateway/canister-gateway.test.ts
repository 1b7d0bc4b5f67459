import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import type { Canister, ClientMessage } from '../../../subsystems/canisters/index.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { CanisterGateway } from '../../../subsystems/gateway/canister-gateway.ts';
import type { SiteAnswer } from '../../../subsystems/gateway/index.ts';
import { NoGateway } from '../../../subsystems/gateway/no-gateway.ts';
import {
  STREAM_ACTOR_MS_MAX,
  STREAM_BYTES_MAX,
  STREAM_CALLBACKS_MAX,
} from '../../../subsystems/gateway/streamed-body.ts';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import { CounterCanister } from '../http/counter-host.ts';

/** Actors in TypeScript; their Candid is the codec's own. */
const codec = createCodec();
const HEADERS = 'headers : vec record { text; text }';
const interfaces = codec.parseInterface(`
  type Token = record { at : nat };
  type Piece = record { body : blob; token : opt Token };
  service : {
    request : (record { method : text; url : text; ${HEADERS}; body : blob; certificate_version : opt nat16 }) -> ();
    update : (record { method : text; url : text; ${HEADERS}; body : blob }) -> ();
    response : (record { status_code : nat16; ${HEADERS}; body : blob; upgrade : opt bool; streaming_strategy :
      opt variant { Callback : record { callback : func (Token) -> (Piece) query; token : Token } } }) -> ();
    token : (Token) -> ();
    piece : (Piece) -> ();
  }`);
const valuesOf = (method: string) => {
  const described = interfaces.methods.get(method);
  assert.ok(described !== undefined);
  return described.args;
};
const toCandid = (method: string, value: unknown): Uint8Array =>
  valuesOf(method).encode(Buffer.from(JSON.stringify([value])), { lossless: false });
const fromCandid = (method: string, message: Uint8Array): Record<string, unknown> =>
  (
    JSON.parse(Buffer.from(valuesOf(method).decode(message, { lossless: false })).toString()) as Record<
      string,
      unknown
    >[]
  )[0] ?? {};

const COST = { instructions: 1, charge: 0 };
const replied = (method: string, value: unknown): Outcome => ({
  ...COST,
  kind: 'reply',
  data: toCandid(method, value),
});
const response = (fields: object): Outcome =>
  replied('response', { status_code: 200, headers: [], body: '', ...fields });
const streaming = (at: number, principal = 'bkyz2-fmaaa-aaaaa-qaaaq-cai') => ({
  Callback: { callback: { principal, method: 'more' }, token: { at } },
});

interface Called {
  readonly kind: string;
  readonly method: string;
  readonly caller: string;
  readonly argument: Uint8Array;
}
type Actor = (method: string, argument: Uint8Array) => Outcome | Promise<Outcome>;

const canister = new CounterCanister('counter', 1);

function gatewayTo(actor: Actor, nowMs = () => 0): { readonly gateway: CanisterGateway; readonly calls: Called[] } {
  const calls: Called[] = [];
  const canisters = {
    resolveIfAny: (): Canister => canister,
    referenceOfHost: (): undefined => undefined,
    async call(_canister: Canister, { kind, method, caller, argument }: ClientMessage) {
      calls.push({ kind, method, caller: Buffer.from(caller).toString('hex'), argument });
      return actor(method, argument);
    },
  };
  return { gateway: new CanisterGateway({ canisters, codec, nowMs }), calls };
}

const GET = { method: 'GET', url: '/', rawHeaders: [], body: new Uint8Array(0) };

async function refusalOf(actor: Actor): Promise<ServerError> {
  const { answer } = await gatewayTo(actor).gateway.respond(canister, 'counter', GET);
  assert.ok(answer instanceof ServerError, 'the actor was taken at its word');
  return answer;
}

async function answerOf(actor: Actor, nowMs?: () => number): Promise<SiteAnswer> {
  const { answer } = await gatewayTo(actor, nowMs).gateway.respond(canister, 'counter', GET);
  if (answer instanceof ServerError) throw answer;
  return answer;
}

test('why an actor was rejected is not for visitors', () => {
  const refusing = (code: string) => (): Canister => {
    throw new ServerError('missing', code, 'actor blog was rejected: /srv/ada/Blog.mo:1: let secret = 5;');
  };
  const others = { referenceOfHost: (): undefined => undefined, call: () => Promise.reject(new Error('not called')) };
  const gatewayOf = (code: string): CanisterGateway =>
    new CanisterGateway({ canisters: { ...others, resolveIfAny: refusing(code) }, codec, nowMs: () => 0 });
  assert.throws(() => gatewayOf('actor-rejected').find('blog'), {
    kind: 'missing',
    message: 'actor blog was rejected: the output of the server has the reason',
  });
  assert.throws(() => gatewayOf('no-such-actor').find('blog'), /secret/, 'others are as they are');
});

test('nor when it was found out only now that it cannot be woken', async () => {
  const refusal = await refusalOf(() => {
    throw new ServerError(
      'missing',
      'actor-rejected',
      'actor counter was rejected: /srv/state/tables/000017.sst: torn',
    );
  });
  assert.deepEqual([refusal.kind, refusal.code], ['missing', 'actor-rejected']);
  assert.equal(refusal.message, 'actor counter was rejected: the output of the server has the reason');
});

test('an actor that is not there is told as that, and nothing of others', () => {
  const canisters = { referenceOfHost: () => undefined, call: () => Promise.reject(new Error('not called')) };
  const gateway = new CanisterGateway({
    canisters: { ...canisters, resolveIfAny: () => undefined },
    codec,
    nowMs: () => 0,
  });
  assert.throws(() => gateway.find(`bolg${'x'.repeat(200)}`), {
    kind: 'missing',
    code: 'actor-missing',
    message: `there is no actor "bolg${'x'.repeat(76)}…"`,
  });
});

suite('requests', () => {
  test('go to http_request as a query of nobody, all headers but authorization with them', async () => {
    const { gateway, calls } = gatewayTo(() => response({ body: 'YWJj', headers: [['a', 'b']] }));
    const rawHeaders = ['Host', 'x', 'AUTHORIZATION', 'Bearer secret', 'x-caller', 'aaaaa-aa', 'X-A', '1', 'x-a', '2'];
    const outcome = await gateway.respond(canister, 'counter', { ...GET, url: '/p?q', rawHeaders });
    assert.deepEqual(outcome, {
      isUpdate: false,
      answer: { status: 200, headers: ['a', 'b'], body: new Uint8Array(Buffer.from('abc')), rest: undefined },
    });
    const [call] = calls;
    assert.deepEqual([call?.kind, call?.method, call?.caller], ['query', 'http_request', '04']);
    assert.deepEqual(fromCandid('request', call?.argument ?? new Uint8Array(0)), {
      method: 'GET',
      url: '/p?q',
      headers: [
        ['Host', 'x'],
        ['x-caller', 'aaaaa-aa'],
        ['X-A', '1'],
        ['x-a', '2'],
      ],
      body: '',
      certificate_version: null,
    });
  });

  test('go to http_request_update when the actor says upgrade, once', async () => {
    const { gateway, calls } = gatewayTo((method) =>
      method === 'http_request'
        ? response({ status_code: 7, upgrade: true })
        : response({ status_code: 201, upgrade: true }),
    );
    const request = { ...GET, method: 'POST', body: Buffer.from('abc') };
    const { isUpdate, answer } = await gateway.respond(canister, 'counter', request);
    assert.equal(isUpdate, true);
    assert.equal((answer as SiteAnswer).status, 201);
    assert.deepEqual(
      calls.map(({ kind, method }) => [kind, method]),
      [
        ['query', 'http_request'],
        ['update', 'http_request_update'],
      ],
    );
    assert.equal(fromCandid('update', calls[1]?.argument ?? new Uint8Array(0))['body'], 'YWJj');
  });

  test('that are no text are refused before the actor is asked', async () => {
    const { gateway, calls } = gatewayTo(() => response({}));
    const { answer } = await gateway.respond(canister, 'counter', { ...GET, url: '/\xff' });
    assert.ok(answer instanceof ServerError);
    assert.deepEqual([answer.kind, answer.code, calls.length], ['invalid', 'request-not-text', 0]);
  });
});

suite('what is no website', () => {
  test('faults of the actor', async () => {
    const fault = (kind: 'reject' | 'trap' | 'limit' | 'noReply' | 'outOfCycles' | 'unavailable') =>
      refusalOf(() => ({ ...COST, kind, code: 5, message: 'why' }));
    const kinds: [string, string][] = [];
    for (const kind of ['reject', 'trap', 'limit', 'noReply', 'outOfCycles', 'unavailable'] as const) {
      const error = await fault(kind);
      kinds.push([error.kind, error.message]);
    }
    assert.deepEqual(kinds, [
      ['badWebsite', 'counter.http_request rejected the request: why'],
      ['badWebsite', 'counter.http_request trapped: why'],
      ['badWebsite', 'counter.http_request trapped: why'],
      ['badWebsite', 'counter.http_request did not reply: why'],
      ['outOfCycles', 'why'],
      ['unavailable', 'why'],
    ]);
  });

  test('methods that are not there', async () => {
    const error = await refusalOf(() => {
      throw new ServerError('missing', 'method-missing', 'actor counter has no method "http_request"');
    });
    assert.equal(error.kind, 'badWebsite');
    assert.match(error.message, /^actor counter serves no website here: .*no method "http_request"/);
    await assert.rejects(
      refusalOf(() => {
        throw new TypeError('a bug');
      }),
      TypeError,
    );
  });

  test('replies that are no answer, or none that HTTP has', async () => {
    const wrong: readonly [Outcome, RegExp][] = [
      [{ ...COST, kind: 'reply', data: Buffer.from('rubbish') }, /does not begin with DIDL/],
      ...[0, 99, 100, 101, 199, 1000, 65_535].map((status): [Outcome, RegExp] => [
        response({ status_code: status }),
        new RegExp(`status_code is ${status};`),
      ]),
      ...['', 'a b', 'a:', 'a\r\nset-cookie', 'ä', 'a\0'].map((name): [Outcome, RegExp] => [
        response({ headers: [[name, 'v']] }),
        /cannot be the name of a header/,
      ]),
      ...['a\r\nb: c', 'a\nb', 'a\rb', '\0', '\x7f', '\x1b[31m'].map((value): [Outcome, RegExp] => [
        response({ headers: [['x', value]] }),
        /header "x" holds a control character/,
      ]),
      [response({ headers: [['Trailer', 'x']] }), /announces what never comes/],
      [response({ streaming_strategy: streaming(1, 'aaaaa-aa') }), /a method of another actor/],
    ];
    for (const [outcome, message] of wrong) {
      const error = await refusalOf(() => outcome);
      assert.equal(error.kind, 'badWebsite');
      assert.match(error.message, /^the reply of counter.http_request is not a valid HTTP response record: /);
      assert.match(error.message, message);
    }
    for (const status of [200, 299, 404, 599, 999]) {
      assert.equal((await answerOf(() => response({ status_code: status }))).status, status);
    }
    const { headers } = await answerOf(() => response({ headers: [['x', ' tab\tand ü ']] }));
    assert.deepEqual(headers, ['x', Buffer.from(' tab\tand ü ').toString('latin1')]);
  });
});

suite('streamed bodies', () => {
  const piece = (body: string, next: number | undefined): Outcome =>
    replied('piece', { body: Buffer.from(body).toString('base64'), token: next === undefined ? null : { at: next } });
  const gather = async ({ rest }: SiteAnswer): Promise<string[]> => {
    const pieces: string[] = [];
    for await (const each of rest ?? []) pieces.push(Buffer.from(each).toString());
    return pieces;
  };

  test('come piece by piece, each asked for when the one before was taken', async () => {
    const { gateway, calls } = gatewayTo((method, argument) => {
      if (method === 'http_request') return response({ body: 'YQ==', streaming_strategy: streaming(1) });
      const { at } = fromCandid('token', argument) as { at: number };
      return piece(`<${at}>`, at < 3 ? at + 1 : undefined);
    });
    const { answer } = await gateway.respond(canister, 'counter', GET);
    assert.ok(!(answer instanceof ServerError) && answer.rest !== undefined);
    assert.equal(calls.length, 1);
    const pieces = answer.rest[Symbol.asyncIterator]();
    assert.equal(Buffer.from((await pieces.next()).value as Uint8Array).toString(), '<1>');
    assert.equal(calls.length, 2);
    assert.deepEqual([calls[1]?.kind, calls[1]?.method, calls[1]?.caller], ['query', 'more', '04']);
    assert.equal(Buffer.from((await pieces.next()).value as Uint8Array).toString(), '<2>');
    await pieces.return?.();
    assert.equal(calls.length, 3);
  });

  test('are never of two codes: the request is asked again, and the rest is refused', async () => {
    const site = new CounterCanister('site', 1);
    let changesLeft = 1;
    const { gateway, calls } = gatewayTo((method) => {
      // Other code comes while the first request is under way, and while the second piece is.
      if (method === 'http_request') {
        site.codeChanges += changesLeft;
        changesLeft = 0;
        return response({ streaming_strategy: streaming(1) });
      }
      if (calls.length === 4) site.codeChanges++;
      return piece('<>', 1);
    });
    const { answer } = await gateway.respond(site, 'site', GET);
    assert.ok(!(answer instanceof ServerError));
    await assert.rejects(gather(answer), /site has other code now: ask again/);
    const asked = calls.map(({ method }) => method);
    assert.deepEqual(asked, ['http_request', 'http_request', 'more', 'more']);
  });

  test('end with the fault of a callback', async () => {
    const faults: readonly [Outcome, string, RegExp][] = [
      [{ ...COST, kind: 'trap', code: 5, message: 'boom' }, 'badWebsite', /^counter.more trapped: boom/],
      [{ ...COST, kind: 'outOfCycles', code: 2, message: 'dry' }, 'outOfCycles', /^dry/],
      [{ ...COST, kind: 'reply', data: Buffer.from('x') }, 'badWebsite', /^the reply of counter.more is not a valid/],
    ];
    for (const [outcome, kind, message] of faults) {
      const answer = await answerOf((method) =>
        method === 'http_request' ? response({ streaming_strategy: streaming(1) }) : outcome,
      );
      await assert.rejects(gather(answer), (error) => {
        assert.ok(error instanceof ServerError);
        assert.equal(error.kind, kind);
        assert.match(error.message, message);
        return true;
      });
    }
  });

  const another = piece('', 1);
  const endless: Actor = (method) =>
    method === 'http_request' ? response({ streaming_strategy: streaming(1) }) : another;

  test('that never end are cut at the bound of their number', async () => {
    const answer = await answerOf(endless);
    let pieces = 0;
    await assert.rejects(async () => {
      for await (const _piece of answer.rest ?? []) pieces++;
    }, /streams more than 65536 pieces/);
    assert.equal(pieces, STREAM_CALLBACKS_MAX);
  });

  test('are cut at the bound of the time that the actor takes, not the client', async () => {
    let nowMs = 0;
    const slowly: Actor = (method, argument) => {
      if (method !== 'http_request') nowMs += STREAM_ACTOR_MS_MAX / 2;
      return endless(method, argument);
    };
    const answer = await answerOf(slowly, () => nowMs);
    let pieces = 0;
    await assert.rejects(async () => {
      for await (const _piece of answer.rest ?? []) {
        pieces++;
        nowMs += 10 * STREAM_ACTOR_MS_MAX; // a slow client
      }
    }, /has taken more than 600000 ms/);
    assert.equal(pieces, 3);
  });

  test('are cut at the bound of their bytes', async () => {
    const large = Buffer.alloc(8 * 2 ** 20);
    const data = codec
      .parseInterface('service : { p : (record { body : blob; token : opt nat }) -> () }')
      .methods.get('p');
    const reply = data?.args.encode(Buffer.from(`[{"body":"${large.toString('base64')}","token":1}]`), {
      lossless: false,
    });
    assert.ok(reply !== undefined);
    const answer = await answerOf((method) =>
      method === 'http_request'
        ? response({ streaming_strategy: streaming(1) })
        : { ...COST, kind: 'reply', data: reply },
    );
    let bytes = 0;
    await assert.rejects(async () => {
      for await (const each of answer.rest ?? []) bytes += each.length;
    }, /streams more than 4294967296 bytes/);
    assert.equal(bytes, STREAM_BYTES_MAX);
  });
});

test('a gateway that is turned off says so', async () => {
  const off = new NoGateway();
  assert.throws(() => off.find(), /are turned off \(--no-gateway\)/);
  await assert.rejects(off.respond(), /--no-gateway/);
  assert.equal(off.referenceOfHost(), undefined);
});
