/** Changes of code, and the locks and pins that they need. */
import assert from 'node:assert/strict';
import type { CodeChange } from '../../../../subsystems/execution/index.ts';
import type { ChangedCode } from '../../../../subsystems/scheduler/index.ts';
import type { SuiteTest } from '../runner.ts';
import {
  Bench,
  callbackOf,
  calling,
  callOf,
  CLIENT,
  faulted,
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
  type Watched,
  watch,
} from './bench.ts';

const NEW_MODULE = moduleOf(100, [TIMER]);
const UPGRADE: CodeChange = {
  mode: 'upgrade',
  keepsHeap: true,
  skipsPreUpgrade: false,
  argument: NONE,
  caller: CLIENT,
};
const changed = (bench: Bench, change: CodeChange = UPGRADE, module = NEW_MODULE): Watched<ChangedCode> =>
  watch(bench.scheduler.change(0, module, change));
const entryOf = (task: object): number => ('entry' in task ? Number(task.entry) : -1);

export function describeCodeChanges(test: SuiteTest, make: MakeScheduler): void {
  test('a change comes after what executes and before what has not begun, which meets the new code', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const told = Array.from({ length: 300 }, (_, n) => bench.deliver(0, 'm', { argument: Uint8Array.of(n) }));
    await bench.task(0);
    const change = changed(bench);
    const later = bench.deliver(0, 'm', { argument: Uint8Array.of(44) });
    assert.equal(entryOf(await bench.end(0)), MODULE.entries.get('canister_update m'));
    assert.equal(await bench.endChange(0), 'upgrade');
    const { step, lines } = await bench.settled(change);
    assert.deepEqual([step.fault, lines.map(({ text }) => text)], [undefined, ['from the hook']]);
    assert.deepEqual(bench.heard.ended.at(1), { handle: 0, step: RAN, count: 'nothing' });
    for (let n = 1; n <= 300; n++) {
      const task = await bench.end(0);
      assert.equal(entryOf(task), NEW_MODULE.entries.get('canister_update m'));
      assert.deepEqual('argument' in task && task.argument[0], n === 300 ? 44 : n & 255);
    }
    for (const each of [...told, later]) assert.equal((await bench.settled(each)).kind, 'reply');
  });

  test('a change that faults leaves code and timer as they were', async (t) => {
    const bench = await Bench.over(t, make, [0], { module: moduleOf(10, [TIMER]) });
    const dueMs = bench.clock.nowMs() + 1000;
    bench.deliver(0);
    await bench.end(0, replied(NONE, { timerNs: BigInt(dueMs) * 1_000_000n }));
    const change = changed(bench);
    await bench.endChange(0, faulted('trap'));
    assert.equal((await bench.settled(change)).step.fault?.kind, 'trap');
    assert.equal(bench.scheduler.stateOf(0).timerMs, dueMs);
    bench.deliver(0);
    assert.equal(entryOf(await bench.end(0)), MODULE.entries.get('canister_update m'));
    const done = changed(bench);
    await bench.endChange(0, { ...RAN, timerNs: BigInt(dueMs + 500) * 1_000_000n });
    await bench.settled(done);
    assert.equal(bench.scheduler.stateOf(0).timerMs, dueMs + 500, 'as the new code has set it');
    const again = changed(bench);
    await bench.endChange(0);
    await bench.settled(again);
    assert.equal(bench.scheduler.stateOf(0).timerMs, undefined, 'it is off');
  });

  test('messages wait for the first code of a canister while it is installed', async (t) => {
    const bench = await Bench.over(t, make, []);
    bench.admit(0);
    const change = changed(bench, { mode: 'install', argument: NONE, caller: CLIENT });
    const told = bench.deliver(0);
    await bench.endChange(0);
    await bench.settled(change);
    assert.equal(entryOf(await bench.end(0)), NEW_MODULE.entries.get('canister_update m'));
    assert.equal((await bench.settled(told)).kind, 'reply');
  });

  test('callbacks of a reinstallation by a canister find the new code; one that ends calls leaves none', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const open = async (): Promise<Watched<unknown>> => {
      const told = bench.deliver(0);
      await bench.end(0, calling(callOf(idOf(1), { cycles: 100n })));
      await bench.task(1);
      return told;
    };
    const reinstall = { mode: 'reinstall', argument: NONE, caller: CLIENT } as const;
    const kept = await open();
    const keeping = changed(bench, reinstall);
    await bench.endChange(0);
    await bench.settled(keeping);
    await bench.end(1);
    callbackOf(await bench.end(0));
    assert.equal(((await bench.settled(kept)) as { readonly kind: string }).kind, 'reply');
    const ended = bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1), { cycles: 100n })));
    await bench.task(1);
    const waiting = bench.deliver(0);
    await bench.task(0);
    await bench.end(0);
    await bench.settled(waiting);
    const ending = changed(bench, { ...reinstall, endsCalls: true });
    await bench.endChange(0);
    await bench.settled(ending);
    assert.deepEqual(refusalOf(await bench.settled(ended)).slice(0, 2), ['reject', 4]);
    await bench.settled(watch(bench.scheduler.stop(0)));
    bench.scheduler.start(0);
    await bench.end(1, replied(NONE, { cyclesAccepted: 30n }));
    await bench.nothing(0);
    assert.equal(bench.execution.credited.get(0), 70n, 'what the callee has not accepted');
  });

  test('what is uninstalled has no code and no timer, its callers are rejected, and its refunds come', async (t) => {
    const bench = await Bench.over(t, make, [0, 1], { module: NEW_MODULE });
    const { scheduler } = bench;
    const told = bench.deliver(0);
    await bench.end(0, { ...calling(callOf(idOf(1), { cycles: 40n })), timerNs: 9_000_000_000_000_000n });
    assert.notEqual(scheduler.stateOf(0).timerMs, undefined);
    const release = await scheduler.pin(0);
    await bench.settled(watch(scheduler.uninstall(0)));
    release();
    assert.deepEqual(refusalOf(await bench.settled(told)).slice(0, 2), ['reject', 4]);
    assert.equal(scheduler.stateOf(0).timerMs, undefined);
    assert.deepEqual(refusalOf(await bench.settled(bench.deliver(0))).slice(0, 2), ['reject', 5]);
    await bench.end(1);
    await bench.nothing(0);
    assert.equal(bench.execution.credited.get(0), 40n);
    const change = changed(bench, { mode: 'install', argument: NONE, caller: CLIENT });
    await bench.endChange(0);
    await bench.settled(change);
    bench.deliver(0);
    await bench.end(0);
  });

  test('nothing of a locked canister starts until every lock is gone', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const { scheduler, execution } = bench;
    const told = Array.from({ length: 200 }, (_, n) => bench.deliver(0, 'm', { argument: Uint8Array.of(n) }));
    await bench.task(0);
    const [one, two] = [scheduler.lock(0), scheduler.lock(0)];
    await bench.end(0);
    await bench.nothing(0);
    one();
    await bench.nothing(0);
    assert.equal(told.filter(({ isSettled }) => isSettled).length, 1);
    two();
    for (let n = 1; n < 200; n++) {
      const task = await bench.end(0);
      assert.deepEqual('argument' in task && task.argument[0], n);
    }
    assert.equal(execution.underWay(0), 0);
  });

  test('a lock between messages waits for the one that executes, and is refused where calls are open', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const { scheduler } = bench;
    bench.deliver(0);
    await bench.task(0);
    const waiting = bench.deliver(0);
    const locking = watch(scheduler.lockBetweenMessages(0));
    await bench.idle();
    assert.equal(locking.isSettled, false);
    await bench.end(0);
    const release = await bench.settled(locking);
    assert.ok(release !== undefined);
    await bench.nothing(0);
    release();
    await bench.end(0, calling(callOf(idOf(1))));
    assert.equal(await bench.settled(watch(scheduler.lockBetweenMessages(0))), undefined);
    assert.equal(scheduler.stateOf(0).status, 'running');
    const refused = watch(scheduler.lockBetweenMessages(0, { pauses: true }));
    assert.equal(await bench.settled(refused), undefined);
    assert.equal(scheduler.stateOf(0).status, 'stopping');
    const paused = watch(scheduler.pause(0));
    await bench.end(1);
    await bench.end(0);
    await bench.settled(paused);
    assert.equal((await bench.settled(waiting)).kind, 'reply');
    scheduler.resume(0);
    assert.equal(scheduler.stateOf(0).status, 'running');
  });

  test('code and timer of a restored state are known from then on', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const { scheduler, clock } = bench;
    const release = scheduler.lock(0);
    scheduler.restored(0, NEW_MODULE, clock.nowMs() + 50);
    release();
    assert.equal(scheduler.stateOf(0).timerMs, clock.nowMs() + 50);
    bench.deliver(0);
    assert.equal(entryOf(await bench.end(0)), NEW_MODULE.entries.get('canister_update m'));
    await bench.pass(100, TIMER_MS);
    assert.equal((await bench.end(0, RAN)).kind, 'system');
    scheduler.restored(0, undefined, Number.POSITIVE_INFINITY);
    assert.deepEqual(refusalOf(await bench.settled(bench.deliver(0))).slice(0, 2), ['reject', 5]);
  });
}
