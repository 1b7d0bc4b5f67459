/** Real servers: messages of the past are executed again on copies, and are told to be what was recorded, or not. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { crc32, gzipSync } from 'node:zlib';
import { FILE_HEAD, FRAME, readTimelineFrame } from '../../subsystems/timeline/frame-format.ts';
import { decodeNote, encodeNote, idOfNote } from '../../subsystems/timeline/note.ts';
import type { Note } from '../../subsystems/timeline/index.ts';
import { compileMotoko } from '../support/motoko.ts';
import type { TestOwner } from '../support/server.ts';
import { wat } from '../support/wat.ts';
import { Deployment } from './durability/deployment.ts';
import { type Host, STRANGER } from './semantics/host.ts';
import { begun, call, FLAGS, HOLDER, PEER, SHOP, traffic } from './shop.ts';

let shop: Uint8Array;
let peer: Uint8Array;
let holder: Uint8Array;
before(async () => {
  shop = (await compileMotoko(SHOP)).wasm;
  peer = (await compileMotoko(PEER)).wasm;
  holder = (await compileMotoko(HOLDER)).wasm;
});

interface Listed {
  readonly seq: number;
  readonly kind: string;
  readonly method: string;
  readonly args: string;
  readonly outcome: string;
  readonly instructions: number;
  readonly openCalls: number;
}

interface Replayed extends Listed {
  readonly exact?: boolean | null;
  readonly difference?: { readonly what: string; readonly was: unknown; readonly is: unknown };
  readonly caller: string;
  readonly reply?: string;
  readonly message?: string;
  readonly effects: {
    readonly calls: readonly { readonly callee: string; readonly method: string; readonly args: string }[];
    readonly timer: string | null;
    readonly bytes: number;
  };
  readonly debug: readonly string[];
  readonly why?: string;
  readonly moreLines?: number;
}

interface Started {
  readonly deployment: Deployment;
  readonly host: Host;
  readonly principal: string;
}

async function started(t: TestOwner): Promise<Started> {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { shop, peer, holder } });
  await deployment.start();
  const { host } = deployment;
  await begun(host);
  return { deployment, host, principal: (await host.find('peer')).principal };
}

const ends: (() => Promise<void>)[] = [];
after(async () => {
  for (const end of ends) await end();
});
let shared: Promise<Started> | undefined;

/** Returns the server of the tests that neither stop it nor look at all of its past. */
function sharedOne(): Promise<Started> {
  return (shared ??= started({ after: (end) => void ends.push(end) }));
}

async function listed({ server }: Host, name = 'shop'): Promise<readonly Listed[]> {
  return JSON.parse((await server.get(`/x/time/timeline/${name}?limit=1000`)).body) as Listed[];
}

async function replay(
  { server }: Host,
  seq: number | string,
  whatIf?: object,
): Promise<{ status: number; answer: Replayed }> {
  const body = whatIf === undefined ? '' : JSON.stringify(whatIf);
  const { status, body: answer } = await server.post(`/x/time/replay/shop?seq=${seq}`, body);
  return { status, answer: JSON.parse(answer) as Replayed };
}

async function newest(host: Host): Promise<number> {
  return (await listed(host)).at(-1)?.seq ?? 0;
}

/** Resolves with the number of a call that is sent and answered; its timer may have fired since. */
async function sent(host: Host, method: string, args: unknown): Promise<number> {
  await call(host, method, args);
  return (await listed(host)).findLast((each) => each.method === method)?.seq ?? 0;
}

/** Returns a metric of the server. */
async function metric({ server }: Host, name: string): Promise<number> {
  const [, value] = new RegExp(`^${name} (\\d+)$`, 'm').exec((await server.get('/metrics')).body) ?? [];
  assert.ok(value !== undefined, name);
  return Number(value);
}

