/** A message that executes for seconds delays only its own actor. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { crowd } from '../support/crowd.ts';
import { EXAMPLES, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const COUNTER = EXAMPLES.replace('actors.json', 'counter/Counter.mo');

test('with one executor, others answer within 100 ms while an endless loop executes, and its own queries wait', async (t) => {
  const server = await startServer(t, {
    args: ['--executors', '1', '--instruction-limit', '1000000000000'],
    manifest: JSON.stringify({
      actors: { busy: { main: COUNTER }, other: { main: COUNTER }, third: { main: COUNTER } },
    }),
  });
  let isSpinning = true;
  // The loop's end is not awaited: the process is killed when the test ends.
  const ignore = (): undefined => undefined;
  void server.post('/call-json/busy/spin').then(() => (isSpinning = false), ignore);
  await new Promise((resolve) => setTimeout(resolve, 100));
  let own: number | undefined;
  void server.post('/query-json/busy/get').then(() => (own = performance.now()), ignore);
  const pairsMs: number[] = [];
  for (let i = 1; i <= 100; i++) {
    const before = performance.now();
    assert.deepEqual(await server.post('/call-json/other/inc'), { status: 200, body: `[${i}]` });
    assert.deepEqual(await server.post('/query-json/third/get'), { status: 200, body: '[0]' });
    pairsMs.push(performance.now() - before);
  }
  assert.ok(isSpinning, 'the loop was still executing');
  assert.equal(own, undefined, 'a query of the busy actor waits for that one message');
  // A quarter may meet a machine that is busy elsewhere; if the pairs had waited for the loop, it would have ended.
  const most = pairsMs.toSorted((a, b) => b - a)[25] ?? 0;
  const mostMax = 100 * crowd();
  assert.ok(most < mostMax, `a call and a query took ${most.toFixed(1)} of ${mostMax.toFixed(0)} ms`);
});

/** `spin` never ends by itself. It does not count at address 0: see ADR 49. */
const SPINNER = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (func (export "canister_update spin") (loop $l (i64.store (i32.const 2048) (i64.add (i64.load (i32.const 2048)) (i64.const 1))) (br $l)))
  (func (export "canister_update quick") (call $reply)))`);

const endlessLoops = (count: number): readonly (readonly [string, Uint8Array])[] =>
  Array.from({ length: count }, (_, n) => [`loop-${n}`, SPINNER] as const);

test('64 loops on two executors have equal shares, and hold up nobody', async (t) => {
  const args = ['--executors', '2', '--instruction-limit', '400000000', '--heartbeat-ms', '0'];
  const server = await startServer(t, { args, manifest: JSON.stringify({ actors: {} }) });
  const install = async (name: string): Promise<void> =>
    assert.equal((await server.post(`/install/${name}`, SPINNER)).status, 200);
  const loops = Array.from({ length: 64 }, (_, n) => `loop-${n}`);
  for (const name of [...loops, 'other', 'third']) await install(name);
  let spinning = loops.length;
  const ends = loops.map(async (name) => {
    const before = performance.now();
    const { status, body } = await server.post(`/call/${name}/spin`);
    spinning--;
    assert.equal(status, 400);
    assert.match(body, /limit of 400000000 instructions/);
    return performance.now() - before;
  });
  const waitedMs: number[] = [];
  for (let i = 0; i < 50; i++) {
    const before = performance.now();
    assert.equal((await server.post(`/call/${i % 2 === 0 ? 'other' : 'third'}/quick`)).status, 200);
    waitedMs.push(performance.now() - before);
  }
  assert.equal(spinning, 64, 'all of them were still going on');
  // The bound holds for three of four.
  const most = waitedMs.toSorted((one, two) => two - one)[12] ?? 0;
  const mostMax = 100 * crowd();
  assert.ok(most < mostMax, `${most.toFixed(1)} of ${mostMax.toFixed(0)} ms`);
  const tookMs = await Promise.all(ends);
  // All of them have the same work: equal shares of processor time are equal times, as far as the machine gives all of
  // them equally fast processors. If one ran after the other, only a fifth would be so close together.
  for (const lane of [0, 1]) {
    const own = tookMs.filter((_, n) => n % 2 === lane);
    const mean = own.reduce((sum, ms) => sum + ms, 0) / own.length;
    const apart = own.map((ms) => Math.abs(ms - mean) / mean).toSorted((one, two) => one - two);
    const shown = own.map((ms) => ms.toFixed(0)).join(' ');
    assert.ok((apart[Math.floor((2 / 3) * apart.length)] ?? 1) < 0.2, `${shown} ms`);
    assert.ok((apart.at(-1) ?? 1) < 0.5, `${shown} ms`);
  }
});

/** 24 MiB, of which `fill` changes each byte: too much to be woken at once. */
const LARGE = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 384)
  (func (export "canister_update fill") (memory.fill (i32.const 0) (i32.const 7) (i32.const 25165824)) (call $reply))
  (func (export "canister_update quick") (call $reply)))`);

