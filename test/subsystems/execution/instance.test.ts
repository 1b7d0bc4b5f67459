import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { CalledTrap, ContractViolation, type Fault, HostTrap } from '../../../subsystems/execution/engine/fault.ts';
import type { Ic0Imports } from '../../../subsystems/execution/wire/instrumented-code.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { CONTROL_OPTIONS, prepare } from '../../support/bare-canister.ts';
import { wat } from '../../support/wat.ts';

const control = new ControlMemory(CONTROL_OPTIONS);
const PAGE = 4096;

const trapOf = (message: string): Fault => ({ kind: 'trap', message, record: `[TRAP]: ${message}` });

function canister(
  text: string,
  imports: Ic0Imports = {},
  memory = control,
): { instance: Instance; run: (name: string, limit?: number) => ReturnType<Instance['run']> } {
  const instance = Instance.create(prepare(wat(text)), imports, memory);
  return {
    instance,
    run(name, limit = 1e6) {
      instance.begin(limit);
      return instance.run(
        instance.entry(name.startsWith('canister_') || name === 'start' ? name : `canister_update ${name}`) ?? -1,
      );
    },
  };
}

/** A linker's output as Rust has it: no exported table, an unexported mutable stack pointer, active data. */
const RUST_LIKE = `(module
  (import "ic0" "msg_reply" (func $reply))
  (type $callback (func (param i32)))
  (table 2 2 funcref) (elem (i32.const 1) $on_reply)
  (memory (export "memory") 2)
  (data (i32.const 1048) "count: ")
  (global $__stack_pointer (mut i32) (i32.const 65536))
  (func $on_reply (param i32) (i32.store offset=8 (i32.const 0) (local.get 0)))
  (func $enter (param $bytes i32) (result i32)
    (global.set $__stack_pointer (i32.sub (global.get $__stack_pointer) (local.get $bytes)))
    (global.get $__stack_pointer))
  (func $inc (local $frame i32)
    (local.set $frame (call $enter (i32.const 32)))
    (i32.store (local.get $frame) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
    (i32.store (i32.const 0) (i32.load (local.get $frame)))
    (global.set $__stack_pointer (i32.add (local.get $frame) (i32.const 32)))
    (call $reply))
  (func $leak (drop (call $enter (i32.const 4096))) (i32.store (i32.const 0) (i32.const 99)) unreachable)
  (export "canister_update inc" (func $inc))
  (export "canister_update leak" (func $leak)))`;