/** Replays every message whose state before is kept; returns the kinds. */
async function allExact(host: Host): Promise<ReadonlySet<string>> {
  const kinds = new Set<string>();
  for (const was of await listed(host)) {
    const { status, answer } = await replay(host, was.seq);
    if (status === 404) {
      // The timeline begins behind the first messages.
      assert.equal(kinds.size, 0, `${was.seq}: ${JSON.stringify(answer)}`);
      continue;
    }
    assert.deepEqual([status, answer.exact], [200, true], `${was.seq} ${was.kind}: ${JSON.stringify(answer)}`);
    const { seq, kind, method, args, outcome, instructions } = answer;
    assert.deepEqual(
      { seq, kind, method, args, outcome, instructions },
      {
        seq: was.seq,
        kind: was.kind,
        method: was.method,
        args: was.args,
        outcome: was.outcome,
        instructions: was.instructions,
      },
    );
    kinds.add(`${kind} ${outcome}`);
  }
  return kinds;
}

test('every message replays exactly: answers, traps, callbacks, timers, upgrades, also after a start', async (t) => {
  const { deployment, host, principal } = await started(t);
  await traffic(host, principal);
  assert.equal((await host.server.post('/upgrade/shop', shop)).body, 'upgraded');
  await call(host, 'add', [{ book: '8' }]);
  assert.equal((await host.server.post('/install/shop?mode=reinstall', shop)).status, 200);
  await call(host, 'add', [{ book: '9' }]);
  const state = (await host.server.get('/x/time/state/shop')).body;
  const kinds = await allExact(host);
  for (const kind of ['update reply', 'update trap', 'callback reply', 'timer done', 'upgrade done', 'reinstall done'])
    assert.ok(kinds.has(kind), `${kind} is not among ${[...kinds].join(', ')}`);
  assert.equal((await host.server.get('/x/time/state/shop')).body, state, 'nothing has changed');
  const count = (await listed(host)).length;
  assert.ok((await metric(host, 'svc_replays_total')) >= count - 3);
  assert.equal(await metric(host, 'svc_replay_mismatch_total'), 0);
  await deployment.kill();
  await deployment.start();
  await allExact(deployment.host);
});

test('a replay tells the reply, calls that were not sent, timers, and why a message trapped', async () => {
  const { host, principal } = await sharedOne();
  const added = await sent(host, 'add', [{ book: '3' }]);
  const { answer: addition } = await replay(host, added);
  assert.match(addition.reply ?? '', /^\(\d+ : nat\)$/);
  assert.ok(addition.effects.bytes > 0);
  const told = async (): Promise<string> => (await host.server.post('/query-json/peer/count', '[]')).body;
  await call(host, 'tell', [principal, '5']);
  const telling = (await listed(host)).findLast(({ method }) => method === 'tell')?.seq ?? 0;
  const earlier = await told();
  const { answer: teller } = await replay(host, telling);
  assert.deepEqual(
    [teller.exact, teller.outcome, teller.effects.calls.map(({ callee, method, args }) => [callee, method, args])],
    [true, 'done', [[principal, 'tell', '(5 : nat)']]],
  );
  assert.equal(await told(), earlier, 'the call was not sent');
  const { answer: failed } = await replay(host, await sent(host, 'fail', []));
  assert.deepEqual([failed.exact, failed.outcome, failed.effects.bytes], [true, 'trap', 0]);
  assert.match(failed.message ?? '', /assertion failed at Main\.mo/);
  const { answer: later } = await replay(host, await sent(host, 'later', []));
  assert.match(later.effects.timer ?? '', /^20\d\d-/);
});

test('messages replay exactly while calls of the actor are open', async () => {
  const { host } = await sharedOne();
  const held = call(host, 'hold', [(await host.find('holder')).principal]);
  await host.until(async () => assert.equal((await listed(host)).at(-1)?.openCalls, 1));
  const between = await sent(host, 'add', [{ book: '4' }]);
  assert.equal((await replay(host, between)).answer.exact, true);
  await host.server.post('/call-json/holder/release', '[]');
  assert.equal(await held, '[5]');
  const { answer } = await replay(host, await newest(host));
  assert.deepEqual([answer.exact, answer.kind, answer.reply], [true, 'callback', '(5 : nat)']);
});

