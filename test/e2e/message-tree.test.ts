/** The tree of messages that one message caused: `svc-message`, the ids of `/history`, `GET /x/messages/<MESSAGE>`. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { before, test, type TestContext } from 'node:test';
import { startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const LEAF = `
import Runtime "mo:core/Runtime";
persistent actor Leaf {
  public func value(n : Nat) : async Nat { if (n == 13) Runtime.trap("unlucky"); n };
  public query func peek(n : Nat) : async Nat { n };
  public query func long() : async Blob { "${'ab'.repeat(300)}" };
};`;
/** Calls the leaf, which is the first actor that a server has. */
const FRONT = `
import Nat "mo:core/Nat";
import Timer "mo:core/Timer";
persistent actor Front {
  transient let leaf = actor "bkyz2-fmaaa-aaaaa-qaaaq-cai" : actor {
    value : Nat -> async Nat; peek : shared query Nat -> async Nat;
  };
  type Response = { status : Nat; headers : [{ name : Text; value : Text }]; body : Blob };
  transient let management = actor "aaaaa-aa" : actor {
    http_request : ({ url : Text; max_response_bytes : ?Nat64; method : { #get; #head; #post }; body : ?Blob;
      headers : [{ name : Text; value : Text }];
      transform : ?{ function : shared query ({ response : Response; context : Blob }) -> async Response; context : Blob };
      is_replicated : ?Bool }) -> async Response;
  };
  public func order(n : Nat) : async Nat {
    let first = await leaf.value(n);
    let second = await twice(n);
    try { ignore await leaf.value(13) } catch _ {};
    first + second;
  };
  public func twice(n : Nat) : async Nat { (await leaf.value(n)) * 2 };
  public func fails() : async () { ignore await leaf.value(13) };
  public composite query func look(n : Nat) : async Nat { await leaf.peek(n) };
  public func spread(width : Nat, depth : Nat) : async () {
    if (depth == 0) return;
    for (_ in Nat.range(0, width)) await spread(width, depth - 1);
  };
  public func fetch(url : Text) : async Nat {
    (await management.http_request({ url; max_response_bytes = ?1000; method = #get; body = null; headers = [];
      transform = null; is_replicated = null })).status;
  };
  public func later() : async () {
    ignore Timer.setTimer<system>(#nanoseconds 1, func() : async () { ignore await leaf.value(77) });
  };
};`;

interface Told {
  readonly actor: string;
  readonly name: string;
  readonly seq: number;
  readonly id: string;
  readonly cause: string | null;
  readonly root: string;
  readonly kind: string;
  readonly method: string;
  readonly args: string;
  readonly reply: string | null;
  readonly outcome: string;
  readonly instructions: number;
  readonly ms: number;
}

type Server = Awaited<ReturnType<typeof startInProcess>>;
let leaf: Uint8Array;
let front: Uint8Array;
before(async () => {
  leaf = (await compileMotoko(LEAF)).wasm;
  front = (await compileMotoko(FRONT)).wasm;
});

async function start(t: TestContext, args: readonly string[] = []): Promise<Server> {
  const server = await startInProcess(t, { args });
  assert.equal((await server.post('/install/leaf', leaf)).status, 200);
  assert.equal((await server.post('/install/front', front)).status, 200);
  return server;
}

async function call(server: Pick<Server, 'fetch'>, path: string, args = '[]', headers: Record<string, string> = {}) {
  const answer = await server.fetch(path, { method: 'POST', body: args, headers });
  return { status: answer.status, body: await answer.text(), id: answer.headers.get('svc-message') };
}

async function tree(server: Pick<Server, 'get'>, id: string | null): Promise<readonly Told[]> {
  const { status, body } = await server.get(`/x/messages/${id}`);
  assert.equal(status, 200, body);
  return JSON.parse(body) as readonly Told[];
}

/** Returns each message as `actor.method` below the one that caused it. */
function nested(messages: readonly Told[], cause: string | null = null): unknown[] {
  return messages
    .filter((message) => message.cause === cause)
    .map((message) => {
      const below = nested(messages, message.id);
      const own = `${message.name}.${message.method}${message.args} ${message.outcome} ${message.reply}`;
      return below.length === 0 ? own : [own, below];
    });
}

const orderOf = (n: number): unknown[] => [
  [
    `front.order(${n} : nat) reply (${n * 3} : nat)`,
    [
      `leaf.value(${n} : nat) reply (${n} : nat)`,
      [`front.twice(${n} : nat) reply (${n * 2} : nat)`, [`leaf.value(${n} : nat) reply (${n} : nat)`]],
      'leaf.value(13 : nat) trap null',
    ],
  ],
];

test('each of many calls at once has its own tree, from every message of it', async (t) => {
  const server = await start(t);
  const numbers = Array.from({ length: 8 }, (_, index) => index + 1);
  const answers = await Promise.all(numbers.map((n) => call(server, '/call-json/front/order', `[${n}]`)));
  assert.equal(new Set(answers.map(({ id }) => id)).size, 8);
  for (const [index, { status, id }] of answers.entries()) {
    assert.equal(status, 200);
    const messages = await tree(server, id);
    assert.deepEqual(nested(messages), orderOf(index + 1));
    for (const message of messages) {
      assert.equal(message.root, id);
      assert.ok(message.instructions > 0 && message.ms > 0);
      assert.deepEqual(await tree(server, message.id), messages, 'whichever is asked for');
    }
  }
  const [history] = [JSON.parse((await server.get('/history/front')).body) as readonly Told[]];
  assert.ok(history.some(({ id, method }) => id === answers[3]?.id && method === 'order'));
});

