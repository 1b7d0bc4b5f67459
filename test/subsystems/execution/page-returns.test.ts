/** Heaps that nobody uses are given back to the machine, large ones in pieces, before the collector has them. */
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
    const { budget } = this.stores;
    const limits = { stackBytes: STACK_BYTES, journalBytesMax: 64 * MIB, budget };
    const control = new ControlMemory({ ...limits, onYield: () => undefined });
    this.engine = new Engine({ policy: POLICY, control, shared: this.stores, reportBug: assert.fail });
  }

  install(width: 32 | 64, pages: number, data = '') {
    const spec = { id: new Uint8Array(10), balance: POLICY.startingCycles, controllers: [], env: new Map() };
    const canister = this.engine.createCanister({ ...spec, snapshotBelowBytes: 2 ** 30 });
    this.reinstall(canister, width, pages, data);
    return canister;
  }

  reinstall(canister: ReturnType<Engine['createCanister']>, width: 32 | 64, pages: number, data = ''): void {
    const { code } = load(assemble(width, `(module (memory %index ${pages}) ${data})`));
    const change = { mode: 'reinstall', argument: new Uint8Array(0), caller: ANONYMOUS } as const;
    assert.equal(this.engine.change(canister, code, change, 1).step.fault, undefined);
  }
}

for (const width of WIDTHS)
  describe(`a large heap of ${width} bits`, () => {
    for (const way of ['removed', 'reinstalled'] as const)
      it(`is given back in pieces when its canister is ${way}, and each piece is free at once`, () => {
        const host = new Host();
        const canister = host.install(width, PAGES);
        const heap = canister.installed?.instance.heap().buffer;
        if (way === 'removed') host.engine.removeCanister(canister);
        else host.reinstall(canister, width, 1);
        const { heaps } = host.stores;
        assert.equal(heaps.droppedBytes, 0, 'the collector would unmap all of it in one go');
        assert.equal(heaps.countedBytes, PAGES * 65_536, 'it still has the memory');
        const { budget } = host.stores;
        const before = budget.bytesUsed;
        const freed: number[] = [];
        while (host.returns.work()) freed.push((before - budget.bytesUsed) / MIB);
        assert.deepEqual(freed, [8, 16, 24, 32, 40, 45]);
        assert.deepEqual(
          host.discarded.map(({ from, length }) => [from / MIB, length / MIB]),
          [0, 8, 16, 24, 32, 40].map((from) => [from, from === 40 ? 5 : 8]),
        );
        assert.ok(host.discarded.every(({ buffer }) => buffer === heap));
        assert.equal(heaps.droppedBytes, 0, 'the collector has nothing left to free');
        assert.equal(heaps.countedBytes, 0);
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

    it('is given back after the ones before it', () => {
      const host = new Host();
      const [first, second] = [host.install(width, PAGES), host.install(width, PAGES)];
      for (const canister of [first, second]) host.engine.removeCanister(canister);
      while (host.returns.work());
      const buffers = host.discarded.map(({ buffer }) => buffer);
      assert.equal(buffers.length, 12);
      assert.equal(new Set(buffers).size, 2);
      assert.ok(buffers.slice(0, 6).every((buffer) => buffer === buffers[0]));
    });

    it('is given back in one piece, at once, where it is a small one that is spare no longer', () => {
      const host = new Host();
      const { heaps, budget } = host.stores;
      const before = budget.bytesUsed;
      const canister = host.install(width, 100, '(data (PTR.const 70000) "some bytes")');
      host.engine.removeCanister(canister);
      assert.deepEqual([heaps.count, host.discarded.length], [1, 0], 'it is spare');
      assert.ok(budget.bytesUsed > before);
      heaps.clear();
      assert.deepEqual(
        host.discarded.map(({ from, length }) => [from, length]),
        [[0, 100 * 65_536]],
      );
      assert.deepEqual([budget.bytesUsed, heaps.droppedBytes, host.returns.hasWork], [before, 0, false]);
    });
  });

it('a memory of which hardly anything was touched is given back at once, however large it is', () => {
  const discarded: number[] = [];
  const freed: number[] = [];
  const returns = new PageReturns(() => (_buffer, _from, length) => void discarded.push(length));
  const memory = new WebAssembly.Memory({ initial: 190, maximum: 190 });
  for (let n = 0; n < 100; n++)
    assert.equal(
      returns.add(memory, 4096, (bytes) => freed.push(bytes)),
      true,
    );
  assert.deepEqual([returns.count, discarded.length, freed.length], [0, 100, 100]);
});

it('of memories that come faster than pauses do, few wait: each keeps address space', () => {
  let pieces = 0;
  let freedBytes = 0;
  const returns = new PageReturns(() => () => void pieces++);
  const leave = (mebibytes: number): boolean => {
    const pages = mebibytes * 16;
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    return returns.add(memory, mebibytes * MIB, (bytes) => void (freedBytes += bytes));
  };
  for (let n = 0; n < 40; n++) leave(12);
  assert.deepEqual([returns.count, pieces, freedBytes], [16, 24, 24 * 12 * MIB]);
  leave(33);
  assert.equal(returns.count, 17, 'a large one would hold up others');
  while (returns.work());
  assert.equal(freedBytes, (40 * 12 + 33) * MIB);
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
