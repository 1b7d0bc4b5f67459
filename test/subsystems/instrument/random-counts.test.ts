/**
 * Counts of random modules. A completed message has the naive counter's count; exactly that limit suffices, and one
 * less does not and undoes the message; a new instance of the same module counts the same, also when the message traps.
 * `npm run prove` takes thousands of modules, on each of V8's compilers.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { faultOf } from '../../../subsystems/execution/engine/fault.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import type { InstrumentedCode } from '../../../subsystems/execution/wire/instrumented-code.ts';
import { FUEL_TESTS_SECTION } from '../../../subsystems/instrument/index.ts';
import { CONTROL_OPTIONS, prepare } from '../../support/bare-canister.ts';
import { custom } from '../../support/module-builder.ts';
import { naiveMetered } from '../../support/naive-metering.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { randomModule } from '../../support/random-module.ts';
import { wat } from '../../support/wat.ts';

const SEEDS = new ProofSeeds(120);
const AMPLE = 10_000_000;
const TESTED_EVERY = 4;
/** Limits below the count with which a message is cut short. */
const CUTS = 5;

interface Counted {
  readonly [name: string]: unknown;
  readonly naive_counter: { readonly value: bigint };
}

describe('instruction counts of random modules', () => {
  const control = new ControlMemory(CONTROL_OPTIONS);
  const seen = { completed: 0, trapped: 0 };

  it('equal the naive counter, suffice exactly, and are the same in every instance', () => {
    for (const seed of SEEDS) checkSeed(seed);
    SEEDS.saw({ 'messages completed': seen.completed, trapped: seen.trapped });
    assert.ok(seen.completed > SEEDS.count && seen.trapped > SEEDS.count / 4, JSON.stringify(seen));
  });

  function checkSeed(seed: number): void {
    const { text, methods } = randomModule(seed);
    const bytes = wat(text);
    const naive = new WebAssembly.Module(naiveMetered(bytes));
    const code = prepare(bytes);
    const again = prepare(bytes);
    // Modules that test their fuel behind each charge count the same.
    const tested = seed % TESTED_EVERY === 0 ? prepare(Buffer.concat([bytes, custom(FUEL_TESTS_SECTION)])) : undefined;
    for (const method of methods) {
      const what = `seed ${seed}, ${method}`;
      const counted = new WebAssembly.Instance(naive).exports as Counted;
      const first = run(code, method, AMPLE);
      assert.deepEqual(run(again, method, AMPLE), first, `${what}, once more`);
      if (tested !== undefined) assertTested(tested, method, first, what);
      try {
        (counted[`canister_update ${method}`] as () => void)();
      } catch (error) {
        assert.equal(first.fault, faultOf(error, 0).message, what);
        seen.trapped++;
        continue;
      }
      seen.completed++;
      const count = Number(counted.naive_counter.value);
      assert.deepEqual(first, { kind: undefined, fault: undefined, used: count }, what);
      assert.deepEqual(run(code, method, count), first, `${what}, with exactly enough`);
      const { kind, used } = run(again, method, count - 1);
      assert.deepEqual([kind, used], ['limit', count - 1], `${what}, with one less`);
    }
  }

  function assertTested(tested: InstrumentedCode, method: string, first: Ended, what: string): void {
    assert.deepEqual(run(tested, method, AMPLE), first, `${what}, with tests`);
    if (first.kind !== undefined) return;
    for (let cut = 1; cut <= CUTS; cut++) {
      const limit = Math.floor((first.used * cut) / (CUTS + 1));
      const { kind, used } = run(tested, method, limit);
      assert.deepEqual([kind, used], ['limit', limit], `${what}, with tests and a limit of ${limit}`);
    }
  }

  /** Runs one message of a new instance, and undoes it in the end. */
  function run(code: InstrumentedCode, method: string, limit: number): Ended {
    const instance = Instance.create(code, {}, control);
    const before = instance.heap().slice();
    instance.begin(limit);
    const fault = instance.run(instance.entry(`canister_update ${method}`) ?? -1);
    const used = instance.instructionsUsed();
    instance.rollback();
    assert.equal(Buffer.compare(instance.heap(), before), 0, `${method} with ${limit} instructions is undone`);
    return { kind: fault?.kind, fault: fault?.message, used };
  }
});

interface Ended {
  readonly kind: string | undefined;
  readonly fault: string | undefined;
  readonly used: number;
}