test('queries, failures and Candid have ids; what was not executed has none', async (t) => {
  const server = await start(t, ['--instruction-limit', '100000000']);
  const query = await call(server, '/query-json/front/look', '[5]');
  assert.deepEqual(nested(await tree(server, query.id)), [
    ['front.look(5 : nat) reply (5 : nat)', ['leaf.peek(5 : nat) reply (5 : nat)']],
  ]);
  const failed = await call(server, '/call-json/front/fails');
  assert.equal(failed.status, 400);
  assert.deepEqual(nested(await tree(server, failed.id)), [
    ['front.fails() reject null', ['leaf.value(13 : nat) trap null']],
  ]);
  for (const path of ['/call/leaf/value', '/query/leaf/peek']) {
    const bytes = await call(server, path, 'DIDL\0\x01\x7d\x07');
    assert.equal(bytes.status, 200);
    assert.deepEqual(nested(await tree(server, bytes.id)), [`leaf.${path.split('/').at(-1)}(7 : nat) reply (7 : nat)`]);
  }
  const long = await tree(server, (await call(server, '/query-json/leaf/long')).id);
  assert.match(long[0]?.reply ?? '', /^\(blob "(?:\\6[12]){100,}…$/u);
  for (const path of ['/call-json/front/nothing', '/call-json/front/order', '/call-json/nobody/order'])
    assert.equal((await call(server, path)).id, null, path);
  const key = { 'Idempotency-Key': 'one' };
  const first = await call(server, '/call-json/front/twice', '[2]', key);
  const again = await call(server, '/call-json/front/twice', '[2]', key);
  assert.deepEqual([first.body, again.body, again.id], ['[4]', '[4]', null]);
  assert.equal((await tree(server, first.id)).length, 2);
});

test('an outcall and what a timer sends have their places', async (t) => {
  const server = await start(t, ['--heartbeat-ms', '10']);
  const outside = createServer((_request, response) => response.end('x')).listen(0, '127.0.0.1');
  t.after(() => void outside.close());
  await once(outside, 'listening');
  const url = `http://127.0.0.1:${(outside.address() as AddressInfo).port}/`;
  const fetched = await call(server, '/call-json/front/fetch', JSON.stringify([url]));
  assert.equal(fetched.body, '[200]');
  const messages = await tree(server, fetched.id);
  assert.deepEqual(
    messages.map(({ kind, cause, reply }) => [kind, cause, reply]),
    [
      ['update', null, '(200 : nat)'],
      ['outcall', fetched.id, null],
    ],
  );
  const later = await call(server, '/call-json/front/later');
  assert.equal((await tree(server, later.id)).length, 1);
  let timed: Told | undefined;
  for (const deadline = Date.now() + 20_000; timed === undefined;) {
    assert.ok(Date.now() < deadline, 'the timer has called nobody');
    const history = JSON.parse((await server.get('/history/leaf')).body) as readonly Told[];
    timed = history.find(({ args }) => args === '(77 : nat)');
  }
  // Motoko runs the function of a timer by a call of the actor to itself, which nothing else has caused.
  const timedTree = await tree(server, timed.id);
  const [top] = timedTree;
  assert.deepEqual([top?.name, top?.kind, top?.cause, top?.id], ['front', 'call', null, timed.root]);
  assert.equal(timedTree.at(-1)?.id, timed.id);
  assert.ok(timedTree.slice(0, -1).every(({ method }) => method === '__motoko_async_helper'));
});

test('a large tree is cut behind its first thousand messages, and none of them has lost its cause', async (t) => {
  const server = await start(t, ['--history', '5000']);
  const { id, status } = await call(server, '/call-json/front/spread', '[11,3]');
  assert.equal(status, 200);
  // 1 + 11 + 121 + 1331 messages.
  const messages = await tree(server, id);
  assert.equal(messages.length, 1_000);
  const known = new Set(messages.map((message) => message.id));
  for (const message of messages)
    assert.ok(message.cause === null || known.has(message.cause), JSON.stringify(message));
  const small = await tree(server, (await call(server, '/call-json/front/spread', '[3,3]')).id);
  assert.equal(small.length, 1 + 3 + 9 + 27);
});

test('ids that no history has are told so, also those of the process before', async (t) => {
  const directory = await temporaryDirectory();
  const args = ['--state', directory];
  const first = await startServer(t, { manifest: '{ "actors": {} }', args });
  assert.equal((await first.post('/install/leaf', leaf)).status, 200);
  const { id } = await call(first, '/call-json/leaf/value', '[1]');
  assert.equal((await tree(first, id)).length, 1);
  await first.kill();
  const second = await startServer(t, { manifest: '{ "actors": {} }', args });
  const { id: newer } = await call(second, '/call-json/leaf/value', '[1]');
  assert.notEqual(id, newer);
  const [process = ''] = newer?.split('-') ?? [];
  for (const unknown of [
    id,
    `${process}-0`,
    `${process}-zz`,
    `${process}-01`,
    `${newer}0`,
    'x',
    '%00',
    'a'.repeat(5000),
  ]) {
    const { status, body } = await second.get(`/x/messages/${unknown}`);
    assert.equal(status, 404, unknown ?? '');
    assert.match(body, /^\{"code":404,"message":"no history has a message /u);
    assert.ok(body.length < 300);
  }
});

test('with --history 0 no answer has an id', async (t) => {
  const server = await start(t, ['--history', '0']);
  assert.deepEqual(await call(server, '/call-json/front/order', '[1]'), { status: 200, body: '[3]', id: null });
});
