/** State that outlives the process and its executors, if the scheduler supports that. */
import assert from 'node:assert/strict';
import { ServerError } from '../../../../kernel/index.ts';
import type { MemoryTables } from '../../../../subsystems/storage/memory-tables.ts';
import type { SuiteTest } from '../runner.ts';
import {
  argumentOf,
  Bench,
  callbackOf,
  calling,
  callOf,
  idOf,
  type MakeScheduler,
  MODULE,
  moduleOf,
  NONE,
  RAN,
  refusalOf,
  replied,
  TIMER,
  TIMER_MS,
  watch,
} from './bench.ts';

/** Number of entries that the scheduler has stored. */
const stored = (tables: MemoryTables): number => [...tables.range('queue', NONE, undefined)].length;
/** The newest unit that the tables have. */
const newest = (tables: MemoryTables): string =>
  [...tables.range('meta', NONE, undefined)].map(([, value]) => Buffer.from(value).toString('hex')).join();

const isUnsupported = (error: unknown): boolean =>
  error instanceof ServerError && error.code === 'scheduler-unsupported';

export function describeDurability(test: SuiteTest, make: MakeScheduler): void {
  const kept = (title: string, body: (bench: Bench) => Promise<void>): void =>
    test(title, async (t) => {
      const bench = await Bench.over(t, make, [0, 1], { isKept: true, module: moduleOf(10, [TIMER]) });
      if (bench.scheduler.supports.durability) await body(bench);
    });

  test('what is not kept is refused: entries of another process, and canisters that sleep', async (t) => {
    const { scheduler } = await Bench.over(t, make, [0]);
    if (scheduler.supports.durability) return;
    scheduler.restore([]);
    await scheduler.restoreAnswers();
    assert.throws(() => scheduler.restore([[Uint8Array.of(1), Uint8Array.of(2)]]), isUnsupported);
    assert.throws(() => scheduler.admit(5, 'x', { module: MODULE, isAsleep: true }), isUnsupported);
  });

  kept('a client is told of a change when it is durable, and a query of what it has seen', async (bench) => {
    const { tables } = bench;
    const before = newest(tables);
    const told = bench.deliver(0);
    await bench.end(0);
    const seeing = bench.query(0);
    await bench.execution.end(0, { ...replied(), charge: 0 });
    for (const each of [told, seeing]) {
      await bench.settled(each);
      assert.notEqual(newest(tables), before, 'it is not durable');
    }
    assert.equal(stored(tables), 0, 'nothing of it is left');
  });

  kept(
    'a call that executed executes again after a crash, with what it had, and its context goes on',
    async (bench) => {
      bench.deliver(0);
      const payload = new Uint8Array(100_000).fill(7);
      const call = callOf(idOf(1), { payload, cycles: 2n ** 90n });
      await bench.end(0, calling(call));
      await bench.task(1);
      const next = await bench.restarted();
      const task = await next.end(1, replied(Uint8Array.of(1), { cyclesAccepted: 5n }));
      assert.ok(task.kind === 'update');
      assert.deepEqual(task.argument, new Uint8Array(100_000).fill(7));
      assert.deepEqual([task.context.cyclesAvailable, task.context.caller], [2n ** 90n, idOf(0)]);
      await next.task(0);
      const last = await next.restarted();
      const callback = callbackOf(await last.end(0));
      assert.deepEqual(
        [callback.response, callback.callbacks],
        [{ kind: 'reply', data: Uint8Array.of(1) }, call.callbacks],
      );
      assert.equal(callback.refunded, 2n ** 90n - 5n);
      await last.idle();
      await last.storage.settled();
      assert.equal(stored(last.tables), 0);
    },
  );

  kept(
    'what waited goes on in its order after a crash, and a client’s message that had not begun is gone',
    async (bench) => {
      const client = bench.deliver(0);
      await bench.end(
        0,
        calling(...Array.from({ length: 30 }, (_, n) => callOf(idOf(1), { payload: Uint8Array.of(n) }))),
      );
      await bench.task(1);
      bench.deliver(0);
      await bench.task(0);
      const next = await bench.restarted();
      assert.equal(client.isSettled, false);
      for (let n = 0; n < 30; n++) assert.deepEqual(argumentOf(await next.end(1, { ...RAN })), Uint8Array.of(n));
      for (let n = 0; n < 30; n++) callbackOf(await next.end(0, RAN));
      await next.nothing(0);
      await next.nothing(1);
    },
  );

  kept('statuses and timers go on: a stop ends when the last call does, a timer fires', async (bench) => {
    const dueMs = bench.clock.nowMs() + 500;
    bench.deliver(1);
    await bench.end(1, { ...replied(), timerNs: BigInt(dueMs) * 1_000_000n });
    bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1))));
    await bench.task(1);
    const stopping = watch(bench.scheduler.stop(0));
    assert.deepEqual(bench.heard.records.at(-1), { handle: 0, status: 'stopping', timerMs: undefined }, 'to be stored');
    const next = await bench.restarted();
    assert.equal(stopping.isSettled, false);
    assert.deepEqual([next.scheduler.stateOf(0).status, next.scheduler.stateOf(1).timerMs], ['stopping', dueMs]);
    assert.equal(next.scheduler.stateOf(0).openCounts.length, 1, 'for the executor that gets it');
    await next.end(1);
    await next.end(0);
    await next.until('it does not stop', () => next.scheduler.stateOf(0).status === 'stopped');
    await next.pass(600, TIMER_MS);
    assert.equal((await next.end(1, RAN)).kind, 'system');
    assert.deepEqual(next.heard.records.at(-1), { handle: 1, status: 'running', timerMs: undefined }, 'it has fired');
  });

  kept(
    'a call to the management canister without an answer is rejected after a crash, with its cycles',
    async (bench) => {
      bench.scheduler.attach({ call: () => new Promise(() => undefined) });
      bench.deliver(0);
      await bench.end(0, calling(callOf(NONE, { cycles: 12n })));
      await bench.idle();
      const next = await bench.restarted();
      const { response, refunded } = callbackOf(await next.end(0));
      assert.deepEqual([response.kind === 'reject' && response.code, refunded], [2, 12n]);
    },
  );

  kept('a best-effort call keeps its deadline over a crash', async (bench) => {
    bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1), { timeoutSeconds: 5 })));
    await bench.task(1);
    const next = await bench.restarted();
    await next.pass(5000 + TIMER_MS, 100);
    const { response } = callbackOf(await next.end(0));
    assert.equal(response.kind === 'reject' && response.code, 6);
    await next.end(1);
    await next.nothing(0);
  });

  kept('at the end calls between canisters stay stored, and go on in the next process', async (bench) => {
    bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1)), callOf(idOf(1))));
    await bench.task(1);
    const drained = watch(bench.drain());
    await bench.idle();
    await bench.end(1);
    await bench.settled(drained);
    const next = await bench.restarted();
    callbackOf(await next.end(0, RAN));
    await next.end(1);
    callbackOf(await next.end(0, RAN));
    await next.nothing(1);
  });

  kept(
    'an executor that dies leaves its canisters asleep: calls of canisters execute again, clients are told',
    async (bench) => {
      bench.deliver(0);
      await bench.end(0, calling(callOf(idOf(1), { payload: Uint8Array.of(1) })));
      await bench.task(1);
      const client = bench.deliver(1);
      bench.execution.lose(1);
      bench.execution.sleep(1);
      assert.ok(['unavailable', 'reply'].includes((await settledOr(bench, client)) ?? 'reply'));
      const again = await bench.end(1);
      assert.deepEqual(argumentOf(again), Uint8Array.of(1));
      callbackOf(await bench.end(0));
      assert.equal(bench.scheduler.stateOf(1).isAsleep, false);
    },
  );

  kept(
    'who cannot be woken refuses what waits with the reason, and is tried again with the next message',
    async (bench) => {
      const next = await bench.restarted();
      next.wakeProblem = new ServerError('unavailable', 'executor-stopped', 'no thread starts');
      const refused = next.deliver(0);
      assert.deepEqual(refusalOf(await next.settled(refused)), ['unavailable', 2, 'no thread starts']);
      await assert.rejects(next.settled(watch(next.scheduler.pin(0))), { code: 'executor-stopped' });
      next.wakeProblem = undefined;
      await next.pass(60_000, 1000);
      const told = next.deliver(0);
      await next.end(0);
      assert.equal((await next.settled(told)).kind, 'reply');
      const release = await next.settled(watch(next.scheduler.pin(1)));
      assert.equal(next.scheduler.stateOf(1).isAsleep, false);
      release();
    },
  );

  kept('entries that cannot be read are an error that names the state', async (bench) => {
    const { scheduler } = await bench.restarted();
    const damaged = [[Uint8Array.of(1, 2, 3), Uint8Array.of(4)]] as const;
    assert.throws(
      () => scheduler.restore(damaged),
      (error) => error instanceof ServerError && error.code === 'state-corrupt',
    );
  });
}

/** Returns the kind of outcome if the client was told by now; one that waits for the canister is told later. */
async function settledOr(bench: Bench, told: ReturnType<Bench['deliver']>): Promise<string | undefined> {
  await bench.idle();
  return told.value?.kind;
}
