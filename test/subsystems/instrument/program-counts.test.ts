/** Exact counts of real programs: AssemblyScript kernels and Motoko actors in both persistence modes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { Instance } from '../../../subsystems/execution/engine/instance.ts';
import { compileAssemblyScript } from '../../support/assemblyscript.ts';
import {
  CONTROL_OPTIONS,
  NO_ARGUMENTS,
  prepare,
  startCanister,
  startPlainCanister,
} from '../../support/bare-canister.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { naiveMetered } from '../../support/naive-metering.ts';
import { wat } from '../../support/wat.ts';
import { renameExports } from '../../support/wasm-sections.ts';

const fixture = (name: string): string =>
  readFileSync(new URL(`../../../benchmarks/fixtures/${name}`, import.meta.url), 'utf8');
const PREFIX = 'canister_update ';
const KERNELS = ['sort', 'recursion', 'hash', 'trees', 'text', 'interpreter', 'vectors'];

interface Counted {
  readonly [name: string]: unknown;
  readonly naive_counter: { value: bigint };
}

describe('instruction counts', () => {
  const control = new ControlMemory(CONTROL_OPTIONS);

  it('of kernels equal the naive counter; exactly that much suffices and one less does not', async () => {
    const plain = await compileAssemblyScript(fixture('kernels.as'), ['--enable', 'simd']);
    const counted = new WebAssembly.Instance(new WebAssembly.Module(naiveMetered(plain))).exports as Counted;
    const instance = Instance.create(
      prepare(renameExports(plain, (name) => (KERNELS.includes(name) ? PREFIX + name : name))),
      {},
      control,
    );
    const start = instance.entry('start');
    instance.begin(1e9);
    if (start !== undefined) assert.equal(instance.run(start), undefined);
    instance.commit();
    for (const name of KERNELS) {
      counted.naive_counter.value = 0n;
      (counted[name] as () => void)();
      const count = Number(counted.naive_counter.value);
      const entry = instance.entry(PREFIX + name) ?? -1;

      instance.begin(count);
      assert.equal(instance.run(entry), undefined, name);
      assert.equal(instance.instructionsUsed(), count, name);
      instance.rollback();

      instance.begin(count - 1);
      assert.equal(instance.run(entry)?.kind, 'limit', name);
      assert.equal(instance.instructionsUsed(), count - 1, name);
      instance.rollback();

      instance.begin(count);
      assert.equal(instance.run(entry), undefined, `${name} again, after it was stopped`);
      instance.commit();
      // The plain instance keeps its state, so ours must, too: the next kernel may allocate behind this one.
    }
  });

  for (const persistence of ['classical', 'enhanced'] as const) {
    it(`of a Motoko actor (${persistence}) equal the naive counter, and answers those of the plain module`, async () => {
      const { wasm } = await compileMotoko(fixture('busy.mo'), { persistence });
      const ours = startCanister(prepare(wasm), control);
      const plain = startPlainCanister(naiveMetered(wasm));
      // Charges of the host for bytes, the same in both.
      let charged = 0;
      plain.host.charge = (instructions) => {
        charged += instructions;
      };
      const counter = plain.exports['naive_counter'] as { value: bigint };
      for (const method of ['canister_init', 'canister_update inc', 'canister_update maps', 'canister_update inc']) {
        counter.value = 0n;
        charged = 0;
        const expected = plain.call(method, NO_ARGUMENTS);
        assert.deepEqual(ours.call(method, NO_ARGUMENTS), expected, method);
        assert.equal(ours.instance.instructionsUsed(), Number(counter.value) + charged, method);
      }
    });
  }

  it('do not depend on the run: a trapped message reports the same number each time', async () => {
    const { wasm } = await compileMotoko(fixture('busy.mo'), { persistence: 'enhanced' });
    const { instance, host, call } = startCanister(prepare(wasm), control);
    call('canister_init', NO_ARGUMENTS);
    const counts = [0, 1, 2].map(() => {
      host.argument = NO_ARGUMENTS;
      instance.begin(1e9);
      const fault = instance.run(instance.entry('canister_update boom') ?? -1);
      const used = instance.instructionsUsed();
      instance.rollback();
      assert.equal(fault?.kind, 'trap');
      return used;
    });
    assert.ok((counts[0] ?? 0) > 0);
    assert.deepEqual(counts, [counts[0], counts[0], counts[0]]);
  });

  it('include the overhead of system calls, direct and through a table', () => {
    const code = prepare(
      wat(`(module
        (import "ic0" "canister_status" (func $status (result i32)))
        (type $status (func (result i32)))
        (table 1 funcref) (elem (i32.const 0) $status)
        (func (export "canister_update direct") call $status drop)
        (func (export "canister_update indirect") i32.const 0 call_indirect (type $status) drop))`),
    );
    const { instance } = startCanister(code, control);
    const used = (name: string): number => {
      instance.begin(10_000);
      assert.equal(instance.run(instance.entry(PREFIX + name) ?? -1), undefined);
      instance.commit();
      return instance.instructionsUsed();
    };
    // Entry 1, call 5, overhead 500, drop 1; entry 1, const 1, call_indirect 10, overhead 500, drop 1.
    assert.equal(used('direct'), 507);
    assert.equal(used('indirect'), 513);
  });
});
