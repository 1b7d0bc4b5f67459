/** A message that executes for seconds holds up nobody but its own actor. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EXAMPLES, startServer } from '../support/server.ts';
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
  // Nobody waits for the end of the loop: the process is killed when the test ends.
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
  // One in fifty may meet a pause of the machine.
  const most = pairsMs.toSorted((a, b) => b - a)[2] ?? 0;
  assert.ok(most < 100, `a call and a query took ${most.toFixed(1)} ms`);
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
  const server = await startServer(t, { args: ['--executors', '1'] });
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
