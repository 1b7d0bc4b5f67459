/** Memory and figures: counted, held, given back. */
import assert from 'node:assert/strict';
import type { SuiteTest } from '../runner.ts';
import { type MakeExecution, Bench, PAGE_BYTES } from './bench.ts';

export function describeMemory(test: SuiteTest, make: MakeExecution): void {
  test('memory is counted, held and given back, and never more of it than there is', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const { execution } = bench;
    await bench.installed();
    await bench.until(execution.trim());
    const { bytesMax, bytesUsed } = execution.memory;
    assert.ok(bytesUsed >= 0 && bytesUsed <= bytesMax && execution.memory.bytesHigh <= bytesMax);
    const held = 256 * PAGE_BYTES;
    const release = execution.holdMemory(held);
    // Executors may give back a little meanwhile.
    assert.ok(execution.memory.bytesUsed >= bytesUsed + held / 2);
    release();
    assert.ok(execution.memory.bytesUsed < bytesUsed + held / 2);
    assert.throws(() => execution.holdMemory(bytesMax + PAGE_BYTES), { code: 'memory-full' });
    assert.ok(Object.values(execution.memoryByKind()).every((bytes) => bytes >= 0));
  });

  test('figures say what executors did and have to do, and who is new is refused once that is asked', async (t) => {
    const bench = await Bench.over(await make(t, true));
    const { execution } = bench;
    const it = await bench.installed();
    assert.ok(execution.executorOf(it.handle) < execution.executorCount);
    await bench.update(it, 'inc');
    const { executors } = execution.executorFigures();
    assert.equal(executors.length, execution.executorCount);
    const own = executors[execution.executorOf(it.handle)];
    assert.ok(own !== undefined && own.steps >= 1 && own.instructions > 0);
    assert.deepEqual(execution.executing(), []);
    const running = bench.update(it, 'inc');
    assert.deepEqual(
      execution.executing().map(({ handle }) => handle),
      [it.handle],
    );
    await bench.until(running);
    execution.refuseNew();
    await bench.idle();
    const refused = await bench.update(it, 'inc');
    assert.equal(refused.fault?.kind, 'unavailable');
    assert.deepEqual([refused.instructions, refused.charge], [0, 0]);
  });
}
