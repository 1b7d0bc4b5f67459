/**
 * Rollback. Messages of real, handwritten and random programs are stopped at a random point before a store, a call, a
 * system call, growth, a bulk operation or a change of a global, or by running out of instructions anywhere. Afterwards
 * the heap, its size, globals, stable memory, certified data, timer and version are byte for byte as before, no call
 * goes out, and the dirty set, as it was just before the rollback, covered every differing byte. Other messages in
 * between run to their end, which they could not if something had been left behind. Tables cannot change in an accepted
 * module.
 */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { FULL_LIMIT } from '../../../subsystems/ic/index.ts';
import type { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import { EMPTY_ARGS, TestCanister, type TestResult } from './engine-fixture.ts';
import { randomTrapProgram, type TrapProgram, trapPrograms } from './trap-programs.ts';

const SEEDS = new ProofSeeds(72);
const MESSAGES = 6;
const PAGE_BYTES = 4096;
/** Points that a random program may have, where they are not counted. */
const POINTS_GUESSED = 60;
/** Approximate instructions per point, the same for all modules: for stopping by instructions. */
const INSTRUCTIONS_PER_POINT = 20;

interface Prepared {
  readonly program: TrapProgram;
  readonly canister: TestCanister;
  /** Trap points that a message passes, by method. */
  readonly points: ReadonlyMap<string, number>;
}

describe('a message that is stopped anywhere', () => {
  const seen = {
    'messages completed': 0,
    'stopped at a point': 0,
    'stopped by instructions': 0,
    'trapped by themselves': 0,
    'pages changed': 0,
  };
  const prepared: Prepared[] = [];

  before(async () => {
    for (const program of await trapPrograms()) {
      const canister = new TestCanister({ bytes: program.bytes });
      const points = new Map<string, number>();
      for (const method of program.methods) {
        setTrap(canister.instance, 0n);
        const { fault } = canister.update(method).step;
        assert.equal(fault, undefined, `${program.name}, ${method}`);
        points.set(method, Number(-trapAt(canister.instance)));
      }
      prepared.push({ program, canister, points });
    }
  });

  it('leaves the canister as it was, and goes on', () => {
    for (const seed of SEEDS) checkSeed(seed);
    SEEDS.saw(seen);
    const { count } = SEEDS;
    assert.ok(
      seen['messages completed'] > count &&
        seen['stopped at a point'] > count &&
        seen['stopped by instructions'] > count / 4 &&
        seen['pages changed'] > 10 * count,
      JSON.stringify(seen),
    );
  });

  function checkSeed(seed: number): void {
    const random = seeded(seed * 77 + 5);
    const { program, canister, points } = prepared[seed % (prepared.length + 1)] ?? ofRandomModule(seed);
    const installed = canister.install();
    assert.equal(installed.step.fault, undefined, `seed ${seed}: ${program.name}`);
    for (let message = 0; message < MESSAGES; message++) {
      const method = program.methods[random.below(program.methods.length)] ?? '';
      const count = points.get(method) ?? POINTS_GUESSED;
      const how = random.pick(['runs', 'trap', 'trap', 'instructions']);
      // Sometimes the trap lies behind the end, and the message completes after all.
      const trap = how === 'trap' ? 1 + random.below(count + 1 + (count >> 5)) : 0;
      const limit = how === 'instructions' ? 1 + random.below(count * INSTRUCTIONS_PER_POINT) : FULL_LIMIT;
      const what = `seed ${seed}, ${program.name}, message ${message} (${method}), ${how} ${trap || limit}`;
      const result = checkMessage(canister, method, trap, limit, what);
      if (result.step.fault === undefined) {
        seen['messages completed']++;
      } else if (result.step.fault.kind === 'limit') {
        seen['stopped by instructions']++;
        assert.notEqual(limit, FULL_LIMIT, what);
      } else {
        assert.equal(result.step.fault.kind, 'trap', what);
        if (trap > 0) seen['stopped at a point']++;
        else seen['trapped by themselves']++;
        if (trap === 0) assert.equal(program.returns, false, `${what}: ${result.step.fault.message}`);
      }
    }
  }

  function checkMessage(canister: TestCanister, method: string, trap: number, limit: number, what: string): TestResult {
    const { instance, state } = canister;
    setTrap(instance, BigInt(trap));
    const heapBefore = instance.heap().slice();
    const fingerprint = canister.fingerprint();
    const { timerNs } = state;
    const unwatch = watchEnd(instance, () => {
      const dirty = new Set(instance.dirtyPages());
      for (const page of changedPages(heapBefore, instance.heap())) {
        seen['pages changed']++;
        assert.ok(dirty.has(page), `${what}: page ${page} is not reported`);
      }
    });
    const result = canister.run('update', method, EMPTY_ARGS, {}, limit);
    unwatch();
    if (result.step.fault !== undefined) {
      assert.equal(canister.instance.heapBytes, heapBefore.length, what);
      assert.equal(Buffer.compare(instance.heap(), heapBefore), 0, `${what}: the heap`);
      assert.equal(canister.fingerprint(), fingerprint, `${what}: globals, stable memory, certified data or version`);
      assert.equal(state.timerNs, timerNs, what);
      assert.deepEqual([result.step.calls.length, result.step.timerNs], [0, undefined], what);
    }
    return result;
  }
});

function ofRandomModule(seed: number): Prepared {
  const program = randomTrapProgram(seed);
  return { program, canister: new TestCanister({ bytes: program.bytes }), points: new Map() };
}

/**
 * Calls `look` at the end of each message, before its changes are kept or undone. Returns a function that ends this.
 */
function watchEnd(instance: Instance, look: () => void): () => void {
  const commit = instance.commit.bind(instance);
  const rollback = instance.rollback.bind(instance);
  instance.commit = () => {
    look();
    commit();
  };
  instance.rollback = () => {
    look();
    rollback();
  };
  return () => {
    instance.commit = commit;
    instance.rollback = rollback;
  };
}

function changedPages(old: Uint8Array, heap: Uint8Array): number[] {
  const changed: number[] = [];
  for (let at = 0; at < heap.length; at += PAGE_BYTES) {
    const page = at < old.length ? old.subarray(at, at + PAGE_BYTES) : new Uint8Array(PAGE_BYTES);
    if (Buffer.compare(page, heap.subarray(at, at + PAGE_BYTES)) !== 0) changed.push(at / PAGE_BYTES);
  }
  return changed;
}

/** Returns the position of the trap's counter in the saved globals: it is the module's last. */
function trapOffset(instance: Instance): number {
  const last = instance.code.layout.globals.at(-1);
  assert.equal(last?.type, 'i64');
  return last.at;
}

function setTrap(instance: Instance, point: bigint): void {
  const globals = instance.saveGlobals();
  new DataView(globals.buffer).setBigInt64(trapOffset(instance), point, true);
  instance.loadGlobals(globals);
}

function trapAt(instance: Instance): bigint {
  return new DataView(instance.saveGlobals().buffer).getBigInt64(trapOffset(instance), true);
}
