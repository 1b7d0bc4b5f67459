/**
 * A message that sends many large arguments, and gets replies as large, stores them ahead, piece by piece (ADR 78):
 * other actors' durable answers are not delayed by it. If the server is killed meanwhile, the message has happened
 * wholly or not at all, each call exactly once, and no piece is left in the end.
 */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { send } from '../../support/http-client.ts';
import { ANY_ACTOR, compileMotoko } from '../../support/motoko.ts';
import { type RunningServer, startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';
import { callCounter } from './counter-calls.ts';

/** Calls of one message, the bytes of each argument, and those of each reply. As one unit, they held up others. */
const CALLS = 30;
const ARGUMENT_BYTES = 500_000;
const REPLY_BYTES = 300_000;
/** Bounds of others' waiting on a busy machine: a part of the message's time, or an absolute time. */
const HELD_UP_SHARE_MAX = 1 / 4;
const HELD_UP_MS_MAX = 1000;

/** Counts messages, calls that came, and replies that came back; arguments and replies are ones and twos throughout. */
const ACTOR = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_arg_data_size" (func $size (result i32)))
  (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "call_new" (func $new (param i32 i32 i32 i32 i32 i32 i32 i32)))
  (import "ic0" "call_data_append" (func $data (param i32 i32)))
  (import "ic0" "call_perform" (func $perform (result i32)))
  (memory 40) (data (i32.const 100) "take")
  (table 1 funcref) (elem (i32.const 0) $back)
  (func (export "canister_init")
    (memory.fill (i32.const 65536) (i32.const 1) (i32.const ${ARGUMENT_BYTES}))
    (memory.fill (i32.const 786432) (i32.const 2) (i32.const ${REPLY_BYTES})))
  (func $count (param $at i32) (i32.store (local.get $at) (i32.add (i32.load (local.get $at)) (i32.const 1))))
  (func $whole (param $bytes i32) (param $value i32) (local $at i32)
    (if (i32.ne (call $size) (local.get $bytes)) (then unreachable))
    (call $copy (i32.const 1572864) (i32.const 0) (local.get $bytes))
    (local.set $at (local.get $bytes))
    (loop $l
      (local.set $at (i32.sub (local.get $at) (i32.const 4)))
      (if (i32.ne (i32.load (i32.add (i32.const 1572864) (local.get $at))) (local.get $value)) (then unreachable))
      (br_if $l (local.get $at))))
  (func (export "canister_update send") (local $n i32)
    (call $copy (i32.const 200) (i32.const 0) (i32.const 10))
    (call $count (i32.const 0))
    (local.set $n (i32.const ${CALLS}))
    (loop $l
      (call $new (i32.const 200) (i32.const 10) (i32.const 100) (i32.const 4)
        (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (call $data (i32.const 65536) (i32.const ${ARGUMENT_BYTES}))
      (if (call $perform) (then unreachable))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "canister_update take")
    (call $whole (i32.const ${ARGUMENT_BYTES}) (i32.const 0x01010101))
    (call $count (i32.const 4))
    (call $append (i32.const 786432) (i32.const ${REPLY_BYTES}))
    (call $reply))
  (func $back (param i32)
    (call $whole (i32.const ${REPLY_BYTES}) (i32.const 0x02020202))
    (call $count (i32.const 8))
    (if (i32.eqz (i32.rem_u (i32.load (i32.const 8)) (i32.const ${CALLS}))) (then (call $reply))))
  (func (export "canister_query look") (call $append (i32.const 0) (i32.const 12)) (call $reply)))`);

/** Counts of an actor: messages, calls that came, replies that came back. */
async function look(server: RunningServer, name: string): Promise<number[]> {
  const { status, body, text } = await send(server.origin, 'POST', `/query/${name}/look`, { body: '' });
  assert.equal(status, 200, text);
  return [0, 4, 8].map((at) => body.readUInt32LE(at));
}

/** Waits until all calls that were made have come, and all replies are back; returns the number of messages. */
async function settled(server: RunningServer): Promise<number> {
  for (;;) {
    const [sent = 0, , back] = await look(server, 'sender');
    const [, came] = await look(server, 'taker');
    if (came === sent * CALLS && back === sent * CALLS) return sent;
    assert.ok((came ?? 0) <= sent * CALLS && (back ?? 0) <= sent * CALLS, `${came} came, ${back} are back`);
    await sleep(50);
  }
}

async function rowsOf(directory: string): Promise<number> {
  const tables = await RocksdbTables.open(join(directory, 'tables'));
  try {
    return [...tables.range('queue', new Uint8Array(0), undefined)].length;
  } finally {
    await tables.close();
  }
}

test('large arguments and replies hold up nobody; killed meanwhile, a message has happened once or never', async (t) => {
  const folder = await temporaryDirectory();
  const state = join(folder, 'state');
  const options = { args: ['--state', state, '--executors', '2', '--cycles', '0'], manifest: '{"actors":{}}' };
  let server = await startServer(t, options);
  const agent = new Agent({ keepAlive: true });
  t.after(() => agent.destroy());
  const { wasm } = await compileMotoko(ANY_ACTOR);
  for (const [name, module] of Object.entries({ counter: wasm, sender: ACTOR, taker: ACTOR }))
    assert.equal((await server.post(`/install/${name}`, module)).status, 200);
  const actors = (await (await server.fetch('/actors')).json()) as { name: string; id: string }[];
  const taker = Buffer.from(actors.find(({ name }) => name === 'taker')?.id ?? '', 'hex');

  const stop = callCounter(server.origin, agent);
  const beganMs = performance.now();
  assert.equal((await send(server.origin, 'POST', '/call/sender/send', { body: taker })).status, 200);
  const tookMs = performance.now() - beganMs;
  const longestMs = await stop();
  assert.ok(
    longestMs < Math.max(HELD_UP_MS_MAX, tookMs * HELD_UP_SHARE_MAX),
    `a durable answer took ${longestMs} ms beside a message of ${tookMs} ms`,
  );

  // Between the pieces of arguments, while calls are delivered, and between the pieces of replies.
  let most = 1;
  for (const share of [1 / 6, 1 / 2, 5 / 6]) {
    const before = await settled(server);
    assert.ok(before <= most, `${before} messages, and ${most} were sent`);
    const lost = send(server.origin, 'POST', '/call/sender/send', { body: taker }).catch(() => undefined);
    most = before + 1;
    await sleep(tookMs * share);
    await server.kill();
    await lost;
    server = await startServer(t, options);
  }
  await settled(server);
  assert.equal(await server.stop(), 0);
  assert.equal(await rowsOf(state), 0);
});