test('what if: another argument or caller, as Candid text or JSON, without a word about exactness', async () => {
  const { host } = await sharedOne();
  const added = await sent(host, 'add', [{ book: '3' }]);
  const was = (await replay(host, added)).answer;
  for (const args of ['(variant { voucher = 12345678901234567890 : nat })', [{ voucher: '12345678901234567890' }]]) {
    const { status, answer } = await replay(host, added, { args });
    assert.deepEqual([status, 'exact' in answer, answer.reply], [200, false, was.reply], JSON.stringify(answer));
    assert.match(answer.args, /= 12345678901234567890 : nat/);
  }
  const told = await sent(host, 'now', []);
  const { answer: other } = await replay(host, told, { caller: STRANGER });
  assert.ok(other.reply?.includes(STRANGER), other.reply ?? 'no reply');
  assert.deepEqual([other.caller, 'exact' in other], [STRANGER, false]);
  assert.equal((await replay(host, told, {})).answer.exact, true, 'an empty object changes nothing');
  const refused: readonly (readonly [object, RegExp])[] = [
    [{ module: '00' }, /tried by a rehearsal/],
    [{ arguments: [] }, /unknown key "arguments"/],
    [{ args: 5 }, /args: expected Candid text/],
    [{ args: ['x'] }, /args/],
    [{ args: '(' }, /./],
    [{ caller: 'nobody' }, /caller: /],
    [[], /expected an object/],
  ];
  for (const [body, reason] of refused) {
    const { status, answer } = await replay(host, added, body);
    assert.equal(status, 400, JSON.stringify(body));
    assert.match(answer.message ?? '', reason);
  }
  assert.equal(await metric(host, 'svc_replay_mismatch_total'), 0);
});

test('numbers of no message, and messages that execute nothing, are refused with the reason', async (t) => {
  const { host } = await started(t);
  const at = await newest(host);
  await host.server.post('/query-json/shop/sum', '[]');
  for (const seq of ['', '0', '-1', 'x', '1e3', '1.5', '9999999999999999'])
    assert.equal((await replay(host, seq)).status, 400, seq);
  for (const seq of ['1&seq=2', '1&at=now']) assert.equal((await replay(host, seq)).status, 404, `seq=${seq}`);
  assert.equal((await host.server.post('/x/time/replay/shop', '')).status, 400);
  for (const seq of [at + 1, 1e9]) {
    const { status, answer } = await replay(host, seq);
    assert.equal(status, 404);
    assert.match(answer.message ?? '', new RegExp(`its newest message is seq:${at}$`));
  }
  const first = await replay(host, 1);
  assert.equal(first.status, 404);
  assert.match(first.answer.message ?? '', /begins with seq:\d+.*the state before seq:1 is not kept/);
  assert.equal((await host.server.post(`/x/time/restore/shop?to=seq:${at}`, '')).status, 200);
  const restored = await replay(host, await newest(host));
  assert.deepEqual(
    [restored.status, restored.answer.message],
    [400, `seq:${at + 1} cannot be replayed: a restore puts a state in place, and executes nothing`],
  );
  assert.equal((await replay(host, await sent(host, 'add', [{ book: '1' }]))).answer.exact, true);
  const deleted = await host.server.fetch('/actors/shop?force=true', { method: 'DELETE' });
  assert.equal(deleted.status, 200);
  assert.equal((await replay(host, at)).status, 404);
});

type NoteChange = (note: Note) => Note;

/** Changes the notes of as many newest messages in the files of a server that does not run. */
async function mutate(deployment: Deployment, id: Uint8Array, ...changes: readonly NoteChange[]): Promise<void> {
  const folder = join(deployment.folder, 'state', 'timeline', Buffer.from(id).toString('hex'));
  const [name = ''] = (await readdir(folder))
    .filter((each) => each.endsWith('.tl'))
    .toSorted()
    .slice(-1);
  const bytes = await readFile(join(folder, name));
  let at = FILE_HEAD.length;
  const messages: number[] = [];
  while (at < bytes.length) {
    const frame = readTimelineFrame(bytes, at);
    assert.ok(typeof frame !== 'string');
    if (frame.kind === FRAME.message) messages.push(at);
    at = frame.end;
  }
  assert.ok(messages.length >= changes.length);
  for (const [index, change] of changes.entries()) {
    const begin = messages.at(index - changes.length) ?? assert.fail();
    const frame = readTimelineFrame(bytes, begin);
    assert.ok(typeof frame !== 'string');
    const note = encodeNote(idOfNote(frame.note), change(decodeNote(frame.note)));
    assert.equal(note.length, frame.note.length);
    bytes.set(note, begin + 36);
    bytes.writeUInt32LE(crc32(bytes.subarray(begin + 8, frame.end)), begin + 4);
  }
  await writeFile(join(folder, name), bytes);
}

