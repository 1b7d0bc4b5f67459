/** Heartbeats, global timers and the low-memory hook. */
import assert from 'node:assert/strict';
import type { SuiteTest } from '../runner.ts';
import {
  Bench,
  calling,
  callOf,
  faulted,
  HEARTBEAT,
  HEARTBEAT_MS,
  idOf,
  LOW_MEMORY,
  type MakeScheduler,
  moduleOf,
  NONE,
  RAN,
  replied,
  TIMER,
  TIMER_MS,
  watch,
} from './bench.ts';

const MODULE = moduleOf(10, [HEARTBEAT, TIMER, LOW_MEMORY]);

const isHook = (task: object, hook: string): boolean =>
  'kind' in task && task.kind === 'system' && 'entry' in task && task.entry === MODULE.entries.get(hook);

export function describeTicks(test: SuiteTest, make: MakeScheduler): void {
  test('a heartbeat is left out while the one before it is queued or executes, and only then', async (t) => {
    const bench = await Bench.over(t, make, [0, 1], { module: moduleOf(10, [HEARTBEAT]) });
    await bench.pass(HEARTBEAT_MS);
    await bench.task(0);
    await bench.pass(10 * HEARTBEAT_MS, HEARTBEAT_MS);
    assert.equal(bench.execution.underWay(0), 1);
    await bench.end(0, calling(callOf(idOf(1))));
    await bench.nothing(0);
    await bench.pass(HEARTBEAT_MS);
    assert.ok(isHook(await bench.end(0, RAN), HEARTBEAT), 'its call does not hold up the next');
    await bench.nothing(0);
    assert.deepEqual(
      bench.heard.ended.map(({ count }) => count),
      ['message', 'message'],
    );
  });

  test('a heartbeat goes ahead of what waits, and none comes while its canister does not run', async (t) => {
    const bench = await Bench.over(t, make, [0], { module: moduleOf(10, [HEARTBEAT]) });
    for (let n = 0; n < 900; n++) bench.deliver(0);
    await bench.idle();
    const ahead = bench.execution.underWay(0);
    await bench.pass(HEARTBEAT_MS);
    let isBeat = false;
    for (let ended = 0; !isBeat; ended++) {
      assert.ok(ended <= ahead, 'it waits with the others');
      isBeat = isHook(await bench.end(0), HEARTBEAT);
      await bench.idle();
    }
    const release = bench.scheduler.lock(0);
    while (bench.execution.underWay(0) > 0) {
      await bench.end(0);
      await bench.idle();
    }
    await bench.pass(3 * HEARTBEAT_MS, HEARTBEAT_MS);
    await bench.nothing(0);
    await bench.settled(watch(bench.scheduler.stop(0)));
    release();
    await bench.pass(3 * HEARTBEAT_MS, HEARTBEAT_MS);
    await bench.nothing(0);
  });

  test('a timer fires once when it is due, is off before its hook runs, and stays off if that traps', async (t) => {
    const bench = await Bench.over(t, make, [0], { module: moduleOf(20, [TIMER]) });
    const state = bench.scheduler.stateOf(0);
    const armed = async (ms: number): Promise<number> => {
      const dueMs = bench.clock.nowMs() + ms;
      bench.deliver(0);
      await bench.end(0, replied(NONE, { timerNs: BigInt(dueMs) * 1_000_000n }));
      assert.equal(state.timerMs, dueMs);
      return dueMs;
    };
    const dueMs = await armed(50);
    await bench.pass(45, TIMER_MS);
    await bench.nothing(0);
    await bench.pass(2 * TIMER_MS, TIMER_MS);
    assert.equal((await bench.task(0)).kind, 'system');
    assert.deepEqual([state.timerMs, state.storedTimerMs], [undefined, dueMs], 'a crash now has it fire again');
    await bench.end(0, faulted('trap'));
    assert.deepEqual([state.timerMs, state.storedTimerMs], [undefined, undefined]);
    await bench.pass(200, TIMER_MS);
    await bench.nothing(0);
    await armed(50);
    bench.deliver(0);
    await bench.end(0, replied(NONE, { timerNs: 0n }));
    assert.equal(state.timerMs, undefined);
    await bench.pass(200, TIMER_MS);
    await bench.nothing(0);
  });

  test('a timer is due in its canister’s own time', async (t) => {
    const bench = await Bench.over(t, make, [0], { module: moduleOf(20, [TIMER]) });
    bench.execution.ahead.set(0, 1000);
    bench.deliver(0);
    await bench.end(0, replied(NONE, { timerNs: BigInt(bench.clock.nowMs() + 1020) * 1_000_000n }));
    await bench.pass(40, TIMER_MS);
    assert.equal((await bench.end(0, RAN)).kind, 'system');
  });

  test('a hook whose timer was set anew while it waited does not run', async (t) => {
    const bench = await Bench.over(t, make, [0], { module: moduleOf(20, [TIMER]) });
    const { scheduler, clock } = bench;
    bench.deliver(0);
    await bench.end(0, replied(NONE, { timerNs: BigInt(clock.nowMs() + 20) * 1_000_000n }));
    bench.deliver(0);
    await bench.task(0);
    await bench.pass(50, TIMER_MS);
    const lock = scheduler.lock(0);
    await bench.end(0, replied(NONE, { timerNs: BigInt(clock.nowMs() + 1000) * 1_000_000n }));
    await bench.idle();
    // An executor may have been given it before: it is one execution then, and the new timer stands.
    lock();
    await bench.idle();
    assert.ok(bench.execution.underWay(0) <= 1);
    if (bench.execution.underWay(0) > 0) await bench.end(0, RAN);
    assert.equal(scheduler.stateOf(0).timerMs, clock.nowMs() + 1000);
  });

  test('the low-memory hook runs once for however many of its warnings, and not when memory is back', async (t) => {
    const bench = await Bench.over(t, make, [0], { module: moduleOf(10, [LOW_MEMORY]) });
    const { scheduler, heard } = bench;
    const release = scheduler.lock(0);
    scheduler.lowMemory(0, true);
    release();
    await bench.nothing(0);
    assert.deepEqual(heard.lowMemoryRan, [], 'not due while the code is being changed');
    bench.deliver(0);
    await bench.task(0);
    scheduler.lowMemory(0, true);
    scheduler.lowMemory(0, true);
    await bench.end(0);
    assert.equal((await bench.end(0, RAN)).kind, 'system');
    await bench.nothing(0);
    assert.deepEqual(heard.lowMemoryRan, [0]);
    bench.deliver(0);
    await bench.task(0);
    scheduler.lowMemory(0, true);
    scheduler.lowMemory(0, false);
    await bench.end(0);
    await bench.idle();
    // An executor may have been given it before.
    if (bench.execution.underWay(0) > 0) await bench.end(0, RAN);
    else assert.deepEqual(heard.lowMemoryRan, [0]);
  });

  test('a low-memory hook that the code does not have counts as run at once', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    bench.scheduler.lowMemory(0, true);
    await bench.idle();
    assert.deepEqual(bench.heard.lowMemoryRan, [0]);
  });
}
