/** `svc/contracts/gateway`: the suite that every gateway to actors' websites has to pass. */
import assert from 'node:assert/strict';
import { ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../../subsystems/canisters/index.ts';
import type { Codec } from '../../../subsystems/codec/index.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { CanisterGateway, type WebsiteCanisters } from '../../../subsystems/gateway/canister-gateway.ts';
import type { Gateway, SiteAnswer, SiteRequest } from '../../../subsystems/gateway/index.ts';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

/** Parts that a gateway is granted: actors of the suite, one of them called `site`. */
export interface SiteHost {
  readonly canisters: WebsiteCanisters;
  readonly codec: Codec;
  /** Returns the server's own gateway to these actors. */
  readonly own: () => Gateway;
}

/** A message that the actor has received. */
interface Asked {
  readonly kind: string;
  readonly method: string;
  readonly caller: string;
  readonly request: Request;
}

interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

type Answering = (method: string) => Outcome;

const codec = createCodec();
const TYPES = codec.parseInterface(`service : {
  request : (record { method : text; url : text; headers : vec record { text; text }; body : blob }) -> ();
  response : (record {
    status_code : nat16; headers : vec record { text; text }; body : blob; upgrade : opt bool
  }) -> ();
}`).methods;
const COST = { instructions: 1, charge: 0 };
const SITE: Pick<Canister, 'name' | 'id'> = { name: 'site', id: Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 7, 1, 1) };
const REQUEST: SiteRequest = {
  method: 'GET',
  url: '/a%20b?c=%2F&c',
  rawHeaders: ['Accept', 'a', 'X-Two', '1', 'x-two', '2', 'Authorization', 'Bearer secret'],
  body: Uint8Array.of(0, 255, 7),
};
const HEADERS = [
  ['x-kept', 'a'],
  ['X-Kept', 'b'],
] as const;

function replied(fields: object): Outcome {
  const json = JSON.stringify([{ status_code: 200, headers: HEADERS, body: 'aGVsbG8=', ...fields }]);
  const tuple = TYPES.get('response')?.args;
  assert.ok(tuple !== undefined);
  return { ...COST, kind: 'reply', data: tuple.encode(Buffer.from(json), { lossless: false }) };
}

function requestIn(argument: Uint8Array): Request {
  const tuple = TYPES.get('request')?.args;
  assert.ok(tuple !== undefined);
  return (JSON.parse(Buffer.from(tuple.decode(argument, { lossless: false })).toString('utf8')) as [Request])[0];
}

export function describeGateway(
  name: string,
  make: (context: SuiteContext, host: SiteHost) => Gateway | Promise<Gateway>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    const made = async (t: SuiteContext, answering: Answering) => {
      const asked: Asked[] = [];
      const site = SITE as Canister;
      const canisters: WebsiteCanisters = {
        resolveIfAny: (reference) => (reference === 'site' ? site : undefined),
        referenceOfHost: (label) => (label === 'site' ? 'site' : undefined),
        async call(_site, { kind, method, caller, argument }) {
          asked.push({ kind, method, caller: Buffer.from(caller).toString('hex'), request: requestIn(argument) });
          return answering(method);
        },
      };
      const own = (): Gateway => new CanisterGateway({ canisters, codec, nowMs: () => 0 });
      const gateway = await make(t, { canisters, codec, own });
      const respond = async (request = REQUEST) => gateway.respond(gateway.find('site'), 'site', request);
      return { gateway, asked, respond };
    };

    test('an actor is found by what names it, and one that is not there is missing', async (t) => {
      const { gateway } = await made(t, () => replied({}));
      assert.equal(gateway.find('site').name, 'site');
      assert.equal(gateway.referenceOfHost('site'), 'site');
      assert.equal(gateway.referenceOfHost('other'), undefined);
      assert.throws(
        () => gateway.find('other'),
        (error) => error instanceof ServerError && error.kind === 'missing',
      );
    });

    test('a request reaches http_request as an anonymous query, as it was sent, without its token', async (t) => {
      const { asked, respond } = await made(t, () => replied({}));
      const { isUpdate, answer } = await respond();
      assert.equal(isUpdate, false);
      assert.deepEqual(
        asked.map(({ kind, method, caller }) => [kind, method, caller]),
        [['query', 'http_request', '04']],
      );
      const { method, url, headers, body } = asked[0]?.request ?? assert.fail('nobody was asked');
      assert.deepEqual([method, url, body], ['GET', REQUEST.url, 'AP8H']);
      assert.deepEqual(headers, [
        ['Accept', 'a'],
        ['X-Two', '1'],
        ['x-two', '2'],
      ]);
      const { status, headers: answered, body: content, rest } = siteAnswer(answer);
      assert.deepEqual([status, Buffer.from(content).toString('utf8'), rest], [200, 'hello', undefined]);
      // A gateway may add headers of its own.
      assert.deepEqual(answered.slice(0, 4), HEADERS.flat());
      assert.equal(answered.length % 2, 0);
    });

    test('an answer that asks for an update is asked for once more, as an update', async (t) => {
      const { asked, respond } = await made(t, (method) => replied({ upgrade: method === 'http_request' }));
      const { isUpdate, answer } = await respond({ ...REQUEST, method: 'POST' });
      assert.equal(isUpdate, true);
      assert.equal(siteAnswer(answer).status, 200);
      assert.deepEqual(
        asked.map(({ kind, method, request }) => [kind, method, request.method, request.body]),
        [
          ['query', 'http_request', 'POST', 'AP8H'],
          ['update', 'http_request_update', 'POST', 'AP8H'],
        ],
      );
    });

    test('what HTTP does not allow in an answer is the actor’s fault, and never reaches a client', async (t) => {
      const bad: readonly object[] = [
        { status_code: 0 },
        { status_code: 103 },
        { headers: [['bad name', 'x']] },
        { headers: [['x', 'a\r\nset-cookie: b']] },
        { headers: [['', 'x']] },
      ];
      for (const fields of bad) {
        const { respond } = await made(t, () => replied(fields));
        assert.equal(faultOf((await respond()).answer), 'badWebsite', JSON.stringify(fields));
      }
      const { respond } = await made(t, () => ({ ...COST, kind: 'reply', data: Uint8Array.of(1, 2, 3) }));
      assert.equal(faultOf((await respond()).answer), 'badWebsite', 'no Candid');
    });

    test('an actor that does not answer is told by what became of its message', async (t) => {
      for (const [kind, expected] of [
        ['reject', 'badWebsite'],
        ['trap', 'badWebsite'],
        ['limit', 'badWebsite'],
        ['noReply', 'badWebsite'],
        ['outOfCycles', 'outOfCycles'],
        ['unavailable', 'unavailable'],
      ] as const) {
        const { respond } = await made(t, () => ({ ...COST, kind, code: 5, message: 'so it is' }));
        assert.equal(faultOf((await respond()).answer), expected, kind);
      }
    });
  });
}

function siteAnswer(answer: SiteAnswer | ServerError): SiteAnswer {
  if (answer instanceof ServerError) throw answer;
  return answer;
}

function faultOf(answer: SiteAnswer | ServerError): string {
  return answer instanceof ServerError ? answer.kind : `it was answered with ${answer.status}`;
}
