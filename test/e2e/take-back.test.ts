/**
 * Tasks that an executor has been given and has not begun are taken back: for a deletion, a change of code, a stop, and
 * the server's own stop. A forced deletion also ends the task that executes, whatever that task does; nothing else does
 * that. A task that is taken back has not been executed or charged, and the caller that waits for it gets one answer.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { crowd } from '../support/crowd.ts';
import { type RunningServer, startServer } from '../support/server.ts';
import { wat } from '../support/wat.ts';

const NO_LIMIT = ['--instruction-limit', '1000000000000000', '--cycles', '0', '--heartbeat-ms', '20'];
/** Bound of the duration of a forced deletion, whatever it ends. */
const REACH_MS = 2000;

/** Imports of every module here, and a function `$call` that calls the module's own method `storm`. */
const PRELUDE = `
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "canister_self_size" (func $size (result i32)))
  (import "ic0" "canister_self_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (import "ic0" "global_timer_set" (func $timer (param i64) (result i64)))
  (import "ic0" "stable64_grow" (func $stableGrow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $stableWrite (param i64 i64 i64)))
  (memory 17) (data (i32.const 100) "storm")
  (table 1 funcref) (elem (i32.const 0) $nothing)
  (func $nothing (param i32))
  (func $call
    (call $copy (i32.const 0) (i32.const 0) (call $size))
    (call $new (i32.const 0) (call $size) (i32.const 100) (i32.const 5) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (drop (call $perform)))
  (func $spin (loop $l (i64.store (i32.const 2048) (i64.add (i64.load (i32.const 2048)) (i64.const 1))) (br $l)))
  (func $work (local $k i32) (local.set $k (i32.const 100000000))
    (loop $l (br_if $l (local.tee $k (i32.sub (local.get $k) (i32.const 1))))))
  (func $storm (local $k i32) (local.set $k (i32.const 100000))
    (loop $l (call $call) (br_if $l (local.tee $k (i32.sub (local.get $k) (i32.const 1))))))`;
const moduleOf = (functions: string): Uint8Array => wat(`(module ${PRELUDE} ${functions})`);

/** `slow` counts, and replies with the version of its code; `wait` has a call open as long as `slow` takes. */
const worker = (version: number): Uint8Array =>
  moduleOf(`
  (func (export "canister_update slow") (call $work)
    (i32.store (i32.const 4096) (i32.add (i32.load (i32.const 4096)) (i32.const 1)))
    (i32.store8 (i32.const 8192) (i32.const ${48 + version}))
    (call $append (i32.const 8192) (i32.const 1)) (call $reply))
  (func (export "canister_query quick") (call $reply))
  (func (export "canister_query count") (call $append (i32.const 4096) (i32.const 4)) (call $reply))
  (func (export "canister_update storm") (call $storm) (call $reply))
  (func (export "canister_update call") (call $call) (call $reply))`);

interface Answer {
  readonly status: number;
  readonly body: string;
}

async function start(t: TestContext, args: readonly string[]): Promise<RunningServer> {
  const all = ['--executors', '1', ...args];
  const server = await startServer(t, { manifest: '{"actors":{}}', args: all });
  assert.equal((await server.post('/install/it', worker(1))).status, 200);
  return server;
}

const remove = async (server: RunningServer, name: string): Promise<Answer> => {
  const answer = await server.fetch(`/actors/${name}?force=true`, { method: 'DELETE' });
  return { status: answer.status, body: await answer.text() };
};

/** Returns the instructions of all ended executions. */
async function instructions(server: RunningServer): Promise<number> {
  const { body } = await server.get('/metrics');
  return Number(/^svc_executor_instructions_total\{executor="0"\} (\S+)$/m.exec(body)?.[1]);
}

const countOf = async (server: RunningServer): Promise<number> =>
  Buffer.from(await (await server.fetch('/query/it/count', { method: 'POST' })).arrayBuffer()).readUInt32LE();

