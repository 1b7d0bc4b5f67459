/**
 * A start reads the descriptions of modules; a module is prepared when the first of its actors wakes. Until then
 * everything else works as usual.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { IDL } from '@dfinity/candid';
import { Principal } from '@dfinity/principal';
import { ModuleLoader } from '../../../subsystems/execution/pool/module-loader.ts';
import { CodeCache } from '../../../subsystems/execution/wire/code-cache.ts';
import { codeVersion } from '../../../subsystems/instrument/index.ts';
import { type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { wat } from '../../support/wat.ts';

/** More modules than the host keeps of those that no actor uses. */
const COUNT = 36;
const NOTHING = Buffer.from('4449444c0000', 'hex');
const FUNCTIONS = `
  (func (export "canister_update inc") (call $count) (call $get))
  (func (export "canister_query get") (call $get))`;
const module = (more: string): Uint8Array =>
  wat(`(module
  (import "ic0" "time" (func $time (result i64)))
  (import "ic0" "global_timer_set" (func $set (param i64) (result i64)))
  (import "ic0" "msg_reply" (func $reply))
  (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
  (memory 1)
  (func $count (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))))
  (func $get (call $append (i32.const 0) (i32.const 4)) (call $reply))
  (func $arm (drop (call $set (i64.add (call $time) (i64.const 50000000)))))
  ${more})`);
const COUNTER = module(FUNCTIONS);
const BEATER = module(`${FUNCTIONS}(func (export "canister_heartbeat") (call $count))`);
const TICKER = module(`${FUNCTIONS}
  (func (export "canister_init") (call $arm))
  (func (export "canister_global_timer") (call $count) (call $arm))`);
const PROXY = wat(readFileSync(join(import.meta.dirname, '../semantics/actors/proxy.wat'), 'utf8'));

/** Makes a module of its own, with an interface that names it. */
function counter(at: number): Uint8Array {
  const name = 'icp:public candid:service';
  const content = `service : { get : () -> () query } // ${at}`;
  const section = Buffer.from(`${String.fromCharCode(name.length)}${name}${content}`, 'latin1');
  return Buffer.concat([COUNTER, Buffer.of(0, section.length), section]);
}

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Returns a function that lists the hashes of modules prepared from now on, once for each preparation. */
function watchLoads(t: TestContext): () => readonly string[] {
  const { mock } = t.mock.method(ModuleLoader.prototype, 'load');
  return () => mock.calls.map(({ arguments: [bytes] }) => hashOf(bytes));
}

async function numberFrom(server: InProcessServer, path: string): Promise<number> {
  const response = await server.fetch(path, { method: 'POST', body: NOTHING });
  const body = Buffer.from(await response.arrayBuffer());
  assert.equal(response.status, 200, `${path}: ${body.toString()}`);
  return body.readUInt32LE();
}

async function untilMore(server: InProcessServer, actor: string): Promise<void> {
  const before = await numberFrom(server, `/query/${actor}/get`);
  const endMs = performance.now() + 60_000;
  while ((await numberFrom(server, `/query/${actor}/get`)) <= before) {
    assert.ok(performance.now() < endMs, `${actor} does not go on`);
    await sleep(20);
  }
}

/** Has the proxy, the actor's controller, take a snapshot of the actor; returns the reject code. */
async function takeSnapshot(server: InProcessServer, actor: { id: string }): Promise<number> {
  const method = 'take_canister_snapshot';
  const id = Principal.fromUint8Array(Buffer.from(actor.id, 'hex'));
  const argument = new Uint8Array(IDL.encode([IDL.Record({ canister_id: IDL.Principal })], [{ canister_id: id }]));
  const body = Buffer.concat([Buffer.of(0, method.length), Buffer.from(method), Buffer.alloc(8), argument]);
  const response = await server.fetch('/call/proxy/forward', { method: 'POST', body });
  return Buffer.from(await response.arrayBuffer()).readUInt32LE();
}

interface Listed {
  readonly name: string;
  readonly id: string;
  readonly principal: string;
}

const listed = async (server: InProcessServer): Promise<readonly Listed[]> =>
  JSON.parse((await server.get('/inspect')).body) as readonly Listed[];

/** Returns the inode of each file that holds code: it differs if the file was made again. */
const codeIn = (state: string): ReadonlyMap<string, number> =>
  new Map(
    readdirSync(join(state, 'modules'))
      .filter((name) => name.endsWith('.code'))
      .map((name) => [name, statSync(join(state, 'modules', name)).ino]),
  );

