/** Stacks of executions that end with an error: the guest's functions alone, bounded, and few in a storm of traps. */
import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { MessageChannel } from 'node:worker_threads';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { type Fault, HostTrap } from '../../../subsystems/execution/engine/fault.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { allowStacks } from '../../../subsystems/execution/engine/wasm-stack.ts';
import { readStep, writeStep } from '../../../subsystems/execution/wire/step-record.ts';
import { NO_NUMBERS, NOTHING_RAN } from '../../../subsystems/ic/index.ts';
import { createRing, RingConsumer, RingProducer } from '../../../subsystems/threads/index.ts';
import { FUEL_TESTS_SECTION } from '../../../subsystems/instrument/index.ts';
import { CONTROL_OPTIONS, prepare } from '../../support/bare-canister.ts';
import { custom } from '../../support/module-builder.ts';
import { wat } from '../../support/wat.ts';

const MODULE = prepare(
  wat(`(module
    (import "ic0" "msg_reply" (func $reply))
    (import "ic0" "msg_reject" (func $reject (param i32 i32)))
    (memory 1)
    (type $callback (func (param i32)))
    (table 2 2 funcref) (elem (i32.const 1) $called_back)
    (func $called_back (param i32) (call $down (local.get 0)))
    (func $down (export "down") (param i32)
      (if (i32.eqz (local.get 0)) (then unreachable))
      (call $down (i32.sub (local.get 0) (i32.const 1)))
      (i32.store (i32.const 0) (local.get 0)))
    (func $zero (export "zero") (param i32) (i32.store (i32.const 0) (i32.div_u (i32.const 1) (local.get 0))))
    (func $fill (export "fill") (memory.fill (i32.const 65530) (i32.const 1) (i32.const 100)))
    (func $spin (export "spin") (loop $l (i32.store (i32.const 0) (i32.const 1)) (br $l)))
    (func $over (export "over") (call $over) (i32.store (i32.const 0) (i32.const 1)))
    (func (export "canister_update few") (call $down (i32.const 2)))
    (func (export "canister_update many") (call $down (i32.const 100)))
    (func (export "canister_update zero") (call $zero (i32.const 0)))
    (func (export "canister_update fill") (call $fill))
    (func (export "canister_update spin") (call $spin))
    (func (export "canister_update over") (call $over))
    (func (export "canister_update called") (call $reply))
    (func (export "canister_update bug") (call $reject (i32.const 0) (i32.const 0))))`),
);

let nowMs = performance.now();
const instance = Instance.create(
  MODULE,
  {
    msg_reply: () => {
      throw new HostTrap('the host says no');
    },
    msg_reject: () => {
      throw new TypeError('a bug of the host');
    },
  },
  new ControlMemory(CONTROL_OPTIONS),
);

function faultOf(method: string): Fault | undefined {
  instance.begin(1e6);
  const ended = instance.run(instance.entry(`canister_update ${method}`) ?? -1);
  instance.rollback();
  return ended;
}

const stackOf = (method: string): readonly string[] | undefined => faultOf(method)?.stack?.split('\n');

