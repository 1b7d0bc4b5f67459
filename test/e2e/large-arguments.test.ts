/** Arguments on both sides of the size from which on threads hand them over: whoever reads them has all of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INLINE_BYTES_MAX } from '../../subsystems/execution/wire/ring-bytes.ts';
import { send } from '../support/http-client.ts';
import { startInProcess } from '../support/in-process-server.ts';
import { wat } from '../support/wat.ts';

/** Answers with the size of the argument, and with the size that the inspection has seen. */
const MEASURES = wat(`(module
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "accept_message" (func $accept))
  (memory 1)
  (func (export "canister_inspect_message") (if (i32.gt_u (call $size) (i32.const 0)) (then (call $accept))))
  (func $measure
    (i32.store (i32.const 0) (call $size))
    (call $append (i32.const 0) (i32.const 4))
    (call $reply))
  (func (export "canister_query read") (call $measure))
  (func (export "canister_update write") (call $measure)))`);
const SIZES = [1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 2_000_000];

test('an actor that inspects its messages gets the arguments of any size, again and again', async (t) => {
  const server = await startInProcess(t);
  await send(server.origin, 'POST', '/install/measures', { body: MEASURES });
  for (const bytes of [...SIZES, ...SIZES])
    for (const path of ['/call/measures/write', '/call/measures/read', '/query/measures/read']) {
      const answer = await send(server.origin, 'POST', path, { body: Buffer.alloc(bytes, 1) });
      assert.equal(answer.status, 200, `${path} ${bytes}: ${answer.text}`);
      assert.equal(Buffer.from(answer.body).readUInt32LE(), bytes, path);
    }
});
