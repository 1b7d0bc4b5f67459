/** A backup of a working server, and a server that starts from it. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type RunningServer, startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const NO_ACTORS = '{ "actors": {} }';

/** Counts in its heap and in stable memory, behind 4 MiB that make the backup larger than one or two pieces. */
const COUNTER = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (import "ic0" "stable64_read" (func $read (param i64 i64 i64)))
  (memory 65)
  (func (export "canister_init") (local $i i32)
    (drop (call $grow (i64.const 65)))
    (loop $fill
      (i32.store offset=65536 (local.get $i) (i32.mul (local.get $i) (i32.const 0x9e3779b1)))
      (br_if $fill (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (i32.const 4194304))))
    (call $write (i64.const 65536) (i64.const 65536) (i64.const 4194304)))
  (func $answer
    (call $read (i64.const 4) (i64.const 0) (i64.const 4))
    (call $append (i32.const 0) (i32.const 8))
    (call $reply))
  (func (export "canister_update inc")
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (call $write (i64.const 0) (i64.const 0) (i64.const 4))
    (call $answer))
  (func (export "canister_query get") (call $answer)))`);

/** Returns an actor's count, which must be the same in both memories. */
async function counted(server: RunningServer, path: string, method: 'call' | 'query'): Promise<number> {
  const response = await server.fetch(`/${method}/${path}`, { method: 'POST' });
  assert.equal(response.status, 200);
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.equal(bytes.readUInt32LE(0), bytes.readUInt32LE(4));
  return bytes.readUInt32LE(0);
}

test('a backup taken under load is one moment of all actors, and a server starts from it', async (t) => {
  const folder = await temporaryDirectory();
  const server = await startServer(t, { manifest: NO_ACTORS, args: ['--state', join(folder, 'first')] });
  for (const name of ['one', 'two']) assert.equal((await server.post(`/install/${name}`, COUNTER)).status, 200);
  const ids = await server.get('/actors');

  // Each client adds to one actor, then to two: at no moment may the two differ by more than one per client.
  const clients = 4;
  let isOver = false;
  let acknowledged = 0;
  const working = Array.from({ length: clients }, async () => {
    while (!isOver) {
      await counted(server, 'one/inc', 'call');
      acknowledged = Math.max(acknowledged, await counted(server, 'two/inc', 'call'));
    }
  });
  while (acknowledged < 100) await new Promise((resolve) => setTimeout(resolve, 5));
  const before = acknowledged;
  const response = await server.fetch('/backup');
  assert.equal(response.status, 200);
  const pieces: Uint8Array[] = [];
  for await (const piece of response.body ?? []) {
    pieces.push(piece as Uint8Array);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const after = acknowledged;
  isOver = true;
  await Promise.all(working);
  assert.ok(after > before, 'the server went on meanwhile');
  assert.equal(await server.stop(), 0);

  const file = join(folder, 'kept.backup');
  await writeFile(file, Buffer.concat(pieces));
  const args = ['--state', join(folder, 'second'), '--restore', file];
  const second = await startServer(t, { manifest: NO_ACTORS, args });
  assert.match(
    second.output.stdout,
    new RegExp(`^restored \\d+ entries \\(${Buffer.concat(pieces).length} bytes\\) from `),
  );
  assert.deepEqual(await second.get('/actors'), ids);
  const one = await counted(second, 'one/get', 'query');
  const two = await counted(second, 'two/get', 'query');
  assert.ok(two >= before, `${before} were acknowledged before, ${two} are in the backup`);
  assert.ok(one >= two && one - two <= clients, `one has ${one}, two has ${two}: not of one moment`);
  assert.equal(await counted(second, 'two/inc', 'call'), two + 1);
  assert.equal(await second.stop(), 0);
});

test('without a state directory there is no backup', async (t) => {
  const server = await startServer(t, { manifest: NO_ACTORS });
  const { status, body } = await server.get('/backup');
  assert.equal(status, 400);
  assert.match(body, /start it with --state DIR/);
});
