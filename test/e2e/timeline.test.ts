/** Real servers with `--timeline`: the past of an actor is told as it was, over kills, gaps and deletions. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { startServer } from '../support/server.ts';
import { wat } from '../support/wat.ts';
import { compileActor, Deployment } from './durability/deployment.ts';

let keeper: Uint8Array;
before(async () => {
  keeper = await compileActor('Keeper');
});

interface Shown {
  readonly point: { readonly seq: number; readonly unit: number };
  readonly sha256: { readonly heap: string; readonly stable: string };
  readonly cycles: string;
  readonly globals: string;
  readonly version: number;
}

/** `send` sends 12 arguments of 200,000 bytes to itself, and answers when 12 replies as large are back. */
const LARGE = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "canister_self_copy" (func $self (param i32 i32 i32)))
  (import "ic0" "canister_self_size" (func $size (result i32)))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_data_append" (func $data (param i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory 8) (data (i32.const 100) "take")
  (table 1 funcref) (elem (i32.const 0) $back)
  (global $left (mut i32) (i32.const 12))
  (func (export "canister_update take") (call $append (i32.const 65536) (i32.const 200000)) (call $reply))
  (func (export "canister_update trap") unreachable)
  (func (export "canister_update send") (local $n i32)
    (call $self (i32.const 0) (i32.const 0) (call $size))
    (local.set $n (global.get $left))
    (loop $l
      (call $new (i32.const 0) (call $size) (i32.const 100) (i32.const 4)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (call $data (i32.const 65536) (i32.const 200000))
      (if (call $perform) (then unreachable))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func $back (param i32)
    (global.set $left (i32.sub (global.get $left) (i32.const 1)))
    (if (i32.eqz (global.get $left)) (then (call $reply)))))`);

const FLAGS = ['--timeline', '3600', '--heartbeat-ms', '0'];

async function stateAt({ host }: Deployment, actor: string, point: string): Promise<Shown> {
  const { status, body } = await host.server.get(`/x/time/state/${actor}?at=${point}`);
  assert.equal(status, 200, body);
  return JSON.parse(body) as Shown;
}

async function call({ host }: Deployment, actor: string, method: string, args: readonly unknown[]): Promise<void> {
  const { status, body } = await host.server.post(`/call-json/${actor}/${method}`, JSON.stringify(args));
  assert.equal(status, 200, body);
}

test('every state that was told is told again after a kill, up to the last message that was acknowledged', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: keeper, two: keeper } });
  await deployment.start();
  const noted: Shown[] = [];
  const other = await deployment.host.find('two');
  for (let life = 0; life < 3; life++) {
    for (let n = 0; n < 8; n++) {
      await call(deployment, 'one', 'append', [n]);
      await call(deployment, 'one', 'store', [8 * n, n + life]);
      if (n % 3 === 0) await call(deployment, 'one', 'chain', [other.principal, 2]);
      if (n % 4 === 0) await deployment.host.server.post('/call-json/one/fireAfter', '[1]');
      noted.push(await stateAt(deployment, 'one', 'now'));
    }
    if (life === 1) await deployment.host.server.post('/upgrade/one', keeper);
    // The last message is acknowledged, and nobody has asked for it.
    await call(deployment, 'one', 'append', [99]);
    await deployment.kill();
    await deployment.start();
    const newest = await stateAt(deployment, 'one', 'now');
    assert.ok(newest.point.seq > (noted.at(-1)?.point.seq ?? 0));
  }
  for (const state of noted)
    assert.deepEqual(await stateAt(deployment, 'one', `unit:${state.point.unit}`), state, `unit ${state.point.unit}`);
  assert.equal(new Set(noted.map(({ sha256 }) => sha256.heap)).size, noted.length);
  const { body } = await deployment.host.server.get('/x/time/timeline/one?limit=1000');
  const kinds = new Set((JSON.parse(body) as { kind: string }[]).map(({ kind }) => kind));
  assert.deepEqual(kinds, new Set(['install', 'update', 'callback', 'timer', 'upgrade']));
});

test('messages are told with their callers, arguments and outcomes, and a page says how to go on', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: keeper } });
  await deployment.start();
  for (let n = 0; n < 5; n++) await call(deployment, 'one', 'append', [n]);
  const { server } = deployment.host;
  const answer = await server.fetch('/x/time/timeline/one?limit=3&from=seq:2');
  assert.equal(answer.headers.get('svc-next'), 'seq:5');
  assert.match(answer.headers.get('svc-reach') ?? '', /^unit:\d+ unit:\d+$/);
  const entries = (await answer.json()) as { seq: number; kind: string; method: string; args: string }[];
  assert.deepEqual(
    entries.map(({ seq, kind, method, args }) => [seq, kind, method, args]),
    [0, 1, 2].map((n) => [n + 2, 'update', 'append', `(${n} : nat)`]),
  );
  for (const [path, message] of [
    ['timeline/one?limit=1000000000', /limit is a whole number/],
    ['timeline/one?from=seq:-1', /^\?from=: /],
    ['state/one?at=yesterday', /^\?at=: /],
    ['state/one?at=seq:100000', /its newest message is seq:/],
  ] as const) {
    const { status, body } = await server.get(`/x/time/${path}`);
    assert.ok(status === 400 || status === 404, body);
    assert.match((JSON.parse(body) as { message: string }).message, message);
  }
});

test('a deleted actor has no timeline, and its files are gone', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: keeper } });
  await deployment.start();
  await call(deployment, 'one', 'append', [1]);
  const { point } = await stateAt(deployment, 'one', 'now');
  const root = join(deployment.folder, 'state', 'timeline');
  const folders = (): string[] => readdirSync(root).filter((name) => name.length === 20);
  assert.equal(folders().length, 1);
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    const { mode } = statSync(join(entry.parentPath, entry.name));
    assert.equal(mode & 0o77, 0, `${entry.name} can be read by others`);
  }
  await deployment.host.server.fetch('/actors/one?force=true', { method: 'DELETE' });
  await deployment.stop();
  assert.deepEqual(folders(), []);
  assert.ok(point.seq > 0);
});

test('of messages with large arguments each has a unit of its own, whoever sends them and however they end', async (t) => {
  const deployment = await Deployment.create(t, { args: FLAGS, modules: { one: LARGE } });
  await deployment.start();
  const { server } = deployment.host;
  const body = new Uint8Array(200_000);
  await Promise.all(
    Array.from({ length: 12 }, (_, n) => server.post(`/call/one/${n % 2 === 0 ? 'take' : 'trap'}`, body)),
  );
  const sent = await server.post('/call/one/send', '');
  assert.equal(sent.status, 200, sent.body);
  const answer = await server.get('/x/time/timeline/one?limit=1000');
  const entries = JSON.parse(answer.body) as { unit: number; kind: string; args: string; outcome: string }[];
  const large = entries.filter(({ args }) => args.length > 1_000 || args.includes('200000 bytes'));
  const told = new Set(large.map(({ kind, outcome }) => `${kind} ${outcome}`));
  assert.deepEqual(told, new Set(['update reply', 'update trap', 'callback done', 'callback reply']));
  assert.equal(large.length, 36);
  const units = large.map(({ unit }) => unit);
  assert.equal(new Set(units).size, units.length, `units ${units.join(', ')}`);
});

suite('without a timeline', () => {
  test('the routes say which flag is missing, and the state directory has none', async (t) => {
    const deployment = await Deployment.create(t, { modules: { one: keeper } });
    await deployment.start();
    await call(deployment, 'one', 'append', [1]);
    const { status, body } = await deployment.host.server.get('/x/time/timeline/one');
    assert.equal(status, 400);
    assert.match(body, /start it with --timeline SECONDS, which needs --state DIR/);
    assert.ok(!existsSync(join(deployment.folder, 'state', 'timeline')));
  });

  test('messages of a time without it are a gap: the timeline begins anew behind it', async (t) => {
    const deployment = await Deployment.create(t, { modules: { one: keeper } });
    await deployment.start(FLAGS);
    await call(deployment, 'one', 'append', [1]);
    const first = await stateAt(deployment, 'one', 'now');
    await deployment.stop();
    await deployment.start();
    await call(deployment, 'one', 'append', [2]);
    await deployment.stop();
    await deployment.start(FLAGS);
    await call(deployment, 'one', 'append', [3]);
    const last = await stateAt(deployment, 'one', 'now');
    assert.equal(last.point.seq, first.point.seq + 1);
    assert.equal(last.version, first.version + 2);
    assert.deepEqual(await stateAt(deployment, 'one', `seq:${first.point.seq}`), first);
  });

  test('the flag needs a state directory', async (t) => {
    await assert.rejects(startServer(t, { args: ['--timeline', '60'] }), /--timeline needs --state DIR/);
  });
});
