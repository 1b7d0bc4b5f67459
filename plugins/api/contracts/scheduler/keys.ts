/** Keys that clients give their updates, if the scheduler supports them. */
import assert from 'node:assert/strict';
import { ServerError } from '../../../../kernel/index.ts';
import type { SuiteTest } from '../runner.ts';
import { Bench, calling, callOf, faulted, idOf, type MakeScheduler, NONE, replied, type Watched } from './bench.ts';

async function isRefusedWith(bench: Bench, told: Watched<unknown>, code: string): Promise<void> {
  await assert.rejects(bench.settled(told), (error) => error instanceof ServerError && error.code === code);
}

export function describeKeys(test: SuiteTest, make: MakeScheduler): void {
  test('an update with a key executes once and is answered as often as it comes, or is refused', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const { scheduler } = bench;
    const keyed = (argument: Uint8Array = NONE, caller = Uint8Array.of(4)): Watched<unknown> =>
      bench.deliver(0, 'm', { idempotencyKey: 'one', argument, caller });
    const first = keyed();
    if (!scheduler.supports.idempotencyKeys) {
      await isRefusedWith(bench, first, 'scheduler-unsupported');
      await bench.nothing(0);
      assert.deepEqual(scheduler.idempotency, { keys: 0, bytes: 0, repeats: 0 });
      return;
    }
    const second = keyed();
    await bench.end(0, replied(Uint8Array.of(7)));
    const third = keyed();
    for (const [told, isRepeat] of [
      [first, undefined],
      [second, true],
      [third, true],
    ] as const) {
      const outcome = (await bench.settled(told)) as { readonly kind: string; readonly data: Uint8Array };
      assert.deepEqual([outcome.kind, outcome.data], ['reply', Uint8Array.of(7)]);
      assert.equal('isRepeat' in outcome ? outcome.isRepeat : undefined, isRepeat);
    }
    await bench.nothing(0);
    await isRefusedWith(bench, keyed(Uint8Array.of(1)), 'idempotency-key-reused');
    const other = keyed(NONE, Uint8Array.of(5));
    await bench.end(0);
    await bench.settled(other);
    assert.deepEqual([scheduler.idempotency.keys, scheduler.idempotency.repeats], [2, 2]);
  });

  test('a key is answered from a callback, a trap is an answer, and keys outlive the process', async (t) => {
    const isKept = (await Bench.over(t, make, [])).scheduler.supports;
    if (!isKept.idempotencyKeys || !isKept.durability) return;
    const bench = await Bench.over(t, make, [0, 1], { isKept: true });
    const open = bench.deliver(0, 'm', { idempotencyKey: 'open' });
    await bench.end(0, calling(callOf(idOf(1))));
    await bench.task(1);
    const trapped = bench.deliver(0, 'm', { idempotencyKey: 'trapped' });
    await bench.end(0, faulted('trap'));
    assert.equal((await bench.settled(trapped)).kind, 'trap');
    assert.equal(open.isSettled, false);
    const next = await bench.restarted();
    const again = next.deliver(0, 'm', { idempotencyKey: 'open' });
    const trappedAgain = await next.settled(next.deliver(0, 'm', { idempotencyKey: 'trapped' }));
    assert.deepEqual([trappedAgain.kind, trappedAgain.isRepeat], ['trap', true]);
    await next.end(1);
    await next.end(0, replied(Uint8Array.of(3)));
    const outcome = await next.settled(again);
    assert.deepEqual(outcome.kind === 'reply' && [outcome.data, outcome.isRepeat], [Uint8Array.of(3), true]);
    await next.nothing(0);
  });
}
