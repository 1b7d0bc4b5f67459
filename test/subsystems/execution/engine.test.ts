import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FULL_LIMIT } from '../../../subsystems/ic/index.ts';
import { chargeOf } from '../../../subsystems/metering/index.ts';
import {
  ANONYMOUS,
  assemble,
  contextOf,
  faultOf,
  load,
  POLICY,
  replyOf,
  TestCanister,
  type Width,
  WIDTHS,
  withOutcome,
} from './engine-fixture.ts';
import { type Call, encodeScript, ScriptCanister, scriptModule } from './script-canister.ts';

const SPIN: readonly Call[] = [['spin']];
const NOTHING: readonly Call[] = [['msg_reply']];

for (const width of WIDTHS) {
  describe(`engine, ${width}-bit`, () => {
    test('an update keeps what it wrote, a query and a trap do not: heap, size, globals and stable memory byte for byte', () => {
      const c = new ScriptCanister(width);
      const change: readonly Call[] = [
        ['store8', 200_000, 9],
        ['store8', 3_000_000, 1],
        ['global_set', 99],
        ['stable64_grow', 2],
        ['stable64_write', 100, 0, 70_000],
        ['certified_data_set', 0, 3],
      ];
      const before = c.canister.fingerprint();
      const attempts = [
        c.run([...change.slice(0, 5), ['msg_reply']], undefined, 'query'),
        c.run([...change.slice(0, 5), ['msg_reply']], undefined, 'update', 'look'),
        c.run([...change.slice(0, 5), ['msg_reply']], undefined, 'query', 'compose'),
        c.run([...change, ['msg_reply'], ['unreachable']]),
        c.run([...change, ['heap_grow', 3], ['store8', 67 * 65_536 - 1, 1], ['trap', 0, 0]]),
        c.run([...change, ['heap_grow', 3], ['msg_reply']].slice(5) as Call[], undefined, 'query'),
      ];
      assert.deepEqual(
        attempts.map(({ outcome }) => outcome.kind),
        ['reply', 'reply', 'reply', 'trap', 'trap', 'trap'],
      );
      assert.equal(c.canister.fingerprint(), before);
      replyOf(c.run([...change, ['msg_reply']]));
      assert.notEqual(c.canister.fingerprint(), before);
      assert.deepEqual(c.results([['global_get'], ['load8', 200_000], ['load8', 3_000_000], ['stable64_size']]), [
        99n,
        9n,
        1n,
        2n,
      ]);
    });

    test('heap that a query or a trapped message grew is gone afterwards', () => {
      const c = new ScriptCanister(width);
      const bytes = c.canister.instance.heapBytes;
      const grow: readonly Call[] = [
        ['heap_grow', 5],
        ['store8', bytes + 10, 7],
      ];
      c.results(grow, undefined, 'query');
      assert.match(c.trap([...grow, ['unreachable']]), /unreachable/);
      assert.equal(c.canister.instance.heapBytes, bytes);
      assert.match(c.trap([['load8', bytes]]), /out of bounds/);
      assert.deepEqual(
        c.results([
          ['heap_grow', 1],
          ['load8', bytes + 10],
        ]),
        [BigInt(bytes / 65_536), 0n],
      );
    });

    test('an endless loop ends at the limit, is rolled back and paid for, and the canister goes on', () => {
      const c = new ScriptCanister(width, { policy: { instructionLimit: 1_000_000 } });
      const before = c.canister.fingerprint();
      const balance = c.canister.state.account.balance;
      const result = c.run([['store8', 1, 1], ...SPIN]);
      const text = 'Canister exceeded the limit of 1000000 instructions for single message execution.';
      assert.equal(faultOf(result, 'limit'), text);
      assert.deepEqual(result.debug, [text]);
      assert.equal(result.outcome.instructions, 1_000_000);
      assert.equal(result.outcome.charge, 590_000 + 400_000);
      assert.equal(c.canister.state.account.balance, balance - 990_000n);
      assert.equal(c.canister.fingerprint(), before);
      replyOf(c.run(NOTHING));
    });

    test('a query is limited too, and never charged', () => {
      const c = new ScriptCanister(width, { policy: { instructionLimit: 1_000_000 } });
      const balance = c.canister.state.account.balance;
      const limited = c.run(SPIN, undefined, 'query');
      assert.equal(limited.outcome.kind, 'limit');
      assert.equal(limited.outcome.charge, 0);
      const answered = c.run(NOTHING, undefined, 'query');
      assert.ok(answered.outcome.instructions > 0);
      assert.equal(c.canister.state.account.balance, balance);
    });

    test('a message costs its instructions, exactly, and the same message the same again', () => {
      const c = new ScriptCanister(width);
      const calls: readonly Call[] = [['stable64_grow', 0], ['msg_caller_copy', 0, 0, 1], ['msg_reply']];
      const balance = c.canister.state.account.balance;
      const first = c.run(calls).outcome;
      const second = c.run(calls).outcome;
      assert.equal(first.charge, chargeOf(POLICY, first.instructions));
      assert.deepEqual([second.instructions, second.charge], [first.instructions, first.charge]);
      assert.equal(c.canister.state.account.balance, balance - 2n * BigInt(first.charge));
      // As a replicated query it is charged as well.
      const replicated = c.run(calls, undefined, 'update', 'look').outcome;
      assert.equal(replicated.charge, chargeOf(POLICY, replicated.instructions));
    });

    test('exactly the instructions needed suffice, and one less does not', () => {
      const calls: readonly Call[] = [
        ['stable64_grow', 1],
        ['stable64_write', 10, 0, 5000],
        ['debug_print', 0, 3],
        ['msg_reply'],
      ];
      const needed = new ScriptCanister(width).run(calls).outcome.instructions;
      const enough = new ScriptCanister(width, { policy: { instructionLimit: needed } }).run(calls).outcome;
      assert.deepEqual([enough.kind, enough.instructions], ['reply', needed]);
      const tooFew = new ScriptCanister(width, { policy: { instructionLimit: needed - 1 } }).run(calls).outcome;
      assert.deepEqual([tooFew.kind, tooFew.instructions], ['limit', needed - 1]);
    });

    test('a dry canister runs nothing, not even queries, until it has cycles again', () => {
      const c = new ScriptCanister(width);
      const { account } = c.canister.state;
      account.add(589_999n - account.balance);
      const before = c.canister.fingerprint();
      for (const kind of ['update', 'query'] as const) {
        const { outcome } = c.run([['store8', 0, 1], ['msg_reply']], undefined, kind);
        assert.ok(outcome.kind === 'outOfCycles' && outcome.code === 2, JSON.stringify(outcome));
        assert.match(outcome.message, /out of cycles: a message costs at least 590000/);
        assert.deepEqual([outcome.instructions, outcome.charge], [0, 0]);
      }
      assert.equal(c.canister.fingerprint(), before);
      assert.equal(account.balance, 589_999n);
      account.add(10_000_000n);
      replyOf(c.run(NOTHING));
    });

    test('a balance that buys fewer instructions than the limit is a limit: rolled back, and spent', () => {
      const c = new ScriptCanister(width);
      const { account } = c.canister.state;
      account.add(590_000n + 400_001n - account.balance);
      const before = c.canister.fingerprint();
      const { outcome, debug } = c.run([['store8', 0, 1], ...SPIN]);
      assert.ok(outcome.kind === 'outOfCycles' && outcome.code === 2, JSON.stringify(outcome));
      assert.match(outcome.message, /its balance paid for 1000002 instructions/);
      assert.equal(debug.length, 1);
      assert.equal(outcome.charge, 990_001);
      assert.equal(account.balance, 0n);
      assert.equal(c.canister.fingerprint(), before);
    });

    test('a short message on a short balance runs and pays what it costs', () => {
      const c = new ScriptCanister(width);
      const { account } = c.canister.state;
      account.add(2_000_000n - account.balance);
      const { outcome } = c.run(NOTHING);
      assert.equal(outcome.kind, 'reply');
      assert.equal(account.balance, 2_000_000n - BigInt(outcome.charge));
    });

    test('without metering nothing is charged and the limit holds', () => {
      const c = new ScriptCanister(width, {
        policy: { isEnabled: false, instructionLimit: 500_000 },
        spec: { balance: 0n },
      });
      assert.deepEqual([c.run(NOTHING).outcome.kind, c.run(NOTHING).outcome.charge], ['reply', 0]);
      assert.equal(c.run(SPIN).outcome.kind, 'limit');
      assert.equal(c.canister.state.account.balance, 0n);
    });

    test('init runs with its argument and caller, may write stable memory, and counts as one version', () => {
      const c = new ScriptCanister(width, {
        init: [['stable64_grow', 1], ['msg_caller_copy', 5, 0, 1], ['certified_data_set', 5, 1], ['canister_version']],
      });
      assert.equal(c.canister.installed.outcome.kind, 'reply');
      assert.equal(c.canister.installed.outcome.charge, chargeOf(POLICY, c.canister.installed.outcome.instructions));
      assert.deepEqual(c.results([['load8', 5], ['stable64_size'], ['canister_version']]), [4n, 1n, 1n]);
      assert.deepEqual(c.canister.state.certifiedData, ANONYMOUS);
    });

    test('an init that traps leaves the canister as it was', () => {
      const c = new ScriptCanister(width, {
        init: [['stable64_grow', 3], ['stable64_write', 0, 0, 9000], ['debug_print', 0, 0], ['unreachable']],
      });
      const { installed, state, engine } = c.canister;
      assert.match(faultOf(installed, 'trap'), /unreachable/);
      assert.equal(installed.debug.length, 2);
      assert.deepEqual(
        [state.installed, state.stable.pages, state.stable.storedBytes, state.version],
        [undefined, 0, 0, 0],
      );
      const { outcome } = c.run(NOTHING);
      assert.deepEqual(
        [outcome.kind, faultOf(c.run(NOTHING), 'unavailable')],
        ['unavailable', 'the canister contains no Wasm module'],
      );
      // The thread still works.
      assert.equal(engine.stableBytesStored, 0);
      assert.equal(c.canister.install(encodeScript(width, [['stable64_grow', 1]])).outcome.kind, 'reply');
      assert.deepEqual(c.results([['stable64_size']]), [1n]);
    });

    test('a reinstall that traps keeps code, heap and stable memory; one that works starts afresh', () => {
      const c = new ScriptCanister(width);
      c.results([
        ['stable64_grow', 2],
        ['stable64_write', 7, 0, 100],
        ['global_set', 5],
      ]);
      const before = c.canister.fingerprint();
      assert.equal(
        c.canister.install(encodeScript(width, [['stable64_grow', 9], ['unreachable']])).outcome.kind,
        'trap',
      );
      assert.equal(c.canister.fingerprint(), before);
      assert.equal(c.canister.install().outcome.kind, 'reply');
      assert.deepEqual(c.results([['stable64_size'], ['global_get']]), [0n, 7n]);
      assert.deepEqual([c.canister.state.stable.storedBytes, c.canister.engine.stableBytesStored], [0, 0]);
    });

    test('the start function runs before init, in the start context, on the same limit', () => {
      const text = (limitless: string): string => `(module
        (import "ic0" "stable64_grow" (func $grow (param i64) (result i64)))
        (import "ic0" "in_replicated_execution" (func $replicated (result i32)))
        (import "ic0" "msg_reply" (func $reply))
        (import "ic0" "msg_reply_data_append" (func $append (param PTR PTR)))
        ${limitless}
        (memory %index 1)
        (func $start (drop (call $grow (i64.const 4))) (i32.store8 (PTR.const 0) (call $replicated)))
        (start $start)
        (func (export "canister_init") (i32.store8 (PTR.const 1) (i32.add (i32.load8_u (PTR.const 0)) (i32.const 1))))
        (func (export "canister_query state") (call $append (PTR.const 0) (PTR.const 2)) (call $reply)))`;
      const c = new TestCanister({ bytes: assemble(width, text('')) });
      assert.deepEqual(replyOf(c.query('state')), new Uint8Array([1, 2]));
      assert.equal(c.state.stable.pages, 4);
      const wrong = text('(import "ic0" "time" (func $time (result i64))) (func $early (drop (call $time)))').replace(
        '(func $start ',
        '(func $start (call $early) ',
      );
      const refused = new TestCanister({ bytes: assemble(width, wrong) });
      assert.equal(
        faultOf(refused.installed, 'trap'),
        'Canister violated contract: "ic0_time" cannot be executed in start mode',
      );
      const endless = `(module (memory %index 1) (func $s (loop $l (br $l))) (start $s))`;
      assert.equal(
        new TestCanister({ bytes: assemble(width, endless), policy: { instructionLimit: 100_000 } }).installed.outcome
          .kind,
        'limit',
      );
    });

    test('deep recursion is a trap, rolled back, in init and in messages', () => {
      const text = `(module (import "ic0" "msg_reply" (func $reply)) (memory %index 1)
        (func $deep (param i64) (result i64)
          (i64.store (PTR.const 8) (local.get 0))
          (i64.add (i64.const 1) (call $deep (i64.add (local.get 0) (i64.const 1)))))
        (func (export "canister_update deep") (drop (call $deep (i64.const 1))) (call $reply))
        (func (export "canister_update fine") (call $reply)))`;
      const c = new TestCanister({ bytes: assemble(width, text) });
      const before = c.fingerprint();
      assert.match(faultOf(c.update('deep'), 'trap'), /stack overflow/);
      assert.equal(c.fingerprint(), before);
      replyOf(c.update('fine'));
    });

    test('canisters of one engine do not see each other, though they share imports and journal', () => {
      const first = new ScriptCanister(width);
      const module = load(scriptModule(width));
      const other = first.canister.engine.createCanister({
        id: new Uint8Array(10),
        balance: 10n ** 14n,
        controllers: [],
        env: new Map(),
      });
      const caller = new Uint8Array([1]);
      const { engine } = first.canister;
      const installation = { mode: 'install', argument: encodeScript(width, []), caller } as const;
      assert.equal(engine.change(other, module.code, installation, 0).step.fault, undefined);
      const entry = module.info.entries.get('canister_update run') ?? -1;
      const run = (calls: readonly Call[]): string => {
        const argument = encodeScript(width, calls);
        const task = {
          kind: 'update',
          entry,
          argument,
          context: contextOf(caller),
          instructionsMax: FULL_LIMIT,
        } as const;
        return withOutcome(engine.execute(other, task, 0)).outcome.kind;
      };
      first.results([
        ['store8', 0, 1],
        ['stable64_grow', 1],
        ['global_set', 1],
      ]);
      assert.equal(run([['store8', 0, 2], ['stable64_grow', 2], ['global_set', 2], ['msg_reply']]), 'reply');
      assert.equal(run([['store8', 0, 3], ['stable64_grow', 3], ['global_set', 3], ['unreachable']]), 'trap');
      assert.deepEqual(first.results([['load8', 0], ['stable64_size'], ['global_get']]), [1n, 1n, 1n]);
      assert.equal(other.stable.pages, 2);
      assert.equal(run([['stable64_write', 0, 0, 5000], ['msg_reply']]), 'reply');
      assert.equal(first.canister.engine.stableBytesStored, 8192);
      first.canister.engine.removeCanister(other);
      assert.equal(first.canister.engine.stableBytesStored, 0);
      assert.deepEqual(first.results([['stable64_size']]), [1n]);
    });

    test('a call that cannot reach the method is a bug of the host, and is refused', () => {
      const c = new ScriptCanister(width);
      for (const [kind, method] of [
        ['query', 'run'],
        ['update', 'compose'],
      ] as const) {
        // The fixture throws reported bugs.
        assert.throws(() => c.run(NOTHING, undefined, kind, method), new RegExp(`${kind} cannot reach entry point`));
      }
    });
  });
}

