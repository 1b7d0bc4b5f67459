/** The host's root key as canisters read it: the one that clients get, in updates, over restarts and crashes. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { principalOfKey } from '../../../subsystems/certification/index.ts';
import { startInProcess } from '../../support/in-process-server.ts';
import { type RunningServer, startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';
import { rootKeyOf } from './raw-agent.ts';

/** Replies with the key or the subnet; `keep` writes the key to stable memory, from which `kept` replies with it. */
const READER = wat(`(module
  (import "ic0" "root_key_size" (func $size (result i32)))
  (import "ic0" "root_key_copy" (func $copy (param i32 i32 i32)))
  (import "ic0" "subnet_self_size" (func $subnetSize (result i32)))
  (import "ic0" "subnet_self_copy" (func $subnetCopy (param i32 i32 i32)))
  (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
  (import "ic0" "stable64_write" (func $write (param i64 i64 i64)))
  (import "ic0" "stable64_read" (func $read (param i64 i64 i64)))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (import "ic0" "msg_reply" (func $reply))
  (memory (export "memory") 3)
  (func (export "canister_update key")
    (call $copy (i32.const 0) (i32.const 0) (call $size))
    (call $append (i32.const 0) (call $size))
    (call $reply))
  (func (export "canister_query subnet")
    (call $subnetCopy (i32.const 0) (i32.const 0) (call $subnetSize))
    (call $append (i32.const 0) (call $subnetSize))
    (call $reply))
  (func (export "canister_update keep")
    (drop (call $grow (i64.const 1)))
    (call $copy (i32.const 0) (i32.const 0) (call $size))
    (call $write (i64.const 0) (i64.const 0) (i64.extend_i32_u (call $size)))
    (call $reply))
  (func (export "canister_query kept")
    (call $read (i64.const 0) (i64.const 0) (i64.const 133))
    (call $append (i32.const 0) (i32.const 133))
    (call $reply)))`);
/** Has nothing to do with the key. */
const PLAIN = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (func (export "canister_update hello") (call $reply)))`);
const ZEROS = '00'.repeat(96);

interface Asked {
  fetch(path: string, init?: RequestInit): Promise<Response>;
}

async function called(server: Asked, path: string, body: Uint8Array = new Uint8Array(0)): Promise<Buffer> {
  const response = await server.fetch(path, { method: 'POST', body: new Uint8Array(body) });
  const bytes = Buffer.from(await response.arrayBuffer());
  assert.equal(response.status, 200, bytes.toString());
  return bytes;
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

suite('the root key in canisters', () => {
  test('updates read the key of the status, queries its subnet, before and after a restart', async (t) => {
    const args = ['--state', await temporaryDirectory()];
    const server = await startInProcess(t, { args });
    await called(server, '/install/it', READER);
    const key = hexOf(await called(server, '/call/it/key'));
    assert.equal(key, hexOf(await rootKeyOf(server)));
    assert.ok(!key.endsWith(ZEROS));
    await server.stop();
    const later = await startInProcess(t, { args });
    assert.equal(hexOf(await called(later, '/call/it/key')), key);
    assert.equal(hexOf(await called(later, '/query/it/subnet')), hexOf(principalOfKey(Buffer.from(key, 'hex'))));
    assert.equal(hexOf(await rootKeyOf(later)), key);
  });

  test('an actor that gets such code later reads the key, by an upgrade too', async (t) => {
    const server = await startInProcess(t);
    await called(server, '/install/it', PLAIN);
    await called(server, '/call/it/hello');
    await called(server, '/upgrade/it', READER);
    assert.equal(hexOf(await called(server, '/call/it/key')), hexOf(await rootKeyOf(server)));
  });

  test('with --agents off the key is zeros', async (t) => {
    const server = await startInProcess(t, { args: ['--agents', 'off'] });
    await called(server, '/install/it', READER);
    const key = hexOf(await called(server, '/call/it/key'));
    assert.equal(key.length, 266);
    assert.ok(key.endsWith(ZEROS));
  });

  test('a log that is run again after a crash gives each message the key that it read, whatever --agents is since', async (t) => {
    const directory = await temporaryDirectory();
    const start = (agents: string): Promise<RunningServer> =>
      // So each actor has a log.
      startServer(t, {
        manifest: '{ "actors": {} }',
        args: ['--state', directory, '--agents', agents, '--snapshot-below', '0'],
      });
    const first = await start('off');
    await called(first, '/install/without', READER);
    await called(first, '/call/without/keep');
    await first.kill();
    const second = await start('guarded');
    assert.ok(hexOf(await called(second, '/query/without/kept')).endsWith(ZEROS));
    const key = hexOf(await called(second, '/call/without/key'));
    assert.ok(!key.endsWith(ZEROS));
    await called(second, '/install/with', READER);
    await called(second, '/call/with/keep');
    await second.kill();
    const third = await start('off');
    assert.equal(hexOf(await called(third, '/query/with/kept')), key);
    assert.ok(hexOf(await called(third, '/call/with/key')).endsWith(ZEROS));
  });
});
