/** States of canisters: started, stopped, paused, deleted, and lost with their executor. */
import assert from 'node:assert/strict';
import { ServerError } from '../../../../kernel/index.ts';
import type { SuiteTest } from '../runner.ts';
import {
  Bench,
  callbackOf,
  calling,
  callOf,
  idOf,
  type MakeScheduler,
  moduleOf,
  RAN,
  refusalOf,
  replied,
  TIMER,
  TIMER_MS,
  type Watched,
  watch,
} from './bench.ts';

const FIVE_MINUTES_MS = 300_000;

async function failsToStop(bench: Bench, stopping: Watched<void>): Promise<void> {
  await assert.rejects(
    bench.settled(stopping),
    (error) => error instanceof ServerError && error.code === 'stop-failed' && error.kind === 'unavailable',
  );
}

export function describeStates(test: SuiteTest, make: MakeScheduler): void {
  test('a canister without open calls stops at once, takes nothing, and starts again', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const { scheduler, execution } = bench;
    await bench.settled(watch(scheduler.stop(0)));
    assert.equal(scheduler.stateOf(0).status, 'stopped');
    assert.deepEqual(execution.configured.at(-1), { handle: 0, settings: { status: 'stopped' } });
    for (const told of [bench.deliver(0), bench.query(0)])
      assert.deepEqual(refusalOf(await bench.settled(told)).slice(0, 2), ['reject', 5]);
    await bench.settled(watch(scheduler.stop(0)));
    scheduler.start(0);
    assert.equal(scheduler.stateOf(0).status, 'running');
    assert.deepEqual(execution.configured.at(-1), { handle: 0, settings: { status: 'running' } });
    const told = bench.deliver(0);
    await bench.end(0);
    assert.equal((await bench.settled(told)).kind, 'reply');
  });

  test('a stop waits for open calls, whose callbacks run; what has not begun is refused', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const first = bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1))));
    const executing = bench.deliver(0);
    await bench.task(0);
    const waiting = Array.from({ length: 300 }, () => bench.deliver(0));
    await bench.end(1);
    const stopping = watch(bench.scheduler.stop(0));
    assert.equal(bench.scheduler.stateOf(0).status, 'stopping');
    await bench.end(0);
    assert.equal((await bench.settled(executing)).kind, 'reply');
    for (const each of waiting) assert.deepEqual(refusalOf(await bench.settled(each)).slice(0, 2), ['reject', 5]);
    assert.deepEqual(refusalOf(await bench.settled(bench.deliver(0))).slice(0, 2), ['reject', 5]);
    const transform = bench.deliver(0, 'q', { kind: 'transform' });
    // A callback may still call others, and nobody may call it.
    await bench.until('no callback', () => bench.execution.head(0) !== undefined);
    for (let tasks = 0; tasks < 2; tasks++) {
      const task = await bench.task(0);
      await bench.end(0, task.kind === 'callback' ? calling(callOf(idOf(1))) : replied());
    }
    assert.equal((await bench.settled(transform)).kind, 'reply');
    await bench.end(1, calling(callOf(idOf(0))));
    const { response } = callbackOf(await bench.end(1));
    assert.equal(response.kind === 'reject' && response.code, 5);
    assert.equal(stopping.isSettled, false);
    callbackOf(await bench.end(0));
    assert.equal((await bench.settled(first)).kind, 'reply');
    await bench.settled(stopping);
    assert.equal(bench.scheduler.stateOf(0).status, 'stopped');
  });

  test('who waits for a stop is refused when the canister is started, or after five minutes', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const { scheduler } = bench;
    bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1))));
    const started = watch(scheduler.stop(0));
    scheduler.start(0);
    await failsToStop(bench, started);
    assert.equal(scheduler.stateOf(0).status, 'running');
    const late = watch(scheduler.stop(0));
    await bench.pass(FIVE_MINUTES_MS - 1000, 1000);
    const later = watch(scheduler.stop(0));
    assert.equal(late.isSettled, false);
    await bench.pass(1000);
    await failsToStop(bench, late);
    assert.deepEqual([later.isSettled, scheduler.stateOf(0).status], [false, 'stopping'], 'it goes on stopping');
    await bench.end(1);
    await bench.end(0);
    await bench.settled(later);
    assert.equal(scheduler.stateOf(0).status, 'stopped');
  });

  test('a pause keeps clients waiting, is stored as running, and ends with resume', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const { scheduler } = bench;
    bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1))));
    const executing = bench.deliver(0);
    await bench.task(0);
    const waiting = bench.deliver(0);
    const paused = watch(scheduler.pause(0));
    const { status, storedStatus } = scheduler.stateOf(0);
    assert.deepEqual([status, storedStatus], ['stopping', 'running']);
    await bench.end(0);
    await bench.settled(executing);
    await bench.end(1);
    callbackOf(await bench.end(0));
    await bench.settled(paused);
    assert.deepEqual([scheduler.stateOf(0).status, scheduler.stateOf(0).storedStatus], ['stopped', 'running']);
    assert.equal(waiting.isSettled, false);
    await bench.nothing(0);
    scheduler.resume(0);
    assert.equal(scheduler.stateOf(0).status, 'running');
    await bench.end(0);
    assert.equal((await bench.settled(waiting)).kind, 'reply');
  });

  test('who is stopped while it is paused stays stopped, and what waited is refused then', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const { scheduler } = bench;
    bench.deliver(0);
    const waiting = bench.deliver(0);
    await bench.task(0);
    const paused = watch(scheduler.pause(0));
    await bench.idle();
    assert.equal(waiting.isSettled, false);
    const stopping = watch(scheduler.stop(0));
    assert.equal(scheduler.stateOf(0).storedStatus, 'stopping');
    await bench.end(0);
    await bench.settled(stopping);
    assert.deepEqual(refusalOf(await bench.settled(waiting)).slice(0, 2), ['reject', 5]);
    await bench.settled(paused);
    scheduler.resume(0);
    assert.equal(scheduler.stateOf(0).status, 'stopped');
  });

  test('who is withdrawn is not there: for clients, for canisters, and for its id', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const { scheduler } = bench;
    await scheduler.stop(1);
    scheduler.withdraw(1);
    assert.equal(scheduler.handleOf(idOf(1)), undefined);
    assert.equal(scheduler.handleOf(idOf(0)), 0);
    assert.throws(() => scheduler.stateOf(1));
    assert.deepEqual(refusalOf(await bench.settled(bench.deliver(1))).slice(0, 2), ['reject', 3]);
    bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1), { cycles: 9n })));
    const { response, refunded } = callbackOf(await bench.end(0));
    assert.deepEqual([response.kind === 'reject' && response.code, refunded], [3, 9n]);
  });

  test('a deletion with open calls undoes the executing message, ends the calls, and owes nobody anything', async (t) => {
    const bench = await Bench.over(t, make, [0, 1, 2]);
    const { scheduler } = bench;
    const open = bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1), { cycles: 50n })));
    bench.deliver(2);
    await bench.end(2, calling(callOf(idOf(0), { cycles: 70n })));
    const task = await bench.task(0);
    assert.equal(task.kind, 'update');
    const waiting = bench.deliver(0);
    const stopping = watch(scheduler.stop(1));
    scheduler.beginDeletion(0);
    await failsToStop(bench, watch(scheduler.stop(0)));
    await bench.until('the message executes on', () => bench.execution.underWay(0) === 0);
    scheduler.lock(0);
    await bench.settled(
      watch(
        (async (): Promise<void> => {
          await scheduler.endCalls(0);
          scheduler.withdraw(0);
        })(),
      ),
    );
    assert.deepEqual(refusalOf(await bench.settled(open)).slice(0, 2), ['reject', 4]);
    const refused = refusalOf(await bench.settled(waiting));
    assert.ok(refused[0] === 'reject' && [3, 4].includes(refused[1]), refused.join());
    const { response, refunded } = callbackOf(await bench.end(2));
    assert.ok(response.kind === 'reject' && [3, 4].includes(response.code));
    assert.equal(refunded, 70n);
    // The answer to the call of who is gone goes nowhere, and the callee is done.
    await bench.end(1);
    await bench.settled(stopping);
    await bench.nothing(0);
  });

  test('a deletion that is given up leaves all as it was, with the message executed from its beginning', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const { scheduler } = bench;
    const argument = new Uint8Array(100_000).fill(3);
    const told = [bench.deliver(0, 'm', { argument }), bench.deliver(0)];
    await bench.task(0);
    const giveUp = scheduler.beginDeletion(0);
    await bench.nothing(0);
    assert.ok(!told.some(({ isSettled }) => isSettled));
    giveUp();
    const task = await bench.end(0);
    assert.ok(task.kind === 'update');
    assert.deepEqual(task.argument, new Uint8Array(100_000).fill(3));
    await bench.end(0);
    for (const each of told) assert.equal((await bench.settled(each)).kind, 'reply');
    await bench.settled(watch(scheduler.stop(0)));
  });

  test('a canister that is stored nowhere is lost with its executor: 2 for all who wait, and for all who come', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const { scheduler, execution } = bench;
    const open = bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1))));
    bench.deliver(1);
    await bench.end(1, calling(callOf(idOf(0))));
    const [executing, waiting] = [bench.deliver(0), bench.deliver(0)];
    await bench.task(0);
    execution.lose(0);
    for (const told of [open, executing, waiting, bench.deliver(0), bench.query(0)])
      assert.deepEqual(refusalOf(await bench.settled(told)).slice(0, 2), ['unavailable', 2]);
    assert.deepEqual(bench.heard.lost, [0]);
    for (let ended = 0; ended < 2; ended++) {
      const task = await bench.end(1, RAN);
      if (task.kind !== 'callback') continue;
      assert.equal(task.response.kind === 'reject' && task.response.code, 2);
    }
    bench.deliver(1);
    await bench.end(1, calling(callOf(idOf(0))));
    const { response } = callbackOf(await bench.end(1));
    assert.equal(response.kind === 'reject' && response.code, 2);
    await bench.settled(watch(scheduler.stop(0)));
    scheduler.withdraw(0);
    assert.equal(scheduler.handleOf(idOf(0)), undefined);
  });

  test('a timer that fell due while its canister was stopped fires when it is started', async (t) => {
    const bench = await Bench.over(t, make, [0], { module: moduleOf(10, [TIMER]) });
    bench.deliver(0);
    await bench.end(0, replied(undefined, { timerNs: BigInt(bench.clock.nowMs() + 50) * 1_000_000n }));
    await bench.settled(watch(bench.scheduler.stop(0)));
    await bench.pass(200, TIMER_MS);
    await bench.nothing(0);
    bench.scheduler.start(0);
    await bench.pass(2 * TIMER_MS, TIMER_MS);
    assert.equal((await bench.end(0, RAN)).kind, 'system');
  });
}