/** Sends clients' calls; most of them are in the executor when this resolves. */
async function slowCalls(server: RunningServer, count: number): Promise<{ readonly answers: Promise<Answer[]> }> {
  const answers = Promise.all(Array.from({ length: count }, () => server.post('/call/it/slow')));
  let areOver = false;
  void answers.then(() => (areOver = true));
  while (!areOver && (await tasks(server)) < count / 2) await sleep(1);
  return { answers };
}

/** Returns the number of tasks that the executor has been given and has not ended. */
async function tasks(server: RunningServer): Promise<number> {
  return Number(/^svc_executor_tasks\{executor="0"\} (\d+)$/m.exec((await server.get('/metrics')).body)?.[1]);
}

test('in a storm of its own calls, an actor is stopped, upgraded and deleted at the end of what executes', async (t) => {
  const server = await start(t, NO_LIMIT);
  const before = await instructions(server);
  assert.equal((await server.post('/call/it/storm')).status, 200);
  const one = (await instructions(server)) - before;
  const since = async (act: () => Promise<Answer>): Promise<number> => {
    // Waits until the executor has nearly as many tasks as it may have.
    while ((await tasks(server)) < 60) await sleep(5);
    const began = await instructions(server);
    const { status, body } = await act();
    assert.equal(status, 200, body);
    return ((await instructions(server)) - began) / one;
  };
  // The executing task, one that had begun before the request, and callbacks.
  const most = 3;
  const upgrade = await since(() => server.post('/upgrade/it', worker(2)));
  assert.ok(upgrade < most, `${upgrade} messages were executed before the upgrade`);
  await server.post('/call/it/storm');
  const stop = await since(() => server.post('/stop/it'));
  assert.ok(stop < most, `${stop} messages were executed before the stop`);
  assert.equal((await server.post('/start/it')).status, 200);
  await server.post('/call/it/storm');
  const deletion = await since(() => remove(server, 'it'));
  assert.ok(deletion < most, `${deletion} messages were executed before the deletion`);
  assert.equal((await server.post('/install/it', worker(3))).status, 200);
  await server.post('/call/it/storm');
  assert.equal(await server.stop(), 0, server.output.stderr);
});

test('what a stop takes back was not executed, nor charged, and each client gets one answer', async (t) => {
  const server = await start(t, ['--heartbeat-ms', '0']);
  const balance = async (): Promise<bigint> => BigInt((await server.get('/cycles/it')).body);
  const first = await balance();
  assert.equal((await server.post('/call/it/slow')).body, '1');
  const price = first - (await balance());
  const calls = await slowCalls(server, 40);
  assert.deepEqual(await server.post('/stop/it'), { status: 200, body: 'stopped' });
  const answers = await calls.answers;
  const executed = answers.filter(({ status }) => status === 200).length;
  // A call may also come when the actor is stopped.
  const refused = answers.filter(({ status }) => status !== 200);
  for (const { status, body } of refused) assert.match(`${status} ${body}`, /^400 .*is stopp(ing|ed)/);
  assert.ok(executed < 30, `${executed} of 40 were executed`);
  assert.equal((await server.post('/start/it')).status, 200);
  assert.equal(await countOf(server), 1 + executed);
  assert.equal(first - (await balance()), BigInt(1 + executed) * price);
});

test('what an upgrade takes back runs with the new code, also where calls were open', async (t) => {
  const server = await start(t, ['--cycles', '0', '--heartbeat-ms', '0']);
  for (const isOpen of [false, true]) {
    const version = isOpen ? 3 : 2;
    // A call of the actor to itself stands behind the executing one.
    if (isOpen) assert.equal((await server.post('/call/it/call')).status, 200);
    const calls = await slowCalls(server, 20);
    assert.equal((await server.post('/upgrade/it', worker(version))).status, 200);
    const answers = await calls.answers;
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    const bodies = answers.map(({ body }) => body).join('');
    assert.match(
      bodies,
      new RegExp(`^${version - 1}{0,15}${version}{5,}$`),
      'those that had begun, and then all others',
    );
  }
});