test('a module of the kind Rust makes runs: a stack pointer in a global, no exported table, data in place', () => {
  // Code that `#[update] fn add(n: u64) -> u64` compiles to, with the toolchain's shadow stack.
  const text = `(module
    (import "ic0" "msg_arg_data_size" (func $size (result i32)))
    (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32)))
    (import "ic0" "msg_reply_data_append" (func $append (param i32 i32)))
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "trap" (func $trap (param i32 i32)))
    (type $op (func (param i64 i64) (result i64)))
    (table 2 2 funcref)
    (memory (export "memory") 17)
    (global $__stack_pointer (mut i32) (i32.const 1048576))
    (export "__data_end" (global $data_end)) (global $data_end i32 (i32.const 1048600))
    (elem (i32.const 1) $sum)
    (data (i32.const 1048576) "\\2a\\00\\00\\00\\00\\00\\00\\00panicked")
    (func $sum (type $op) (i64.add (local.get 0) (local.get 1)))
    (func (export "canister_update add") (local $frame i32)
      (global.set $__stack_pointer (local.tee $frame (i32.sub (global.get $__stack_pointer) (i32.const 16))))
      (if (i32.ne (call $size) (i32.const 8)) (then (call $trap (i32.const 1048584) (i32.const 8)) (unreachable)))
      (call $copy (local.get $frame) (i32.const 0) (i32.const 8))
      (i64.store (i32.const 1048576)
        (call_indirect (type $op) (i64.load (i32.const 1048576)) (i64.load (local.get $frame)) (i32.const 1)))
      (call $append (i32.const 1048576) (i32.const 8))
      (call $reply)
      (global.set $__stack_pointer (i32.add (local.get $frame) (i32.const 16))))
    (func (export "canister_query <ic-cdk internal> get") (call $append (i32.const 1048576) (i32.const 8)) (call $reply)))`;
  const c = new TestCanister({ bytes: assemble(32, text) });
  const add = (n: number): Uint8Array => replyOf(c.update('add', new Uint8Array([n, 0, 0, 0, 0, 0, 0, 0])));
  assert.equal(add(8)[0], 50);
  const before = c.fingerprint();
  const counted = c.update('add', new Uint8Array(1));
  assert.equal(faultOf(counted, 'trap'), "Canister called `ic0.trap` with message: 'panicked'");
  assert.equal(c.fingerprint(), before, 'the stack pointer is back where it was');
  assert.equal(add(1)[0], 51);
  assert.equal(replyOf(c.query('<ic-cdk internal> get'))[0], 51);
  assert.deepEqual(c.module.info.methods.get('<ic-cdk internal> get'), 'query');
});

test('a known program counts the instructions that the cost table adds up to', () => {
  // Function entry 1; two constants 2, add 1, drop 1; call 5; msg_reply 500 beside its call.
  const text = (width: Width): string => `(module (import "ic0" "msg_reply" (func $reply)) (memory %index 1)
    (func (export "canister_update work") (drop (i32.add (i32.const 1) (i32.const 2))) (call $reply)) (; ${width} ;))`;
  for (const width of WIDTHS) {
    const c = new TestCanister({ bytes: assemble(width, text(width)) });
    assert.equal(c.update('work').outcome.instructions, 1 + 4 + 5 + 500);
  }
});