test('a record that is not what happened is told with the first difference, and counted', async (t) => {
  const { deployment } = await started(t);
  const changes: readonly (readonly [what: RegExp, change: NoteChange])[] = [
    [/^instructions$/, (note) => ({ ...note, instructions: note.instructions + 1 })],
    [/^cycles$/, (note) => ({ ...note, charge: note.charge - 1 })],
    [/^outcome$/, (note) => ({ ...note, outcome: 'trap' })],
    // Another argument of the same length: the heap has what was added.
    [/^(heap at byte \d+|instructions)$/, (note) => ({ ...note, argument: flipped(note.argument) })],
    // Same length, but another method.
    [/^(outcome|instructions)$/, (note) => ({ ...note, method: 'now' })],
  ];
  const sentAt: number[] = [];
  for (const _ of changes) sentAt.push(await sent(deployment.host, 'add', [{ book: '3' }]));
  for (const at of sentAt) assert.equal((await replay(deployment.host, at)).answer.exact, true);
  const { id } = await deployment.host.find('shop');
  await deployment.stop();
  await mutate(deployment, id, ...changes.map(([, change]) => change));
  await deployment.start();
  for (const [index, [what]] of changes.entries()) {
    const { status, answer } = await replay(deployment.host, sentAt[index] ?? 0);
    assert.deepEqual([status, answer.exact], [200, false], JSON.stringify(answer));
    assert.match(answer.difference?.what ?? '', what);
    assert.notEqual(answer.difference?.was, answer.difference?.is);
    assert.equal(await metric(deployment.host, 'svc_replay_mismatch_total'), index + 1);
  }
});

test('a flipped bit is told, and nothing is replayed', async (t) => {
  const { deployment } = await started(t);
  const at = await sent(deployment.host, 'add', [{ book: '3' }]);
  for (let n = 0; n < 3; n++) await call(deployment.host, 'price', []);
  const { id } = await deployment.host.find('shop');
  await deployment.stop();
  const folder = join(deployment.folder, 'state', 'timeline', Buffer.from(id).toString('hex'));
  const [name = ''] = (await readdir(folder)).filter((each) => each.endsWith('.tl'));
  const bytes = await readFile(join(folder, name));
  const argument = bytes.lastIndexOf('add');
  assert.ok(argument > 0);
  bytes[argument] = (bytes[argument] ?? 0) ^ 1;
  await writeFile(join(folder, name), bytes);
  await deployment.start();
  const { status, answer } = await replay(deployment.host, at);
  // Messages from there on are none of the timeline any more, unless a base was made behind them.
  assert.ok(status === 404 || status === 503, JSON.stringify(answer));
  assert.match(
    answer.message ?? '',
    status === 404 ? /its newest message is seq:\d+$/ : /damaged: .* at byte \d+; points behind its next base/,
  );
});

function flipped(argument: Uint8Array): Uint8Array {
  const other = new Uint8Array(argument);
  other[other.length - 1] = (other.at(-1) ?? 0) ^ 1;
  return other;
}

test('a message that another server executed is exact, or nobody can tell why it is not', async (t) => {
  const { deployment } = await started(t);
  const at = await sent(deployment.host, 'add', [{ book: '3' }]);
  const { id } = await deployment.host.find('shop');
  await deployment.stop();
  await deployment.start(['--instruction-limit', '30000000000']);
  assert.equal((await replay(deployment.host, at)).answer.exact, true);
  await deployment.stop();
  await mutate(deployment, id, (note) => ({ ...note, instructions: note.instructions + 1 }));
  await deployment.start(['--instruction-limit', '20000000000']);
  const { answer } = await replay(deployment.host, at);
  assert.deepEqual([answer.exact, answer.difference?.what], [null, 'instructions']);
  assert.equal(
    answer.why,
    'another server executed the message: the instruction limit was 40000000000 and is 20000000000',
  );
  assert.equal(await metric(deployment.host, 'svc_replay_mismatch_total'), 0);
});