test('a sleeping actor of 24 MiB does not wait for 32 endless loops each time that it is woken further', async (t) => {
  const args = ['--state', await temporaryDirectory(), '--executors', '1', '--live-cap', '33', '--heartbeat-ms', '0'];
  const server = await startServer(t, {
    args: [...args, '--instruction-limit', '1000000000000'],
    manifest: JSON.stringify({ actors: {} }),
  });
  const call = async (name: string, method: string): Promise<void> =>
    assert.equal((await server.post(`/call/${name}/${method}`)).status, 200);
  for (const [name, wasm] of [...endlessLoops(32), ['large', LARGE], ['other', SPINNER]] as const)
    assert.equal((await server.post(`/install/${name}`, wasm)).status, 200);
  await call('large', 'fill');
  // The loops' ends are not awaited: the process is killed when the test ends.
  for (const [name] of endlessLoops(32)) void server.post(`/call/${name}/spin`).catch(() => undefined);
  const tookMs: number[] = [];
  for (let round = 0; round < 3; round++) {
    await call('other', 'quick');
    const beganMs = performance.now();
    await call('large', 'quick');
    tookMs.push(performance.now() - beganMs);
  }
  const page = (await server.get('/metrics')).body;
  assert.ok(Number(/^svc_wakeups_total (\d+)/m.exec(page)?.[1]) >= 3, 'it was asleep each time');
  // Waking takes six turns at least. With a round of 32 turns of 4 ms between two of them, that takes 640 ms.
  const leastMs = Math.min(...tookMs);
  const mostMs = 400 * crowd();
  assert.ok(leastMs < mostMs, `${tookMs.map((ms) => ms.toFixed(0)).join(', ')} ms: more than ${mostMs.toFixed(0)}`);
});

/** `count` counts up to its argument, eight bytes. */
const COUNTING = wat(`(module
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (memory 1)
  (func (export "canister_update count") (local $i i64)
    (call $copy (i32.const 0) (i32.const 0) (i32.const 8))
    (loop $l
      (i64.store (i32.const 8) (local.tee $i (i64.add (local.get $i) (i64.const 1))))
      (br_if $l (i64.lt_u (local.get $i) (i64.load (i32.const 0)))))
    (call $reply))
  (func (export "canister_update quick") (call $reply)))`);

