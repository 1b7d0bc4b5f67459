/** Canisters that are put to sleep for others, if the scheduler supports that. */
import assert from 'node:assert/strict';
import type { SuiteTest } from '../runner.ts';
import { Bench, calling, callOf, callbackOf, idOf, type MakeScheduler, watch } from './bench.ts';

export function describeEviction(test: SuiteTest, make: MakeScheduler): void {
  const capped = (title: string, body: (bench: Bench) => Promise<void>): void =>
    test(title, async (t) => {
      const { supports } = (await Bench.over(t, make, [])).scheduler;
      const isKept = supports.durability;
      const bench = await Bench.over(t, make, [0, 1, 2], { isKept, liveCap: 1 });
      if (supports.eviction) await body(bench);
      else assert.deepEqual([bench.scheduler.live.evictions, bench.scheduler.stateOf(0).isAsleep], [0, false]);
    });

  capped('everybody is answered in turn where one may be live, and the numbers say so', async (bench) => {
    const { scheduler } = bench;
    for (let round = 0; round < 3; round++)
      for (const handle of [0, 1, 2]) {
        const told = bench.deliver(handle);
        await bench.end(handle);
        assert.equal((await bench.settled(told)).kind, 'reply');
        const awake = [0, 1, 2].filter((each) => !scheduler.stateOf(each).isAsleep);
        assert.equal(scheduler.live.liveCount, awake.length);
      }
    await bench.idle();
    assert.ok(scheduler.live.liveCount <= 1, `${scheduler.live.liveCount} are live`);
    assert.ok(scheduler.live.evictions >= 8 && scheduler.live.wakeUps >= 6, JSON.stringify(scheduler.live));
  });

  capped('calls between canisters that may not be live together are answered', async (bench) => {
    const told = bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1)), callOf(idOf(2))));
    await bench.end(1);
    await bench.end(2);
    callbackOf(await bench.end(0));
    assert.equal((await bench.settled(told)).kind, 'reply');
    callbackOf(await bench.end(0));
  });

  capped('who executes or is pinned stays awake', async (bench) => {
    const { scheduler } = bench;
    const release = await bench.settled(watch(scheduler.pin(0)));
    bench.deliver(1);
    await bench.end(1);
    await bench.idle();
    assert.equal(scheduler.stateOf(0).isAsleep, false);
    release();
    const told = bench.deliver(2);
    await bench.task(2);
    bench.deliver(0);
    await bench.idle();
    assert.equal(scheduler.stateOf(2).isAsleep, false);
    await bench.end(2);
    await bench.settled(told);
    await bench.end(0);
  });
}