/** Answers, when the holder whose id is the argument lets go, with the instructions of its call. */
const COUNTED = wat(`(module
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "performance_counter" (func $counter (param i32) (result i64)))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_data_append" (func $data (param i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory 1)
  (table 1 funcref)
  (elem (i32.const 0) $held)
  (data (i32.const 0) "hold")
  (data (i32.const 8) "DIDL\\00\\00")
  (func $held (param i32)
    (i64.store (i32.const 200) (call $counter (i32.const 1)))
    (call $append (i32.const 200) (i32.const 8))
    (call $reply))
  (func (export "canister_update begin")
    (call $copy (i32.const 100) (i32.const 0) (call $size))
    (call $new (i32.const 100) (call $size) (i32.const 0) (i32.const 4)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (call $data (i32.const 8) (i32.const 6))
    (drop (call $perform)))
  (func (export "canister_update step") (call $reply)))`);

test('a callback whose call began too long ago is not exact, and nobody can tell why not', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { shop: COUNTED, holder } });
  await deployment.start();
  const { host } = deployment;
  await host.until(async () => {
    await host.server.post('/call/shop/step', '');
    assert.equal((await host.server.get('/x/time/state/shop')).status, 200);
  });
  const { id } = await host.find('holder');
  /** Resolves with the replay of the callback of a call during which the actor executes so many other messages. */
  const ending = async (steps: number): Promise<Replayed> => {
    const held = host.server.post('/call/shop/begin', id);
    await host.until(async () => assert.equal((await listed(host)).at(-1)?.openCalls, 1));
    const began = await newest(host);
    for (let step = 0; step < steps; step += 100)
      await Promise.all(Array.from({ length: 100 }, () => host.server.post('/call/shop/step', '')));
    await host.server.post('/call-json/holder/release', '[]');
    assert.equal((await held).status, 200);
    return (await replay(host, began + steps + 1)).answer;
  };
  const first = await ending(0);
  assert.equal(first.exact, true, JSON.stringify(first));
  await host.server.post('/install/holder?mode=reinstall', holder);
  const { exact, difference, why } = await ending(1100);
  assert.deepEqual([exact, difference?.what], [null, 'heap at byte 200'], 'the counter');
  assert.match(why ?? '', /began too long ago/);
  assert.equal(await metric(host, 'svc_replay_mismatch_total'), 0);
});

/** Answers with the argument's first bytes, prints, grows its memories, or never ends. */
const RAW = wat(`(module
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "debug_print" (func $print (param i32 i32)))
  (import "ic0" "stable64_grow" (func $stable_grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $stable_write (param i64 i64 i64)))
  (memory 64 200)
  (data (i32.const 0) "line")
  (func (export "canister_update put")
    (call $copy (i32.const 1000) (i32.const 0) (call $size))
    (call $append (i32.const 1000) (i32.const 8))
    (call $reply))
  (func (export "canister_update grow")
    (drop (memory.grow (i32.const 20)))
    (drop (call $stable_grow (i64.const 30)))
    (call $stable_write (i64.const 1000000) (i64.const 0) (i64.const 4))
    (call $reply))
  (func (export "canister_update print") (local $n i32)
    (loop $next
      (call $print (i32.const 0) (i32.const 4))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (i32.const 1500))))
    (call $reply))
  (func (export "canister_update spin") (loop $next (br $next)))
  (func (export "canister_query look") (call $append (i32.const 1000) (i32.const 8)) (call $reply)))`);

test('large arguments, memories that grow, many lines, and queries that are called as updates', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { shop: RAW } });
  await deployment.start();
  const { host } = deployment;
  const { server } = host;
  const send = async (method: string, body: Uint8Array | '' = ''): Promise<number> =>
    (await server.post(`/call/shop/${method}`, body)).status;
  await host.until(async () => {
    assert.equal(await send('put', Buffer.from('begins')), 200);
    assert.equal((await server.get('/x/time/state/shop')).status, 200);
  });
  assert.equal(await send('put', Buffer.alloc(2_000_000, 7)), 200);
  const large = (await replay(host, await newest(host))).answer;
  assert.deepEqual([large.exact, large.reply, large.effects.bytes], [true, '07'.repeat(8), 2_000_000]);
  assert.ok(large.args.length < 10_000, 'its beginning is shown');
  assert.equal(await send('grow'), 200);
  const grown = (await replay(host, await newest(host))).answer;
  assert.deepEqual([grown.exact, grown.effects.bytes], [true, 4]);
  assert.equal(await send('look'), 200);
  const looked = (await replay(host, await newest(host))).answer;
  assert.equal(looked.exact, true, JSON.stringify(looked));
  assert.equal(await send('print'), 200);
  const printed = (await replay(host, await newest(host))).answer;
  assert.deepEqual([printed.exact, printed.debug.length + (printed.moreLines ?? 0)], [true, 1_500]);
  assert.ok(printed.debug.every((line) => line === 'line'));
});