describe('the stack of a trap', () => {
  // A window of stacks for each test.
  beforeEach(() => allowStacks((nowMs += 1000)));

  it('has the guest’s functions, innermost first, and neither the host’s nor the instrumenter’s', () => {
    assert.deepEqual(stackOf('few'), ['down', 'down', 'down', 'canister_update few']);
    assert.deepEqual(stackOf('zero'), ['zero', 'canister_update zero']);
    assert.deepEqual(stackOf('fill'), ['fill', 'canister_update fill']);
    assert.deepEqual(stackOf('called'), ['canister_update called']);
    assert.deepEqual(faultOf('called'), {
      kind: 'trap',
      message: 'the host says no',
      record: '[TRAP]: the host says no',
      stack: 'canister_update called',
    });
  });

  it('tells where instructions and stack were used up', () => {
    assert.deepEqual(stackOf('spin'), ['spin', 'canister_update spin']);
    assert.deepEqual(
      stackOf('over'),
      Array.from({ length: 32 }, () => 'over'),
    );
  });

  it('has at most 32 functions', () => {
    assert.deepEqual(
      stackOf('many'),
      Array.from({ length: 32 }, () => 'down'),
    );
  });

  it('begins at a callback', () => {
    instance.begin(1e6);
    assert.deepEqual(instance.runCallback(1, 1)?.stack?.split('\n'), ['down', 'down', 'function 2']);
    instance.rollback();
  });

  it('is not there for a bug of the host, whose error keeps its own', () => {
    const bug = faultOf('bug');
    assert.deepEqual([bug?.kind, bug?.stack], ['host', undefined]);
    assert.match(String((bug?.cause as Error | undefined)?.stack), /a bug of the host\n +at .*trap-stacks/);
  });

  it('is left out for most of a storm, and is there again behind it', () => {
    const storm = Array.from({ length: 250 }, () => faultOf('zero')?.stack);
    assert.equal(storm.filter((stack) => stack !== undefined).length, 100);
    assert.equal(storm.lastIndexOf('zero\ncanister_update zero'), 99, 'the first ones have it');
    assert.equal(faultOf('zero')?.message, 'integer division by 0');
    allowStacks((nowMs += 99));
    assert.equal(faultOf('zero')?.stack, undefined, 'the window is not over');
    allowStacks((nowMs += 1));
    assert.deepEqual(stackOf('few'), ['down', 'down', 'down', 'canister_update few']);
  });
});

it('names the function that a limit cuts short, if the module tests its fuel behind each charge', () => {
  const bytes = wat(`(module
    (import "ic0" "msg_reply" (func $reply))
    (func $first (export "first") ${'(i32.store (i32.const 0) (i32.const 1))'.repeat(20)})
    (func $second (export "second") ${'(i32.store (i32.const 0) (i32.const 1))'.repeat(40)})
    (func (export "canister_update run") (call $first) (call $reply) (call $second)) (memory 1))`);
  const sequence = (code: ReturnType<typeof prepare>): readonly string[] => {
    const cut = Instance.create(code, { msg_reply: () => undefined }, new ControlMemory(CONTROL_OPTIONS));
    const seen: string[] = [];
    for (let limit = 1; ; limit++) {
      allowStacks((nowMs += 1000));
      cut.begin(limit);
      const ended = cut.run(cut.entry('canister_update run') ?? -1);
      cut.rollback();
      if (ended === undefined) return seen;
      assert.equal(ended.kind, 'limit');
      const stack = ended.stack ?? 'none';
      if (stack !== seen.at(-1)) seen.push(stack);
    }
  };
  const run = 'canister_update run';
  assert.deepEqual(sequence(prepare(Buffer.concat([bytes, custom(FUEL_TESTS_SECTION)]))), [
    run,
    `first\n${run}`,
    run,
    `second\n${run}`,
  ]);
  assert.deepEqual(sequence(prepare(bytes)), [''], 'other modules find out in the end');
});

it('crosses threads beside a message with any text', () => {
  const shared = createRing(1 << 16);
  const producer = new RingProducer(shared);
  const consumer = new RingConsumer(shared);
  const { port1: port } = new MessageChannel();
  const numbers = { ...NO_NUMBERS, version: 1 };
  const about = { call: 1, handle: 2, heapBytes: 0, stableBytes: 0, numbers, instantMs: 0, loggedInstructions: 0 };
  const faults = ['', 'a\0b', 'line\nline', '\0', 'größe', '\ufeffmark'].flatMap((message) => [
    { kind: 'trap', code: 5, message } as const,
    { kind: 'trap', code: 5, message, stack: 'größe\nfunction 2' } as const,
  ]);
  for (const fault of faults) {
    assert.ok(writeStep(producer, port, { ...about, step: { ...NOTHING_RAN, fault }, balance: undefined }));
    producer.publish();
    consumer.drain((_type, at) => {
      const { step } = readStep(consumer, port, at, { calls: [], changes: [], lines: [] });
      assert.deepEqual(step.fault, fault);
    });
  }
  port.close();
});