describe('an instance', () => {
  it('keeps what a message did, and takes back memory and unexported globals when it trapped', () => {
    const { instance, run } = canister(RUST_LIKE, { msg_reply: () => undefined });
    assert.equal(Buffer.from(instance.heap().subarray(1048, 1055)).toString(), 'count: ');
    assert.equal(run('inc'), undefined);
    instance.commit();
    const globals = instance.saveGlobals();
    for (let k = 0; k < 3; k++) {
      assert.deepEqual(run('leak'), trapOf('unreachable'));
      assert.notDeepEqual(instance.saveGlobals(), globals);
      instance.rollback();
      assert.equal(instance.heap()[0], 1);
    }
    assert.equal(run('inc'), undefined);
    instance.commit();
    assert.equal(instance.heap()[0], 2);
    assert.deepEqual(instance.saveGlobals(), globals);
  });

  it('reports the pages that a message may have changed', () => {
    const { instance, run } = canister(`(module (memory 2)
      (func (export "canister_update far") (i32.store8 (i32.const 70000) (i32.const 1)) (i32.store (i32.const 20478) (i32.const -1)))
      (func (export "canister_update none") (drop (i32.load (i32.const 70000)))))`);
    assert.equal(run('far'), undefined);
    assert.deepEqual([...instance.dirtyPages()], [4, 5, 17]);
    instance.commit();
    assert.equal(run('none'), undefined);
    assert.deepEqual([...instance.dirtyPages()], []);
    instance.commit();
  });

  it('lets the host write through touch, and rolls that back as well', () => {
    const { instance, run } = canister(
      `(module (import "ic0" "msg_arg_data_copy" (func $copy (param i32 i32 i32))) (memory 1)
        (func (export "canister_update fill") (call $copy (i32.const 4090) (i32.const 0) (i32.const 10))))`,
      {
        msg_arg_data_copy: (address: number, _offset: number, length: number) => {
          instance.touch(address, length);
          instance.heap().fill(7, address, address + length);
        },
      },
    );
    assert.equal(run('fill'), undefined);
    assert.deepEqual([...instance.dirtyPages()], [0, 1]);
    assert.equal(instance.heap()[4099], 7);
    instance.rollback();
    assert.ok(instance.heap().every((byte) => byte === 0));
  });

  it('has the changes of a message in the journal that the message began on, and leaves that between messages only', () => {
    const journals = [new ControlMemory(CONTROL_OPTIONS), new ControlMemory(CONTROL_OPTIONS)] as const;
    const [first, second] = journals;
    const one = canister(RUST_LIKE, { msg_reply: () => undefined }, first);
    const two = canister(RUST_LIKE, { msg_reply: () => undefined }, first);
    const imports = { msg_reply: () => undefined };
    assert.equal(one.run('inc'), undefined);
    assert.throws(() => one.instance.moveTo(imports, second), /leave the journal of its own message/);
    assert.throws(() => two.run('inc'), /begins before the one before it was committed or rolled back/);
    assert.throws(() => second.seal(), /ends on a journal that it has not begun on/);
    let entries = 0;
    one.instance.deltas((count) => (entries += count));
    assert.ok(entries > 0, 'the journal still has them');
    one.instance.commit();
    one.instance.moveTo(imports, second);
    for (const { instance, run } of [one, two]) {
      assert.equal(run('inc'), undefined);
      assert.deepEqual([...instance.dirtyPages()], [0, 15]);
    }
    one.instance.commit();
    two.instance.rollback();
    assert.deepEqual(
      [one, two].map(({ instance }) => instance.heap()[0]),
      [2, 0],
    );
  });

  it('stops a message whose system call costs more than is left, and counts to the limit', () => {
    const { instance, run } = canister(
      `(module (import "ic0" "msg_reply" (func $reply)) (memory 1)
        (func (export "canister_update pay") (i32.store (i32.const 0) (i32.const 1)) (call $reply)))`,
      { msg_reply: () => instance.charge(1000) },
    );
    assert.equal(run('pay', 1509), undefined);
    assert.equal(instance.instructionsUsed(), 1509);
    instance.rollback();
    assert.equal(run('pay', 1508)?.kind, 'limit');
    assert.equal(instance.instructionsUsed(), 1508);
    instance.rollback();
    assert.equal(instance.heap()[0], 0);
  });

  it('stops an endless loop, tight or not', () => {
    const { instance, run } = canister(`(module (memory 1)
      (func (export "canister_update tight") (loop br 0))
      (func (export "canister_update store") (local i32) (loop (i32.store (i32.and (local.tee 0 (i32.add (local.get 0) (i32.const 64))) (i32.const 0xfff8)) (local.get 0)) br 0)))`);
    for (const name of ['tight', 'store']) {
      assert.deepEqual(run(name, 50_000_000), { kind: 'limit', message: 'instruction limit exceeded' }, name);
      assert.equal(instance.instructionsUsed(), 50_000_000);
      instance.rollback();
      assert.ok(instance.heap().every((byte) => byte === 0));
    }
  });

  it('names traps in words', () => {
    const { instance, run } = canister(`(module (memory 1) (table 2 funcref) (elem (i32.const 1) $f)
      (type $g (func (param i64)))
      (func $f)
      (func (export "canister_update bounds") (drop (i32.load (i32.const 65536))))
      (func (export "canister_update store") (i32.store (i32.const 65533) (i32.const 1)))
      (func (export "canister_update zero") (drop (i32.div_s (i32.const 1) (i32.const 0))))
      (func (export "canister_update overflow") (drop (i32.div_s (i32.const -2147483648) (i32.const -1))))
      (func (export "canister_update convert") (drop (i32.trunc_f64_s (f64.const 1e300))))
      (func (export "canister_update table") (call_indirect (i32.const 7)))
      (func (export "canister_update null") (call_indirect (i32.const 0)))
      (func (export "canister_update type") (call_indirect (type $g) (i64.const 0) (i32.const 1))))`);
    const expected = {
      bounds: 'heap out of bounds',
      store: 'heap out of bounds',
      zero: 'integer division by 0',
      overflow: 'integer overflow',
      convert: 'bad conversion to integer',
      table: 'table out of bounds',
      null: 'function signature mismatch or null function',
      type: 'function signature mismatch or null function',
    };
    for (const [name, message] of Object.entries(expected)) {
      assert.deepEqual(run(name), trapOf(message), name);
      instance.rollback();
    }
  });

  it('gives the text of a host trap, and says so when the host itself failed', () => {
    const { instance, run } = canister(
      `(module (import "ic0" "msg_reply" (func $reply)) (import "ic0" "accept_message" (func $accept))
        (import "ic0" "trap" (func $trap (param i32 i32))) (import "ic0" "msg_reject" (func $reject (param i32 i32)))
        (func (export "canister_update called") (call $trap (i32.const 8) (i32.const 0)))
        (func (export "canister_update silent") (call $trap (i32.const 0) (i32.const 0)))
        (func (export "canister_update contract") (call $reject (i32.const 0) (i32.const 0)))
        (func (export "canister_update trap") (call $reply)) (func (export "canister_update bug") (call $accept)))`,
      {
        msg_reply: () => {
          throw new HostTrap('assertion failed at 3.4');
        },
        trap: (length: number) => {
          throw new CalledTrap('given up'.slice(0, length));
        },
        msg_reject: () => {
          throw new ContractViolation('not here');
        },
        accept_message: () => {
          throw new TypeError('oops');
        },
      },
    );
    assert.deepEqual(run('trap'), trapOf('assertion failed at 3.4'));
    instance.rollback();
    assert.deepEqual(run('called'), {
      kind: 'calledTrap',
      message: "Canister called `ic0.trap` with message: 'given up'",
      record: '[TRAP]: given up',
    });
    instance.rollback();
    assert.equal(run('silent')?.record, '[TRAP]: (no message)');
    instance.rollback();
    assert.deepEqual(run('contract'), { kind: 'trap', message: 'not here' }, 'the log tells of traps alone');
    instance.rollback();
    const bug = run('bug');
    assert.equal(bug?.kind, 'host');
    assert.ok(bug?.cause instanceof TypeError);
    instance.rollback();
  });

  it('takes back growth, with globals, and can grow again', () => {
    const { instance, run } = canister(`(module (memory 1 3) (global $g (mut i32) (i32.const 1))
      (func (export "canister_update grow") (global.set $g (i32.const 2))
        (drop (memory.grow (i32.const 1))) (i32.store (i32.const 70000) (i32.const 5)) (i32.store (i32.const 4) (i32.const 5)))
      (func (export "canister_update too_much") (i32.store (i32.const 0) (memory.grow (i32.const 3)))))`);
    const globals = instance.saveGlobals();
    for (let k = 0; k < 2; k++) {
      assert.equal(run('grow'), undefined);
      assert.equal(instance.heapBytes, 2 * 65_536);
      instance.rollback();
      assert.equal(instance.heapBytes, 65_536);
      assert.ok(instance.heap().every((byte) => byte === 0));
      assert.deepEqual(instance.saveGlobals(), globals);
    }
    assert.equal(run('grow'), undefined);
    instance.commit();
    assert.equal(instance.heapBytes, 2 * 65_536);
    assert.equal(instance.heap()[70_000], 5);
    assert.equal(run('too_much'), undefined);
    assert.equal(new Int32Array(instance.heap().buffer, 0, 1)[0], -1);
    instance.rollback();
  });

  it('begins each message with the data segments of the module', () => {
    const { instance, run } = canister(`(module (memory 1) (data "hello")
      (func (export "canister_update use") (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 5)) (data.drop 0)))`);
    for (const end of ['commit', 'rollback', 'commit'] as const) {
      assert.equal(run('use'), undefined);
      instance[end]();
    }
    assert.equal(Buffer.from(instance.heap().subarray(0, 5)).toString(), 'hello');
  });

  it('runs callbacks by table index with exactly the bits of their environment', () => {
    const { instance } = canister(RUST_LIKE, { msg_reply: () => undefined });
    instance.begin(1e6);
    assert.equal(instance.runCallback(1, -2), undefined);
    instance.commit();
    assert.equal(new Int32Array(instance.heap().buffer)[2], -2);
    for (const fun of [0, 2, 2 ** 32 - 1, 2 ** 64]) {
      instance.begin(1e6);
      assert.equal(instance.runCallback(fun, 0)?.kind, fun === 0 ? 'trap' : 'noCallback', String(fun));
      instance.rollback();
    }

    const wide = canister(`(module (memory i64 1) (table i64 1 funcref) (elem (table 0) (i64.const 0) func $f)
      (func $f (param i64) (i64.store (i64.const 16) (local.get 0))))`).instance;
    wide.begin(1e6);
    assert.equal(wide.runCallback(0, 0x7fff_ffff_ffff_fff1n), undefined);
    wide.commit();
    assert.equal(new BigInt64Array(wide.heap().buffer)[2], 0x7fff_ffff_ffff_fff1n);
    wide.begin(1e6);
    assert.equal(wide.runCallback(2 ** 64, 0n)?.kind, 'noCallback');
    wide.rollback();
  });

  it('runs the start function when told, under the limit', () => {
    const text = `(module (memory 1) (func $start (i32.store (i32.const 0) (i32.const 42))) (start $start))`;
    const { instance, run } = canister(text);
    assert.equal(instance.heap()[0], 0);
    assert.equal(run('start', 2)?.kind, 'limit');
    instance.rollback();
    assert.equal(run('start'), undefined);
    instance.commit();
    assert.equal(instance.heap()[0], 42);
  });

  it('shares its control memory with others: what one did is no concern of the next', () => {
    const text = `(module (memory 1) (func (export "canister_update set") (i32.store (i32.const ${PAGE}) (i32.const 1)) (i32.store (i32.const 0) (i32.const 1))))`;
    const one = canister(text);
    const two = canister(text);
    assert.equal(one.run('set'), undefined);
    one.instance.commit();
    assert.equal(two.run('set'), undefined);
    assert.deepEqual([...two.instance.dirtyPages()], [0, 1]);
    two.instance.rollback();
    assert.equal(one.instance.heap()[0], 1);
    assert.equal(two.instance.heap()[0], 0);
  });

  it('traps a message that changes more memory than the journal may hold, and undoes it', () => {
    const small = new ControlMemory({ stackBytes: 1 << 19, journalBytesMax: 1 << 20 });
    const { instance, run } = canister(
      `(module (memory 64) (func $fill (param i32) (memory.fill (i32.const 0) (local.get 0) (i32.const 4000000)))
        (func (export "canister_update first") (call $fill (i32.const 1))) (func (export "canister_update second") (call $fill (i32.const 2))))`,
      {},
      small,
    );
    // Pages of zeros need no pre-image.
    assert.equal(run('first', 1e8), undefined);
    instance.commit();
    assert.match(run('second', 1e8)?.message ?? '', /memory access limit/);
    instance.rollback();
    assert.ok(
      instance
        .heap()
        .subarray(0, 4_000_000)
        .every((byte) => byte === 1),
    );
  });

  it('finds the interface text of get_candid_pointer without leaving a trace', () => {
    const { instance } = canister(`(module (memory 1) (data (i32.const 100) "service : {}\\00")
      (func (export "get_candid_pointer") (result i32) (i32.store (i32.const 0) (i32.const 1)) (i32.const 100)))`);
    assert.equal(instance.candidText(1e6), 'service : {}');
    assert.equal(instance.heap()[0], 0);
    assert.equal(instance.candidText(3), undefined);
  });
});