/** Work that ends never, or not soon; `begin` starts its execution. */
const ENDLESS: Readonly<Record<string, { readonly code: string; readonly begin?: string }>> = {
  'an update': { code: '(func (export "canister_update m") (call $spin))', begin: '/call/a/m' },
  'a query': { code: '(func (export "canister_query m") (call $spin))', begin: '/query/a/m' },
  'a composite query': { code: '(func (export "canister_composite_query m") (call $spin))', begin: '/query/a/m' },
  'an inspection': {
    code: '(func (export "canister_inspect_message") (call $spin)) (func (export "canister_update m"))',
    begin: '/call/a/m',
  },
  'a heartbeat': { code: '(func (export "canister_heartbeat") (call $spin))' },
  'a timer': {
    code: `(func (export "canister_init") (drop (call $timer (i64.const 1))))
      (func (export "canister_global_timer") (call $spin))`,
  },
  'a callback': {
    code: `(elem (i32.const 0) $endless) (func $endless (param i32) (call $spin))
      (func (export "canister_update storm") (call $reply)) (func (export "canister_update m") (call $call))`,
    begin: '/call/a/m',
  },
  'a storm of calls': {
    code: '(func (export "canister_update storm") (loop $l (call $call) (br $l)))',
    begin: '/call/a/storm',
  },
  'fills of a mebibyte': {
    code: `(func (export "canister_update m")
      (loop $l (memory.fill (i32.const 65536) (i32.const 1) (i32.const 1048576)) (br $l)))`,
    begin: '/call/a/m',
  },
  'stable writes': {
    code: `(func (export "canister_update m") (drop (call $stableGrow (i64.const 17)))
      (loop $l (call $stableWrite (i64.const 0) (i64.const 0) (i64.const 1048576)) (br $l)))`,
    begin: '/call/a/m',
  },
};

test('a forced deletion ends whatever executes, beside other loops, and tells who waits', async (t) => {
  const server = await start(t, NO_LIMIT);
  const spinning = moduleOf('(func (export "canister_update m") (call $spin))');
  for (let n = 0; n < 4; n++) {
    assert.equal((await server.post(`/install/loop${n}`, spinning)).status, 200);
    void server.post(`/call/loop${n}/m`).catch(() => undefined);
  }
  for (const [what, { code, begin }] of Object.entries(ENDLESS)) {
    assert.equal((await server.post('/install/a', moduleOf(code))).status, 200);
    // In its first millisecond the message has no stack of its own yet.
    for (const ms of begin === undefined ? [100] : [100, 0]) {
      if (ms === 0) assert.equal((await server.post('/install/a', moduleOf(code))).status, 200);
      const waiting = begin === undefined ? undefined : [1, 2, 3].map(() => server.post(begin));
      await sleep(ms);
      const tookMs = await deleted(server, 'a');
      assert.ok(tookMs < REACH_MS * crowd(), `${what}: ${tookMs} ms`);
      for (const { status, body } of await Promise.all(waiting ?? []))
        assert.match(`${status} ${body}`, /^(?:400 .*(?:was deleted|No route)|404 )/, what);
    }
  }
});

test('a forced deletion ends an installation and an upgrade under way', async (t) => {
  const server = await start(t, NO_LIMIT);
  const endless = '(func (export "canister_init") (call $spin)) (func (export "canister_post_upgrade") (call $spin))';
  for (const path of ['/install/a', '/upgrade/it']) {
    const name = path.split('/')[2] ?? '';
    const changing = server.post(path, moduleOf(endless));
    while ((await tasks(server)) === 0) await sleep(5);
    await sleep(50);
    const tookMs = await deleted(server, name);
    assert.ok(tookMs < REACH_MS * crowd(), `${path}: ${tookMs} ms`);
    assert.match((await changing).body, /is about to be deleted/);
    assert.equal((await server.post(`/call/${name}/slow`)).status, 404);
  }
  assert.equal(await server.stop(), 0);
});

async function deleted(server: RunningServer, name: string): Promise<number> {
  const startMs = performance.now();
  assert.deepEqual(await remove(server, name), { status: 200, body: 'deleted' });
  return performance.now() - startMs;
}