test('two replays run at once, and end with their clients', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { shop: RAW } });
  await deployment.start(['--instruction-limit', '400000000000']);
  const { host } = deployment;
  const { server } = host;
  await host.until(async () => {
    assert.equal((await server.post('/call/shop/put', Buffer.from('begins'))).status, 200);
    assert.equal((await server.get('/x/time/state/shop')).status, 200);
  });
  for (let n = 0; n < 3; n++) await server.post('/call/shop/put', Buffer.from('begins'));
  const at = await newest(host);
  const { id } = await host.find('shop');
  await deployment.stop();
  // Nobody waits for a message of minutes to be recorded.
  await mutate(deployment, id, (note) => ({ ...note, method: 'spin', argument: Buffer.from('begin') }));
  const again = await deployment.start(['--instruction-limit', '400000000000']);
  const gone = new AbortController();
  const path = `${again.server.origin}/x/time/replay/shop?seq=${at}`;
  // A question of this test may have the place of one of them for a moment.
  const spinning = async (): Promise<Response> => {
    const answer = await fetch(path, { method: 'POST', signal: gone.signal });
    return answer.status === 503 ? await spinning() : answer;
  };
  const ended = Promise.allSettled([spinning(), spinning()]);
  await again.until(async () => assert.equal((await replay(again, at - 1)).status, 503));
  const busy = await replay(again, at - 1);
  assert.equal(busy.answer.message, '2 replays are under way: try again');
  assert.equal((await again.server.post('/call/shop/put', Buffer.from('meanwhile'))).status, 200, 'the actor goes on');
  gone.abort();
  assert.deepEqual(
    (await ended).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  await again.until(async () => assert.equal((await replay(again, at - 1)).answer.exact, true));
});

/** Node of a profile's tree. */
interface ProfileTree {
  readonly name: string;
  readonly self: number;
  readonly total: number;
  readonly children: readonly ProfileTree[];
}

function selfSum({ self, children }: ProfileTree): number {
  return children.reduce((sum, child) => sum + selfSum(child), self);
}

function namesIn({ name, children }: ProfileTree): readonly string[] {
  return [name, ...children.flatMap(namesIn)];
}

