/** States: captured, put back, stored as they change, and woken from that. */
import assert from 'node:assert/strict';
import { MemoryTables } from '../../../../subsystems/storage/memory-tables.ts';
import { Overlay } from '../../../../subsystems/storage/overlay.ts';
import type { SuiteTest } from '../runner.ts';
import { type MakeExecution, Bench, asleep, countIn, hexOf, upgrade } from './bench.ts';

export function describeStates(test: SuiteTest, make: MakeExecution): void {
  test('a state is captured whole, and put back over whatever is there, in another canister, too', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const { execution, module } = bench;
    const it = await bench.installed(Uint8Array.of(20));
    await bench.change(it, module, upgrade(true));
    await bench.update(it, 'certify', Uint8Array.of(1, 2, 3));
    const image = await bench.until(execution.capture(it.handle, module));
    assert.deepEqual([image.heap[16], hexOf(image.globals), hexOf(image.certifiedData)], [20, '14000000', '010203']);
    assert.deepEqual([image.module, image.stablePages], [module, 1]);
    await bench.counts(it, 'inc', 'inc');
    assert.equal(image.heap[16], 20, 'it is a copy');
    await bench.until(execution.restore(it.handle, image));
    assert.deepEqual(await bench.counts(it, 'inc'), [21]);
    assert.equal(image.heap[16], 20, 'it still is');
    const other = await bench.installed(Uint8Array.of(90));
    await bench.until(execution.restore(other.handle, image));
    assert.deepEqual(await bench.counts(other, 'inc', 'inc'), [21, 22]);
    assert.deepEqual(await bench.counts(it, 'get'), [21]);
    const empty = await bench.until(execution.capture(bench.create().handle, undefined));
    assert.deepEqual([empty.module, empty.heap.length], [undefined, 0]);
  });

  test('what changed is told before its step has ended, and brings a sleeping canister back as it was', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const { execution, module } = bench;
    const stored = new Overlay(new MemoryTables());
    const it = await bench.installed(Uint8Array.of(30), { snapshotBelowBytes: 1 << 30 }, stored);
    await bench.change(it, module, upgrade(true));
    await bench.update(it, 'certify', Uint8Array.of(9));
    it.diary.length = 0;
    await bench.update(it, 'inc');
    assert.deepEqual(it.diary, ['changed', 'ended']);
    it.diary.length = 0;
    await bench.query(it, 'scribble');
    await bench.update(it, 'fail');
    assert.ok(!it.diary.includes('changed') || countIn(stored) === 31, 'what was undone is not told');
    await bench.until(execution.sleep(it.handle));
    const back = await bench.until(execution.wake(it.handle, asleep(bench, it, stored)));
    assert.equal(back, undefined, 'there was no log to be run again');
    assert.deepEqual(await bench.counts(it, 'get', 'inc'), [31, 32]);
    const image = await bench.until(execution.capture(it.handle, module));
    assert.deepEqual([hexOf(image.certifiedData), image.stablePages], ['09', 1]);
    await bench.until(execution.sleep(it.handle));
    const born = bench.bornAsleep(it);
    await bench.until(execution.wake(born.handle, asleep(bench, it, stored)));
    assert.deepEqual(await bench.counts(born, 'inc'), [33]);
  });

  test('who is roused is as who is woken, or has to be woken', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const { execution, module } = bench;
    const stored = new Overlay(new MemoryTables());
    const it = await bench.installed(Uint8Array.of(40), { snapshotBelowBytes: 1 << 30 }, stored);
    await bench.change(it, module, upgrade(true));
    await bench.update(it, 'certify', Uint8Array.of(7));
    const again = async (): Promise<void> => {
      await bench.until(execution.sleep(it.handle));
      const isRoused = await bench.until(execution.rouse(it.handle, asleep(bench, it, stored)));
      assert.ok(execution.supports.packing || !isRoused, 'it does not say that it keeps anything');
      if (!isRoused) await bench.until(execution.wake(it.handle, asleep(bench, it, stored)));
    };
    await again();
    assert.deepEqual(await bench.counts(it, 'get', 'inc'), [40, 41]);
    await again();
    // Anything kept of the canister must not be from its first life.
    assert.deepEqual(await bench.counts(it, 'get', 'inc'), [41, 42]);
    const image = await bench.until(execution.capture(it.handle, module));
    assert.deepEqual([image.heap[16], hexOf(image.certifiedData), image.stablePages], [42, '07', 1]);
    assert.equal(countIn(stored), 42, 'what it did is told, however it was brought back');
    // A canister that was never there is not kept.
    const born = bench.bornAsleep(it);
    await bench.until(execution.sleep(it.handle));
    assert.notEqual(await bench.until(execution.rouse(born.handle, asleep(bench, it, stored))), true);
    await bench.until(execution.wake(born.handle, asleep(bench, it, stored)));
    assert.deepEqual(await bench.counts(born, 'inc'), [43]);
  });

  test('a stored state that does not fit together is refused, and the others run on', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const { execution } = bench;
    const stored = new Overlay(new MemoryTables());
    const it = await bench.installed(Uint8Array.of(1), { snapshotBelowBytes: 1 << 30 }, stored);
    const other = await bench.installed();
    await bench.until(execution.sleep(it.handle));
    const good = asleep(bench, it, stored);
    await bench.fails(execution.wake(it.handle, { ...good, globals: Uint8Array.of(1, 2) }), 'invalid', 'state-unfit');
    assert.deepEqual(await bench.counts(other, 'inc'), [1]);
    await bench.until(execution.wake(it.handle, asleep(bench, it, stored)));
    assert.deepEqual(await bench.counts(it, 'get'), [1]);
  });
}