test('a graceful stop lets everything end that has begun, begins nothing more, and says whom it waits for', async (t) => {
  const args = ['--executors', '2', '--instruction-limit', '1000000000000', '--log-json'];
  // After a second the server says whom it waits for: the two have to count far enough, on any machine, to last for
  // longer than that.
  for (let rounds = 200_000_000; ;) {
    const server = await startServer(t, { args, manifest: JSON.stringify({ actors: {} }) });
    for (const name of ['one', 'two']) {
      assert.equal((await server.post(`/install/${name}`, COUNTING)).status, 200);
    }
    const count = (name: string, to: number): Promise<{ status: number; body: string }> =>
      server.post(`/call/${name}/count`, new Uint8Array(BigUint64Array.of(BigInt(to)).buffer));
    const begun = ['one', 'two'].map((name) => count(name, rounds));
    let ended = 0;
    for (const each of begun) void each.finally(() => ended++);
    /**
     * Resolves when both executors have been given so many messages, or when one of the long ones has ended already.
     */
    const given = async (tasks: number): Promise<void> => {
      const each = new RegExp(`^svc_executor_tasks\\{[^}]*\\} ${tasks}$`, 'gm');
      while (ended === 0 && ((await server.get('/metrics')).body.match(each) ?? []).length < 2) await sleep(5);
    };
    await given(1);
    const late = [server.post('/call/one/quick'), count('two', 1)];
    await given(2);
    const stoppedMs = performance.now();
    const code = server.stop();
    const { status } = await Promise.race(begun);
    assert.equal(status, 200);
    const waitedMs = performance.now() - stoppedMs;
    for (const answer of await Promise.all(begun)) assert.equal(answer.status, 200);
    const refused = await Promise.all(late);
    assert.equal(await code, 0);
    // If the client was held up, the two had ended before the stop came, or lasted for less time than the client
    // measured.
    const isTold = /waiting for 2 message/.test(server.output.stderr);
    if ((waitedMs < 1500 || !isTold) && rounds < 20_000_000_000) {
      rounds *= Math.min(20, Math.max(2, Math.ceil(2500 / waitedMs)));
      continue;
    }
    for (const answer of refused) {
      assert.equal(answer.status, 503);
      assert.match(answer.body, /the server is stopping/);
    }
    const { stderr } = server.output;
    const [, named = ''] = /waiting for 2 message\(s\): ([^"\n]+)/.exec(stderr) ?? [];
    assert.deepEqual(
      named.split(', ').toSorted(),
      ['one', 'two'].map((name) => `update count of ${name} (${/of one \((\d+) s\)/.exec(named)?.[1]} s)`),
      stderr,
    );
    return;
  }
});

test('what comes for a busy actor is done in order once its message has ended', async (t) => {
  const module = wat(`(module
    (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (import "ic0" "msg_reply" (func $reply))
    (memory 1)
    (global $length (mut i32) (i32.const 16))
    ;; Appends its argument's first byte to a list, after a while.
    (func (export "canister_update note") (local $i i32)
      (local.set $i (i32.const 30000000))
      (loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
      (call $copy (global.get $length) (i32.const 0) (i32.const 1))
      (global.set $length (i32.add (global.get $length) (i32.const 1)))
      (call $reply))
    (func (export "canister_update quick") (call $copy (i32.const 0) (i32.const 0) (i32.const 1)) (call $reply))
    (func (export "canister_query list")
      (call $append (i32.const 16) (i32.sub (global.get $length) (i32.const 16))) (call $reply)))`);
  const server = await startServer(t, { args: ['--executors', '1'], manifest: JSON.stringify({ actors: {} }) });
  assert.equal((await server.post('/install/one', module)).status, 200);
  assert.equal((await server.post('/install/two', module)).status, 200);
  const connection = async (actor: string, from: number): Promise<void> => {
    for (let n = from; n < from + 5; n++) await server.post(`/call/${actor}/note`, Uint8Array.of(n));
  };
  await Promise.all([
    connection('one', 0),
    connection('one', 100),
    connection('two', 0),
    connection('two', 100),
    ...Array.from({ length: 50 }, () => server.post('/call/two/quick', Uint8Array.of(7))),
  ]);
  for (const actor of ['one', 'two']) {
    const list = new Uint8Array(
      await (await server.fetch(`/query/${actor}/list`, { method: 'POST', body: '' })).arrayBuffer(),
    );
    assert.equal(list.length, 10);
    for (const from of [0, 100]) {
      const own = [...list].filter((n) => n >= from && n < from + 5);
      assert.deepEqual(own, [from, from + 1, from + 2, from + 3, from + 4], `${actor}: ${list.join(' ')}`);
    }
  }
});
