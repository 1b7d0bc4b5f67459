/** Large heaps that nobody uses are given back to the machine in pieces, before the collector has them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createStores, Engine } from '../../../subsystems/execution/engine/engine.ts';
import { ControlMemory } from '../../../subsystems/execution/memory/control-memory.ts';
import { openDiscard, PageReturns } from '../../../subsystems/execution/memory/page-returns.ts';
import { ANONYMOUS, assemble, load, POLICY, STACK_BYTES, WIDTHS } from './engine-fixture.ts';

const MIB = 2 ** 20;
/** 45 MiB, which is no multiple of a piece. */
const PAGES = 720;

/** An engine, and what was given back of which memory. */
class Host {
  readonly discarded: { readonly buffer: ArrayBufferLike; readonly from: number; readonly length: number }[] = [];
  readonly returns: PageReturns;
  readonly stores;
  readonly engine: Engine;

  constructor(returns?: PageReturns) {
    this.returns =
      returns ?? new PageReturns(() => (buffer, from, length) => void this.discarded.push({ buffer, from, length }));
    this.stores = createStores({ stableBytesMax: MIB, returns: this.returns });
    const control = new ControlMemory({ stackBytes: STACK_BYTES, journalBytesMax: 64 * MIB, onYield: () => undefined });
    this.engine = new Engine({ policy: POLICY, control, shared: this.stores, reportBug: assert.fail });
  }

  install(width: 32 | 64, pages: number) {
    const spec = { id: new Uint8Array(10), balance: POLICY.startingCycles, controllers: [], env: new Map() };
    const canister = this.engine.createCanister({ ...spec, snapshotBelowBytes: 2 ** 30 });
    this.reinstall(canister, width, pages);
    return canister;
  }

  reinstall(canister: ReturnType<Engine['createCanister']>, width: 32 | 64, pages: number): void {
    const { code } = load(assemble(width, `(module (memory %index ${pages}))`));
    const change = { mode: 'reinstall', argument: new Uint8Array(0), caller: ANONYMOUS } as const;
    assert.equal(this.engine.change(canister, code, change, 1).step.fault, undefined);
  }
}

for (const width of WIDTHS)
  describe(`a large heap of ${width} bits`, () => {
    for (const way of ['removed', 'reinstalled'] as const)
      it(`is given back in pieces when its canister is ${way}, and garbage only then`, () => {
        const host = new Host();
        const canister = host.install(width, PAGES);
        const heap = canister.installed?.instance.heap().buffer;
        if (way === 'removed') host.engine.removeCanister(canister);
        else host.reinstall(canister, width, 1);
        const { heaps } = host.stores;
        assert.equal(heaps.droppedBytes, 0, 'the collector would unmap all of it in one go');
        assert.equal(heaps.countedBytes, PAGES * 65_536, 'it still has the memory');
        let pieces = 0;
        for (; host.returns.hasWork; pieces++) host.returns.work();
        assert.equal(pieces, 6);
        assert.deepEqual(
          host.discarded.map(({ from, length }) => [from / MIB, length / MIB]),
          [0, 8, 16, 24, 32, 40].map((from) => [from, from === 40 ? 5 : 8]),
        );
        assert.ok(host.discarded.every(({ buffer }) => buffer === heap));
        assert.equal(heaps.droppedBytes, PAGES * 65_536);
        assert.equal(heaps.countedBytes, 0);
      });

    it('is given back at once when memory is wanted', () => {
      const host = new Host();
      host.engine.removeCanister(host.install(width, PAGES));
      host.stores.heaps.clear();
      assert.equal(host.returns.hasWork, false);
      assert.equal(host.discarded.length, 6);
      assert.equal(host.stores.heaps.droppedBytes, PAGES * 65_536);
    });

    it('is left to the collector where pages cannot be given back, which is tried once', () => {
      let tries = 0;
      const host = new Host(
        new PageReturns(() => {
          tries++;
          throw new Error('no node:ffi');
        }),
      );
      for (let k = 1; k <= 2; k++) {
        host.engine.removeCanister(host.install(width, PAGES));
        assert.equal(host.stores.heaps.droppedBytes, k * PAGES * 65_536);
      }
      assert.equal(tries, 1);
    });

    it('is given back after the ones before it, and a heap of a few MiB never', () => {
      const host = new Host();
      const [first, second, small] = [PAGES, PAGES, 300].map((pages) => host.install(width, pages));
      for (const canister of [first, second, small]) if (canister !== undefined) host.engine.removeCanister(canister);
      assert.equal(host.stores.heaps.droppedBytes, 300 * 65_536);
      host.returns.finish();
      assert.equal(host.stores.heaps.droppedBytes, (2 * PAGES + 300) * 65_536);
      const buffers = host.discarded.map(({ buffer }) => buffer);
      assert.equal(new Set(buffers).size, 2);
      assert.ok(buffers.slice(0, 6).every((buffer) => buffer === buffers[0]));
    });
  });

it('the system gives back the pages of the range, and of no other', () => {
  const discard = openDiscard();
  const { buffer } = new WebAssembly.Memory({ initial: 640, maximum: 640 });
  const bytes = new Uint8Array(buffer).fill(7);
  discard(buffer, 8 * MIB, 16 * MIB);
  assert.deepEqual(
    [8 * MIB - 1, 8 * MIB, 24 * MIB - 1, 24 * MIB].map((at) => bytes[at]),
    [7, 0, 0, 7],
  );
  assert.ok(bytes.subarray(8 * MIB, 24 * MIB).every((byte) => byte === 0));
});
