/**
 * Random modules of both widths, run three ways: as they are, with the naive counter, and instrumented. Results, traps,
 * memory, globals and counts must agree; then the instrumented one is rolled back or committed and its memory compared
 * byte for byte. Four messages each; `npm run prove` takes thousands of modules.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { faultOf } from '../../../subsystems/execution/engine/fault.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { CONTROL_OPTIONS, prepare } from '../../support/bare-canister.ts';
import { naiveMetered } from '../../support/naive-metering.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { randomModule } from '../../support/random-module.ts';
import { seeded } from '../../support/seeded.ts';
import { wat } from '../../support/wat.ts';

const SEEDS = new ProofSeeds(160);
const MESSAGES = 4;
const PAGE_BYTES = 4096;
const GLOBALS = ['guard', 'g0', 'g1', 'g2', 'gp'] as const;

interface PlainExports {
  readonly memory: WebAssembly.Memory;
  readonly [name: string]: unknown;
}
interface Cell {
  value: number | bigint;
}
interface State {
  readonly heap: Uint8Array;
  readonly globals: readonly (number | bigint)[];
}

/** Makes a plain instance in a given state; undefined for the first. */
function plainInstance(module: WebAssembly.Module, state: State | undefined): PlainExports {
  const exports = new WebAssembly.Instance(module).exports as PlainExports;
  if (state === undefined) return exports;
  const missing = (state.heap.length - exports.memory.buffer.byteLength) / 65_536;
  // The type of the argument depends on the memory's width.
  if (missing > 0) {
    try {
      exports.memory.grow(missing);
    } catch {
      exports.memory.grow(BigInt(missing));
    }
  }
  new Uint8Array(exports.memory.buffer).set(state.heap);
  for (const [k, name] of GLOBALS.entries()) (exports[name] as Cell).value = state.globals[k] ?? 0;
  return exports;
}

function stateOf(exports: PlainExports): State {
  return {
    heap: new Uint8Array(exports.memory.buffer).slice(),
    globals: GLOBALS.map((name) => (exports[name] as Cell).value),
  };
}

function runPlain(exports: PlainExports, method: string): string | undefined {
  try {
    (exports[`canister_update ${method}`] as () => void)();
    return undefined;
  } catch (error) {
    return faultOf(error, 0).message;
  }
}

function globalsOf(instance: Instance): (number | bigint)[] {
  const bytes = instance.saveGlobals();
  const view = new DataView(bytes.buffer);
  const pointer = instance.code.layout.pointerWidth === 64 ? view.getBigInt64(24, true) : view.getInt32(24, true);
  return [
    view.getInt32(0, true),
    view.getInt32(4, true),
    view.getBigInt64(8, true),
    view.getFloat64(16, true),
    pointer,
  ];
}

function assertSameBytes(actual: Uint8Array, expected: Uint8Array, what: string): void {
  if (Buffer.compare(actual, expected) === 0) return;
  const at = actual.findIndex((byte, k) => byte !== expected[k]);
  assert.fail(`${what}: ${actual.length} and ${expected.length} bytes, first difference at ${at}`);
}

function pagesThatDiffer(before: Uint8Array, after: Uint8Array): number[] {
  const pages: number[] = [];
  for (let at = 0; at < after.length; at += PAGE_BYTES) {
    const old = new Uint8Array(PAGE_BYTES);
    old.set(before.subarray(at, at + PAGE_BYTES));
    if (Buffer.compare(old, after.subarray(at, at + PAGE_BYTES)) !== 0) pages.push(at / PAGE_BYTES);
  }
  return pages;
}

describe('random modules', () => {
  const control = new ControlMemory(CONTROL_OPTIONS);
  const seen = { completed: 0, trapped: 0, grown: 0 };

  it('run, count and roll back as the plain module says', () => {
    for (const seed of SEEDS) checkSeed(seed);
    SEEDS.saw(seen);
    // A generator whose messages always trap, or never, would prove nothing.
    const { count } = SEEDS;
    assert.ok(seen.completed > count && seen.trapped > count / 4 && seen.grown > count / 32, JSON.stringify(seen));
  });

  function checkSeed(seed: number): void {
    const { text, methods } = randomModule(seed);
    const random = seeded(seed * 31 + 7);
    const bytes = wat(text);
    const plainModule = new WebAssembly.Module(bytes);
    const naiveModule = new WebAssembly.Module(naiveMetered(bytes));
    const instance = Instance.create(prepare(bytes), {}, control);
    let state = stateOf(plainInstance(plainModule, undefined));
    assertSameBytes(instance.heap(), state.heap, `seed ${seed}, before the first message`);

    for (let message = 0; message < MESSAGES; message++) {
      const method = methods[random.below(methods.length)] ?? 'm0';
      const what = `seed ${seed}, message ${message} (${method})`;
      const plain = plainInstance(plainModule, state);
      const naive = plainInstance(naiveModule, state);
      const expected = runPlain(plain, method);
      assert.equal(runPlain(naive, method), expected, what);

      instance.begin(10_000_000);
      const fault = instance.run(instance.entry(`canister_update ${method}`) ?? -1);
      assert.equal(fault?.message, expected, what);
      const after = stateOf(plain);
      assertSameBytes(instance.heap(), after.heap, `${what}, after running`);
      if (fault === undefined) {
        seen.completed++;
        assert.equal(BigInt(instance.instructionsUsed()), (naive['naive_counter'] as Cell).value, what);
      } else {
        seen.trapped++;
      }
      if (after.heap.length > state.heap.length) seen.grown++;

      const dirty = new Set(instance.dirtyPages());
      for (const page of pagesThatDiffer(state.heap, after.heap))
        assert.ok(dirty.has(page), `${what}: page ${page} is not reported`);
      if (fault === undefined && random.oneIn(2)) {
        instance.commit();
        state = after;
      } else {
        instance.rollback();
      }
      assertSameBytes(instance.heap(), state.heap, `${what}, after commit or rollback`);
      assert.deepEqual(globalsOf(instance), state.globals, what);
    }
  }
});
