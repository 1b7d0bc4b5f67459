/** Calls, their callbacks, and the cycles that go with them. */
import assert from 'node:assert/strict';
import { FULL_LIMIT } from '../../../../subsystems/ic/index.ts';
import type { SuiteTest } from '../runner.ts';
import { type MakeExecution, Bench, CALLEE, NONE, contextOf, countOf, hexOf, textOf } from './bench.ts';

export function describeCalls(test: SuiteTest, make: MakeExecution): void {
  test('a call leaves with its step, paid for, and its callback goes on where it was left', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed();
    const balance = it.balance();
    const step = await bench.update(it, 'call', CALLEE);
    const [call] = step.calls;
    assert.ok(call !== undefined && step.calls.length === 1 && step.answer === undefined);
    assert.deepEqual(
      [hexOf(call.callee), call.method, textOf(call.payload), call.cycles, call.timeoutSeconds],
      [hexOf(CALLEE), 'inc', 'said', 7n, undefined],
    );
    assert.equal(balance - it.balance(), 7n + BigInt(step.charge));
    const replied = await bench.run(it, {
      kind: 'callback',
      callbacks: call.callbacks,
      response: { kind: 'reply', data: NONE },
      refunded: 3n,
      context: contextOf(),
      frame: 0,
      instructionsMax: FULL_LIMIT,
    });
    assert.equal(countOf(replied), 11, 'the reply function got its environment');
    assert.equal(balance - it.balance(), 4n + BigInt(step.charge + replied.charge), 'what was refunded is back');
    const again = (await bench.update(it, 'call', CALLEE)).calls[0];
    assert.ok(again !== undefined);
    const rejected = await bench.run(it, {
      kind: 'callback',
      callbacks: again.callbacks,
      response: { kind: 'reject', code: 4, message: 'no' },
      refunded: 0n,
      context: contextOf(),
      frame: 0,
      instructionsMax: FULL_LIMIT,
    });
    assert.equal(countOf(rejected), 36, '12, and 20, and code 4');
  });

  test('cycles are accepted, added and charged, and the gauges say what is left', async (t) => {
    const bench = await Bench.over(await make(t, false));
    const it = await bench.installed();
    const before = it.balance();
    const step = await bench.run(it, bench.task('update', 'take', NONE, { cyclesAvailable: 100n }));
    assert.equal(step.cyclesAccepted, 5n);
    assert.equal(it.balance(), before + 5n - BigInt(step.charge));
    const added = await bench.until(bench.execution.addCycles(it.handle, 1000n));
    assert.equal(added, before + 1005n - BigInt(step.charge));
    assert.equal((await bench.run(it, bench.task('update', 'take', NONE, { cyclesAvailable: 2n }))).cyclesAccepted, 2n);
  });
}