suite('modules of actors that sleep', () => {
  test('are prepared when somebody wants the actors, once each, and are kept for the next start', async (t) => {
    const state = join(await temporaryDirectory(), 'state');
    const args = ['--state', state, '--live-cap', '3', '--timer-ms', '20'];
    const first = await startInProcess(t, { args });
    for (const [name, bytes] of Object.entries({ ticker: TICKER, beater: BEATER, proxy: PROXY }))
      assert.equal((await first.post(`/install/${name}`, bytes)).status, 200);
    const proxy = (await listed(first)).find(({ name }) => name === 'proxy');
    for (let at = 0; at < COUNT; at++) {
      const headers = { 'x-caller': proxy?.principal ?? '' };
      assert.equal((await first.post(`/install/c${at}`, counter(at), headers)).status, 200);
    }
    await numberFrom(first, '/call/c5/inc');
    await first.stop();
    const made = codeIn(state);
    assert.equal(made.size, COUNT + 3, 'those that sleep keep theirs');

    const loads = watchLoads(t);
    const second = await startInProcess(t, { args });
    const all = await listed(second);
    assert.equal(all.length, COUNT + 3);
    assert.equal((await second.get('/candid/c7')).body, 'service : { get : () -> () query } // 7');
    assert.equal((await second.post('/query/c7/nothing', NOTHING)).status, 404);
    const others = (): readonly string[] =>
      loads().filter((hash) => hash !== hashOf(TICKER) && hash !== hashOf(BEATER));
    assert.deepEqual(others(), [], 'nobody has called one');

    const counted = await Promise.all([1, 2, 3].map(() => numberFrom(second, '/call/c5/inc')));
    assert.deepEqual(new Set(counted), new Set([2, 3, 4]));
    assert.deepEqual(others(), [hashOf(counter(5))]);
    await untilMore(second, 'ticker');
    await untilMore(second, 'beater');

    assert.equal((await second.post('/upgrade/c1', counter(COUNT))).status, 200);
    assert.equal((await second.get('/candid/c1')).body, `service : { get : () -> () query } // ${COUNT}`);
    assert.equal((await second.post('/stop/c2')).status, 200);
    assert.equal((await second.post('/start/c2')).status, 200);
    assert.equal(await numberFrom(second, '/call/c2/inc'), 1);
    for (const path of ['/stop/c3', '/stop/c6']) assert.equal((await second.post(path)).status, 200);
    assert.equal((await second.fetch('/actors/c3', { method: 'DELETE' })).status, 200);
    const c4 = all.find(({ name }) => name === 'c4') ?? assert.fail('it is listed');
    assert.equal(await takeSnapshot(second, c4), 0);
    assert.equal(await numberFrom(second, '/query/c4/get'), 0);
    await second.stop();
    assert.equal(new Set(loads()).size, loads().length, 'none was prepared twice');
    assert.ok(!loads().includes(hashOf(counter(9))));

    const after = codeIn(state);
    for (const at of [0, 9, COUNT - 1]) {
      const name = `${hashOf(counter(at))}.code`;
      assert.equal(after.get(name), made.get(name), `c${at} was not made again`);
    }
    const third = await startInProcess(t, { args });
    assert.equal(await numberFrom(third, '/call/c5/inc'), 5);
    await third.stop();
  });

  test('of which something wrong was kept are refused when they wake, and put right for the next start', async (t) => {
    const state = join(await temporaryDirectory(), 'state');
    const args = ['--state', state, '--live-cap', '1'];
    const first = await startInProcess(t, { args });
    for (const at of [0, 1, 2]) assert.equal((await first.post(`/install/c${at}`, counter(at))).status, 200);
    await first.stop();
    const cache = new CodeCache(join(state, 'modules'), codeVersion());
    const info = cache.readInfo(hashOf(counter(1))) ?? assert.fail('it is kept');
    cache.writeInfo({ ...info, entries: new Map([...info.entries].map(([name, entry]) => [name, entry + 1])) });

    const second = await startInProcess(t, { args });
    const { status, body } = await second.post('/call/c1/inc', NOTHING);
    assert.equal(status, 404);
    assert.match(body, /actor c1 .*was rejected: the stored facts of its module did not equal the module/);
    assert.ok(second.log.announced.some((line) => line.startsWith('REJECTED c1 ')));
    assert.equal(await numberFrom(second, '/call/c0/inc'), 1);
    await second.stop();

    const third = await startInProcess(t, { args });
    assert.equal(await numberFrom(third, '/call/c1/inc'), 1);
    await third.stop();
  });
});
