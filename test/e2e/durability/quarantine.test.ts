/**
 * An actor whose module cannot be read at one start is kept out, and goes on at the next start as if that one had not
 * happened.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { IDL } from '@dfinity/candid';
import { Principal } from '@dfinity/principal';
import { RocksdbTables } from '../../../subsystems/storage/rocksdb-tables.ts';
import { type RunningServer, startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';

/** Counts the runs of its timer, every 0.2 s. */
const TICKER = wat(`(module
  (import "ic0" "time" (func $time (result i64)))
  (import "ic0" "global_timer_set" (func $set (param i64) (result i64)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (memory 1)
  (func $arm (drop (call $set (i64.add (call $time) (i64.const 200000000)))))
  (func (export "canister_init") (call $arm))
  (func (export "canister_global_timer")
    (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (call $arm))
  (func (export "canister_query count") (call $append (i32.const 0) (i32.const 4)) (call $reply)))`);
const PROXY = wat(readFileSync(join(import.meta.dirname, '../semantics/actors/proxy.wat'), 'utf8'));
const NO_ACTORS = '{ "actors": {} }';
const NO_ARGUMENTS = Buffer.from('4449444c0000', 'hex');

async function listed(server: RunningServer, name: string): Promise<{ id: string; principal: string }> {
  const all = JSON.parse((await server.get('/inspect')).body) as { name: string; id: string; principal: string }[];
  return all.find((actor) => actor.name === name) ?? assert.fail(`there is no ${name}`);
}

async function countOf(server: RunningServer): Promise<number> {
  const response = await server.fetch('/query/ticker/count', { method: 'POST', body: NO_ARGUMENTS });
  const body = Buffer.from(await response.arrayBuffer());
  assert.equal(response.status, 200, body.toString());
  return body.readUInt32LE();
}

async function untilCount(server: RunningServer, least: number): Promise<void> {
  const endMs = performance.now() + 20_000;
  while ((await countOf(server)) < least) {
    assert.ok(performance.now() < endMs, 'its timer does not fire');
    await sleep(20);
  }
}

/** Returns the proxy's argument for calling a method of the management canister about the actor `id`. */
function forwarded(method: string, id: string): Uint8Array {
  const argument = IDL.encode(
    [IDL.Record({ canister_id: IDL.Principal })],
    [{ canister_id: Principal.fromUint8Array(Buffer.from(id, 'hex')) }],
  );
  return Buffer.concat([Buffer.of(0, method.length), Buffer.from(method), Buffer.alloc(8), new Uint8Array(argument)]);
}

/** Removes the module's row from the tables of a stopped server; the returned function puts it back. */
async function withoutModule(state: string): Promise<() => Promise<void>> {
  const path = join(state, 'tables');
  const write = async (value: Uint8Array | undefined, key: Uint8Array): Promise<void> => {
    const tables = await RocksdbTables.open(path);
    tables.write([{ family: 'module', key, value }], { isSynced: true });
    await tables.close();
  };
  const tables = await RocksdbTables.open(path);
  const rows = [...tables.range('module', new Uint8Array(0), undefined)].map(
    ([k, v]) => [k.slice(), v.slice()] as const,
  );
  await tables.close();
  const [key, value] = rows.find(([, bytes]) => Buffer.compare(bytes, TICKER) === 0) ?? assert.fail('no such module');
  await write(undefined, key);
  return () => write(value, key);
}

test('what is stored of it stays: its timer, its code, and its status, whatever its controller says meanwhile', async (t) => {
  const state = join(await temporaryDirectory(), 'state');
  const start = () => startServer(t, { manifest: NO_ACTORS, args: ['--state', state, '--executors', '1'] });
  let server = await start();
  assert.equal((await server.post('/install/proxy', PROXY)).status, 200);
  const { principal } = await listed(server, 'proxy');
  assert.equal((await server.post('/install/ticker', TICKER, { 'x-caller': principal })).status, 200);
  const { id } = await listed(server, 'ticker');
  await untilCount(server, 2);
  await server.stop();

  const putBack = await withoutModule(state);
  server = await start();
  assert.match(server.output.stdout, /^REJECTED ticker .*module/m);
  for (const method of ['start_canister', 'stop_canister', 'uninstall_code']) {
    const answer = await server.fetch('/call/proxy/forward', {
      method: 'POST',
      body: Buffer.from(forwarded(method, id)),
    });
    const body = Buffer.from(await answer.arrayBuffer());
    assert.match(body.toString(), /cannot be used, and stays as it is stored: .*module/, method);
  }
  // The actor's timer was due long ago.
  await sleep(500);
  await server.stop();

  await putBack();
  server = await start();
  assert.doesNotMatch(server.output.stdout, /REJECTED/);
  await untilCount(server, (await countOf(server)) + 2);
});