test('a profile has all instructions of an update or a callback, by functions, in each form', async () => {
  const { host, principal } = await sharedOne();
  // A packed module is unpacked for it.
  assert.equal((await host.server.post('/upgrade/shop', gzipSync(shop))).body, 'upgraded');
  await sent(host, 'add', [{ book: '4' }]);
  await sent(host, 'tell', [principal, '5']);
  const entries = await listed(host);
  const profileOf = async (seq: number, accept = '*/*', body = ''): Promise<{ status: number; body: string }> => {
    const options = { method: 'POST', headers: { accept }, body };
    const response = await host.server.fetch(`/x/time/replay/shop?seq=${seq}&with=profile`, options);
    return { status: response.status, body: await response.text() };
  };
  const numberOf = (kind: string, method: string): number =>
    entries.findLast((entry) => entry.kind === kind && entry.method === method)?.seq ?? 0;
  for (const [kind, method, innermost] of [
    ['update', 'tell', 'tell'],
    ['callback', '', '@deserialize<N>'],
  ] as const) {
    const { status, body } = await profileOf(numberOf(kind, method));
    assert.equal(status, 200, body);
    const { exact, instructions, profile } = JSON.parse(body) as Replayed & {
      profile: { samples: number; tree: ProfileTree };
    };
    assert.deepEqual([exact, profile.samples], [true, 500]);
    assert.deepEqual([profile.tree.total, selfSum(profile.tree)], [instructions, instructions]);
    assert.ok(namesIn(profile.tree).includes(innermost), namesIn(profile.tree).join());
    assert.ok(profile.tree.self < instructions / 100, 'nearly all of it is in functions');
  }

  const seq = numberOf('update', 'tell');
  const [folded, again, graph, chart] = [
    await profileOf(seq, 'text/plain'),
    await profileOf(seq, 'text/plain'),
    await profileOf(seq, 'image/svg+xml'),
    await profileOf(seq, 'application/x-cpuprofile'),
  ];
  assert.equal(folded.body, again.body, 'the same message has the same profile');
  assert.match(folded.body, /^tell seq:\d+;tell;\$lambda.* \d+$/m);
  assert.match(graph.body, /^<svg .*<title>tell: [\d,]+ instructions/s);
  const { samples, endTime } = JSON.parse(chart.body) as { samples: number[]; endTime: number };
  assert.deepEqual([samples.length, endTime], [500, entries.find((entry) => entry.seq === seq)?.instructions]);

  const other = await profileOf(numberOf('update', 'add'), 'text/plain', JSON.stringify({ args: [{ voucher: '7' }] }));
  assert.match(other.body, /^add seq:\d+;add/m);
  const refused = await profileOf(numberOf('upgrade', ''));
  assert.equal(refused.status, 400);
  assert.match(refused.body, /has no profile: it is of the kind upgrade/);
  const path = `/x/time/replay/shop?seq=${seq}&with=trace`;
  assert.equal((await host.server.post(path, '')).status, 404, 'there is nothing else to be had');
});

test('a profile of many messages has their methods, in proportion to their instructions', async (t) => {
  const { host, principal } = await started(t);
  const firstProfiled = await newest(host);
  await traffic(host, principal);
  const profileOf = async (query: string): Promise<{ status: number; body: string }> =>
    await host.server.post(`/x/time/profile/shop${query}`, '');
  const { status, body } = await profileOf('?messages=1000');
  assert.equal(status, 200, body);
  const { from, to, messages, leftOut, profile } = JSON.parse(body) as {
    from: { seq: number };
    to: { seq: number };
    messages: number;
    leftOut: number;
    profile: { samples: number; tree: ProfileTree };
  };
  const entries = (await listed(host)).filter(({ seq }) => seq >= from.seq && seq <= to.seq);
  const profiled = entries.filter(({ kind }) => kind === 'update' || kind === 'callback');
  assert.ok(from.seq <= firstProfiled + 1 && to.seq === profiled.at(-1)?.seq, body.slice(0, 200));
  assert.equal(messages, profiled.length);
  assert.ok(leftOut > 0, 'the installation, and timers');
  const instructions = profiled.reduce((sum, entry) => sum + entry.instructions, 0);
  assert.deepEqual(
    [profile.tree.name, profile.tree.total, selfSum(profile.tree)],
    ['shop', instructions, instructions],
  );
  assert.equal(profile.samples, 500);
  for (const { name, total } of profile.tree.children) {
    const own = profiled.filter(({ kind, method }) => (method === '' ? kind : method) === name);
    const share = own.reduce((sum, entry) => sum + entry.instructions, 0);
    assert.ok(own.length > 0, name);
    assert.ok(Math.abs(total - share) <= instructions / 100, `${name}: ${total} of ${share}`);
  }
  assert.ok(namesIn(profile.tree).includes('@deserialize<N>'));

  const ahead = profileOf('?seconds=2');
  await host.until(async () => assert.ok((await sent(host, 'add', [{ book: '5' }])) > to.seq + 3));
  const { profile: next } = JSON.parse((await ahead).body) as { profile: { tree: ProfileTree } };
  assert.deepEqual(
    next.tree.children.map(({ name }) => name),
    ['add'],
  );
  const quiet = await profileOf('?seconds=1');
  assert.equal(quiet.status, 400);
  assert.match(quiet.body, /the actor executed no message|no update or callback/);
  for (const query of ['?messages=0', '?messages=1001', '?seconds=61', '?seconds=x', '?messages=1&seconds=1'])
    assert.equal((await profileOf(query)).status, 400, query);
});
