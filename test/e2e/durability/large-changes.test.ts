/**
 * A change of code that fills large memories is stored ahead, piece by piece (ADR 74): other actors' durable answers
 * are not delayed by it. If the server is killed during the change, the actor is as it was before, and none of the
 * stored pieces is left.
 */
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { memoryId, META, metaKey } from '../../../subsystems/storage/keyspace.ts';
import { prefixEnd } from '../../../subsystems/storage/overlay-layer.ts';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { ID_BYTES } from '../../../subsystems/storage/write-batch.ts';
import { send } from '../../support/http-client.ts';
import { ANY_ACTOR, compileMotoko } from '../../support/motoko.ts';
import { type RunningServer, startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';
import { callCounter } from './counter-calls.ts';

/** Bytes of the heap, and of stable memory. As one unit, they made others wait for two thirds of the change's time. */
const BYTES = 24 * 2 ** 20;
/** Bounds of others' waiting on a busy machine: a part of the change's time, or an absolute time. */
const HELD_UP_SHARE_MAX = 1 / 4;
const HELD_UP_MS_MAX = 1000;

const PAGES = BYTES / 65_536 + 1;
/** Makes a module whose `look` answers the first and the last byte of each memory. */
const largeModule = (value: number): Uint8Array =>
  wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (import "ic0" "stable64_read" (func $read (param i64 i64 i64)))
  (memory (export "memory") ${PAGES})
  (func (export "canister_init")
    (memory.fill (i32.const 65536) (i32.const ${value}) (i32.const ${BYTES}))
    (drop (call $grow (i64.const ${PAGES})))
    (call $write (i64.const 0) (i64.const 65536) (i64.const ${BYTES})))
  (func (export "canister_query look")
    (call $append (i32.const 65536) (i32.const 1))
    (call $append (i32.const ${65_536 + BYTES - 1}) (i32.const 1))
    (call $read (i64.const 0) (i64.const 0) (i64.const 1))
    (call $append (i32.const 0) (i32.const 1))
    (call $read (i64.const 0) (i64.const ${BYTES - 1}) (i64.const 1))
    (call $append (i32.const 0) (i32.const 1))
    (call $reply)))`);

async function look(server: RunningServer): Promise<number[]> {
  const { status, body } = await send(server.origin, 'POST', '/query/large/look', { body: '' });
  assert.equal(status, 200);
  return [...body];
}

/** Checks that only existing actors have pages, in the current copy. */
async function checkPages(directory: string): Promise<void> {
  const tables = await RocksdbTables.open(join(directory, 'tables'));
  try {
    const named = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
    const identities = [...tables.range('meta', metaKey(META.identity), prefixEnd(metaKey(META.identity)))];
    const counting = identities.map(([key]) => {
      const id = key.subarray(1);
      return named(memoryId(id, tables.get('meta', metaKey(META.copy, id))?.[0] ?? 0));
    });
    for (const family of ['heap', 'stable'] as const) {
      for (const [key] of tables.range(family, new Uint8Array(0), undefined))
        assert.ok(counting.includes(named(key.subarray(0, ID_BYTES))), `a page of ${family} is nobody's`);
    }
    assert.deepEqual([...tables.range('meta', metaKey(META.ahead), prefixEnd(metaKey(META.ahead)))], []);
  } finally {
    await tables.close();
  }
}

test('a large installation holds up nobody, and one that is killed leaves the actor as it was', async (t) => {
  const folder = await temporaryDirectory();
  const state = join(folder, 'state');
  const options = { args: ['--state', state, '--executors', '2'], manifest: '{"actors":{}}' };
  const server = await startServer(t, options);
  const agent = new Agent({ keepAlive: true });
  t.after(() => agent.destroy());
  const { wasm } = await compileMotoko(ANY_ACTOR);
  assert.equal((await server.post('/install/counter', wasm)).status, 200);
  const stop = callCounter(server.origin, agent);
  const beganMs = performance.now();
  const installed = await server.post('/install/large', largeModule(7));
  const tookMs = performance.now() - beganMs;
  assert.equal(installed.status, 200, installed.body);
  const longestMs = await stop();
  assert.ok(
    longestMs < Math.max(HELD_UP_MS_MAX, tookMs * HELD_UP_SHARE_MAX),
    `a durable answer took ${longestMs} ms beside an installation of ${tookMs} ms`,
  );
  assert.deepEqual(await look(server), [7, 7, 7, 7]);

  const reinstalled = server.post('/install/large?mode=reinstall', largeModule(8)).catch(() => undefined);
  const other = server.post('/install/other', largeModule(9)).catch(() => undefined);
  await sleep(tookMs / 2);
  await server.kill();
  await Promise.all([reinstalled, other]);

  const again = await startServer(t, options);
  const [value, ...rest] = await look(again);
  // If the machine was quicker this time, the change was already done.
  assert.ok(value === 7 || value === 8, `the actor has ${value}`);
  assert.deepEqual(rest, [value, value, value]);
  assert.equal(await again.stop(), 0);
  await checkPages(state);
});
