/** Modules compiled elsewhere, installed while the server runs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { startInProcess } from '../support/in-process-server.ts';
import { compileMotoko } from '../support/motoko.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { wat } from '../support/wat.ts';

const LEDGER = `
  import Debug "mo:core/Debug";
  persistent actor class Ledger(symbol : Text, supply : Nat) {
    var total = supply;
    public func mint(n : Nat) : async Nat { Debug.print("minting " # debug_show n); total += n; total };
    public query func info() : async { symbol : Text; total : Nat; owner : ?Principal } {
      { symbol; total; owner = null }
    };
    public shared ({ caller }) func whoami() : async Principal { caller };
  };`;
/** ("T", 5) */
const ARGUMENT = '0x4449444c0002717d015405';

for (const persistence of ['enhanced', 'classical'] as const) {
  test(`a Motoko module in ${persistence} persistence installs, raw and gzip, and works`, async (t) => {
    const { wasm } = await compileMotoko(LEDGER, { persistence });
    const server = await startInProcess(t);
    const installed = await server.post(`/install/ledger?arg=${ARGUMENT}`, wasm);
    assert.equal(installed.status, 200, installed.body);
    assert.match(installed.body, /^[0-9a-f]{20}$/);
    assert.deepEqual(await server.post('/call-json/ledger/mint', '[7]'), { status: 200, body: '[12]' });
    // The actor is found by name, by hex id and by principal.
    for (const actor of ['ledger', installed.body, 'bkyz2-fmaaa-aaaaa-qaaaq-cai']) {
      const info = await server.post(`/query-json/${actor}/info`);
      assert.deepEqual(JSON.parse(info.body), [{ symbol: 'T', total: 12, owner: null }], actor);
    }
    assert.deepEqual(await server.get('/logs/ledger'), { status: 200, body: 'minting 7\n' });
    assert.deepEqual(await server.get('/logs/ledger'), { status: 200, body: '' }, 'reading clears');
    const caller = 'bkyz2-fmaaa-aaaaa-qaaaq-cai';
    assert.equal((await server.post('/call-json/ledger/whoami', '[]', { 'x-caller': caller })).body, `["${caller}"]`);

    const packed = await server.post(`/install/packed?arg=${ARGUMENT}`, gzipSync(wasm));
    assert.equal(packed.status, 200, packed.body);
    assert.equal((await server.post('/call-json/packed/mint', '[1]')).body, '[6]', 'a state of its own');
  });
}

test('an init hook that traps leaves no actor, and tells what it printed', async (t) => {
  const { wasm } = await compileMotoko(`
    import Debug "mo:core/Debug";
    persistent actor { Debug.print("looking around"); assert false; }`);
  const server = await startInProcess(t);
  const failed = await server.post('/install/unlucky', wasm);
  assert.equal(failed.status, 400);
  const error = JSON.parse(failed.body) as { code: number; message: string; logs: string[] };
  assert.equal(error.code, 5);
  assert.match(error.message, /assertion failed/);
  assert.equal(error.logs[0], 'looking around');
  assert.equal((await server.post('/call-json/unlucky/x')).status, 404);
  const lucky = await server.post('/install/unlucky', wat('(module)'));
  assert.equal(lucky.status, 200, 'the name is still free');
});

test('a module as Rust makes them: no exported table, a mutable stack pointer, an interface behind a pointer', async (t) => {
  const did = 'service : { add : (nat8) -> (nat8); total : () -> (nat8) query; fail : (nat8) -> (nat8) }';
  const module = wat(`(module
    (import "ic0" "msg_arg_data_size" (func $size (result i32)))
    (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (import "ic0" "msg_reply" (func $reply))
    (memory (export "memory") 17)
    (table 2 2 funcref) (elem (i32.const 1) $bump)
    (type $unary (func (param i32)))
    (global $__stack_pointer (mut i32) (i32.const 1048576))
    (data (i32.const 1048576) "DIDL\\00\\01\\7b\\00")
    (data (i32.const 1048700) "${did}\\00")
    (func $bump (param $by i32)
      (i32.store8 (i32.const 1048583) (i32.add (i32.load8_u (i32.const 1048583)) (local.get $by))))
    (func $answer (call $append (i32.const 1048576) (i32.const 8)) (call $reply))
    (func $add (local $frame i32)
      (local.set $frame (i32.sub (global.get $__stack_pointer) (i32.const 16)))
      (global.set $__stack_pointer (local.get $frame))
      (call $copy (local.get $frame) (i32.const 0) (call $size))
      (call_indirect (type $unary) (i32.load8_u offset=7 (local.get $frame)) (i32.const 1))
      (global.set $__stack_pointer (i32.add (local.get $frame) (i32.const 16))))
    (func (export "canister_update add") (call $add) (call $answer))
    (func (export "canister_update fail") (call $add) (global.set $__stack_pointer (i32.const 0)) (unreachable))
    (func (export "canister_query total") (call $answer))
    (func (export "get_candid_pointer") (result i32) (i32.const 1048700)))`);
  const server = await startInProcess(t);
  assert.equal((await server.post('/install/rusty', module)).status, 200);
  assert.deepEqual(await server.post('/call-json/rusty/add', '[5]'), { status: 200, body: '[5]' });
  const failed = await server.post('/call-json/rusty/fail', '[100]');
  assert.equal(failed.status, 400);
  assert.match(failed.body, /unreachable/);
  assert.deepEqual(
    await server.post('/call-json/rusty/add', '[2]'),
    { status: 200, body: '[7]' },
    'memory and globals are as before',
  );
  assert.deepEqual(await server.post('/query-json/rusty/total'), { status: 200, body: '[7]' });
});

test('why an interface was not understood is told to who needs it, also after a restart', async (t) => {
  const withInterface = (did: string): Uint8Array =>
    wat(`(module
      (import "ic0" "msg_reply" (func $reply))
      (memory 1)
      (data (i32.const 16) "${did}\\00")
      (func (export "canister_update run") (call $reply))
      (func (export "get_candid_pointer") (result i32) (i32.const 16)))`);
  const args = ['--state', await temporaryDirectory()];
  const place = /line 1, column 20: the type "Nat65" is not defined/;
  {
    const server = await startInProcess(t, { args });
    const broken = withInterface('service : { run : (Nat65) -> () }');
    assert.equal((await server.post('/install/broken', broken)).status, 200);
    assert.equal(
      (await server.post('/install/plain', withInterface('type A = nat64 service : { run : () -> (A) }'))).status,
      200,
    );
    const { body } = await server.post('/call-json/plain/run');
    assert.match(body, /does not fit its interface/, 'the interface is there: it does not reply a nat64');
    const refused = await server.post('/call-json/broken/run');
    assert.equal(refused.status, 400);
    assert.match(refused.body, /the Candid interface of broken was not understood \(/);
    assert.match(refused.body.replaceAll('\\"', '"'), place);
    await server.stop();
  }
  const server = await startInProcess(t, { args });
  assert.match((await server.post('/call-json/broken/run')).body.replaceAll('\\"', '"'), place);
  const inspected = JSON.parse((await server.get('/inspect')).body) as Record<string, unknown>[];
  const [broken, plain] = ['broken', 'plain'].map((name) => inspected.find((actor) => actor['name'] === name));
  assert.match(String(broken?.['candidProblem']), place);
  assert.equal(broken?.['candid'], null);
  assert.equal(plain?.['candidProblem'], null);
});
