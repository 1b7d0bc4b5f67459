/** The stack of a failed message, as clients see it: in `/logs`, in `/history`, for failed hooks, and nowhere else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send } from '../support/http-client.ts';
import { startInProcess } from '../support/in-process-server.ts';
import { compileCounter } from '../support/motoko.ts';
import { wat } from '../support/wat.ts';

/** Fails in each kind of message. Has no name section, as `wat` writes none. */
const FAILS = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (import "ic0" "canister_self_size" (func $size (result i32)))
  (import "ic0" "canister_self_copy" (func $self (param i32 i32 i32)))
  (memory 1) (data (i32.const 100) "twice")
  (table 1 funcref) (elem (i32.const 0) $called_back)
  (func $fail (export "fail") unreachable)
  (func $called_back (export "called_back") (param i32) (call $fail))
  (func $spin (export "spin") (loop $l (i32.store (i32.const 0) (i32.const 1)) (br $l)))
  (func (export "canister_update call")
    (call $self (i32.const 0) (i32.const 0) (call $size))
    (call $new (i32.const 0) (call $size) (i32.const 100) (i32.const 5) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
    (drop (call $perform)))
  (func (export "canister_query twice") (call $reply))
  (func (export "canister_query ask") (call $fail))
  (func (export "canister_update long") (call $spin))
  (func (export "canister_post_upgrade") (call $fail)))`);

interface Line {
  readonly text: string;
}
interface Entry {
  readonly method: string;
  readonly outcome: string;
  readonly message: string | null;
  readonly stack: readonly string[] | null;
}

test('the stack of a failed message is in /logs and in /history, and not in answers', async (t) => {
  const server = await startInProcess(t, { args: ['--instruction-limit', '200000000'] });
  const post = async (path: string, body: string | Uint8Array = ''): Promise<{ status: number; text: string }> =>
    await send(server.origin, 'POST', path, { body });
  const get = async (path: string): Promise<unknown> =>
    (await send(server.origin, 'GET', path, { headers: { accept: 'application/json' } })).json();
  await post('/install/counter', await compileCounter());
  await post('/install/fails', FAILS);

  const boom = await post('/call-json/counter/boom', '[]');
  const message = "Canister called `ic0.trap` with message: 'boom: this change will be undone'";
  assert.deepEqual(JSON.parse(boom.text), { code: 5, message });
  const stack = ['ic_trap', 'trap', '$lambda', 'boom'];
  const [line, ...more] = (await get('/logs/counter')) as Line[];
  assert.deepEqual([line?.text, more], [[message, 'Canister Backtrace:', ...stack].join('\n'), []]);
  const [, called] = (await get('/history/counter')) as Entry[];
  assert.deepEqual([called?.message, called?.stack], [message, stack]);

  // The long message is suspended many times, on a stack of its own.
  for (const path of ['/call/fails/call', '/query/fails/ask', '/call/fails/long', '/call/fails/twice'])
    assert.doesNotMatch((await post(path)).text, /Backtrace/, path);
  const entries = ((await get('/history/fails')) as Entry[]).map(({ method, ...rest }) => [
    method,
    rest.outcome,
    rest.stack,
  ]);
  const twice = ['twice', 'reply', null];
  assert.deepEqual(entries, [
    ['', 'reply', null],
    twice,
    ['call', 'trap', ['fail', 'called_back']],
    ['ask', 'trap', ['fail', 'canister_query ask']],
    ['long', 'limit', ['spin', 'canister_update long']],
    twice,
  ]);

  const upgraded = await post('/upgrade/fails?force=true', FAILS);
  const { logs, ...answer } = JSON.parse(upgraded.text) as { message: string; logs: string[] };
  assert.deepEqual(
    [answer.message, logs],
    ['unreachable', ['unreachable\nCanister Backtrace:\nfail\ncanister_post_upgrade']],
  );
  const last = ((await get('/history/fails')) as Entry[]).at(-1);
  assert.deepEqual(last?.stack, ['fail', 'canister_post_upgrade']);
});
