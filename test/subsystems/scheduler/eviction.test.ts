import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import { EVICTED } from '../../../subsystems/scheduler/canister-state.ts';
import { ScheduledCanister } from '../../../subsystems/scheduler/scheduled-canister.ts';
import { idToText } from '../../../subsystems/ic/id-text.ts';
import { LruList } from '../../../subsystems/scheduler/lru-list.ts';
import { DurableHost } from './durable-host.ts';
import { callOf, idOf, MODULE, REPLY, STEP } from './held-execution.ts';

const QUIET = { ...MODULE, entries: new Map([...MODULE.entries].filter(([name]) => name !== 'canister_heartbeat')) };

/** Delivers a message and ends it. */
async function use(host: DurableHost, handle: number): Promise<void> {
  host.deliver(handle);
  await host.endTurn();
  assert.equal(host.execution.started.at(-1)?.handle, handle);
  host.execution.endOne();
  await host.endTurn();
}

test('the coldest idle canister makes room for the one that is wanted', async () => {
  const host = new DurableHost({ liveCap: 2 }).admit([0, 1, 2, 3], { isAsleep: true });
  await use(host, 0);
  await use(host, 1);
  await use(host, 0);
  await use(host, 2);
  assert.deepEqual(host.slept, [1], '0 was used after it');
  assert.deepEqual(host.woken, [0, 1, 2]);
  await use(host, 3);
  assert.deepEqual(host.slept, [1, 0]);
  assert.deepEqual(host.scheduler.live, { liveCount: 2, evictions: 2, wakeUps: 4 });
  assert.deepEqual(
    [0, 1, 2, 3].map((handle) => !host.scheduler.stateOf(handle).isAsleep),
    [false, false, true, true],
  );
});

test('one that executes or waits is no victim, one with open calls is', async () => {
  const host = new DurableHost({ liveCap: 1 }).admit([0, 1], { isAsleep: true });
  host.deliver(0);
  await host.endTurn();
  host.deliver(1);
  await host.endTurn();
  assert.deepEqual(host.slept, []);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  await host.endTurn();
  assert.deepEqual(host.slept, [0], 'it waits for 1, which may wake now');
  host.execution.endOne();
  host.execution.endOne();
  await host.endTurn();
  assert.deepEqual(host.woken, [0, 1, 0], 'its response has come');
});

test('where all are busy, the one that has been awake for longest gives way after a while, and goes on later', async () => {
  const host = new DurableHost({ liveCap: 1 }).admit([0, 1], { isAsleep: true });
  for (let k = 0; k < 300; k++) host.deliver(0);
  await host.endTurn();
  host.deliver(1);
  const isOther = (): boolean => host.execution.started.some(({ handle }) => handle === 1);
  let ended = 0;
  for (; ended < 40; ended++) host.execution.endOne();
  await host.endTurn();
  assert.ok(!isOther());
  host.clock.advance(100);
  while (host.execution.running > 0) host.execution.endOne();
  assert.deepEqual(host.slept, [0]);
  await host.endTurn();
  assert.ok(isOther() && host.execution.started.length < 300);
  while (host.execution.running > 0) host.execution.endOne();
  await host.endTurn();
  assert.deepEqual(host.woken, [0, 1, 0]);
  while (host.execution.running > 0) host.execution.endOne();
  assert.equal(host.execution.started.length, 301);
});

test('one that its executor has not dropped yet takes no place: others are woken before it, and it comes afterwards', async () => {
  const host = new DurableHost({ liveCap: 1 }).admit([0, 1, 2], { isAsleep: true });
  const fallen = Promise.withResolvers<void>();
  host.falling.set(1, fallen);
  await use(host, 1);
  await use(host, 0);
  host.deliver(1);
  await host.endTurn();
  await use(host, 2);
  await use(host, 0);
  assert.deepEqual(host.woken, [1, 0, 2, 0]);
  fallen.resolve();
  await host.endTurn();
  assert.deepEqual(host.woken, [1, 0, 2, 0, 1]);
  assert.equal(host.execution.started.at(-1)?.handle, 1);
});

test('a composite query one of whose callbacks has trapped gets the rest of its answers while its caller keeps a place', async () => {
  const methods = new Map([...QUIET.methods, ['c', 'composite_query' as const]]);
  const module = { ...QUIET, methods, entries: new Map([...QUIET.entries, ['canister_composite_query c', 4]]) };
  const host = new DurableHost({ liveCap: 1 }).admit([0, 1, 2, 3], { isAsleep: true, module });
  const { execution, scheduler } = host;
  const message = { method: 'c', caller: Uint8Array.of(4), argument: new Uint8Array(0) };
  let outcome: Outcome | undefined;
  void scheduler.deliver(0, { ...message, kind: 'query' }).then((told) => (outcome = told));
  await host.endTurn();
  execution.endOne({ ...STEP, calls: [callOf(idOf(1), { method: 'c' })], frame: 1 });
  await host.endTurn();
  const calls = [2, 3].map((handle) => callOf(idOf(handle), { method: 'q' }));
  execution.endOne({ ...STEP, calls, frame: 1 });
  await host.endTurn();
  execution.endOne();
  await host.endTurn();
  assert.equal(execution.started.at(-1)?.task.kind, 'callback');
  execution.endLast({ ...STEP, fault: { kind: 'trap', code: 5, message: 'trapped' } });
  await host.endTurn();
  assert.equal(!scheduler.stateOf(1).isAsleep, false, 'it has nothing to keep a place for');
  assert.equal(!scheduler.stateOf(0).isAsleep, true);
  execution.endOne();
  await host.endTurn();
  assert.equal(execution.started.at(-1)?.handle, 0, 'its caller has been answered');
  execution.endOne();
  await host.commit();
  assert.equal(outcome?.kind, 'reply');
});

test('bytes are bounded as well, and one larger than the bound has a place beside the others', async () => {
  const host = new DurableHost({ liveBytes: 100 }).admit([0, 1, 2, 3, 4], { isAsleep: true });
  for (const [handle, bytes] of [60, 40, 500, 300, 50].entries()) host.bytes.set(handle, bytes);
  await use(host, 0);
  await use(host, 1);
  await use(host, 2);
  assert.deepEqual(host.slept, [], 'those that fit stay');
  await use(host, 3);
  assert.deepEqual(host.slept, [2], 'one of those that do not is live at a time');
  await use(host, 4);
  assert.deepEqual(host.slept, [2, 0]);
  host.bytes.set(3, 10);
  await use(host, 3);
  assert.deepEqual(host.slept, [2, 0], 'it fits now');
  host.bytes.set(4, 55);
  await use(host, 4);
  assert.deepEqual(host.slept, [2, 0, 1], 'it has grown');
  host.bytes.set(4, 101);
  await use(host, 4);
  await use(host, 1);
  assert.deepEqual(host.slept, [2, 0, 1], 'it is beside the others now');
});

test('idle canisters give way to an executor that needs memory, the coldest first, and no more than it takes', async () => {
  const host = new DurableHost().admit([0, 1, 2, 3], { isAsleep: true });
  const { memory } = host.execution;
  for (const handle of [0, 1, 2, 3]) host.bytes.set(handle, 200);
  for (const handle of [0, 1, 2, 3, 0]) await use(host, handle);
  memory.bytesUsed = 880;
  await host.execution.want(0);
  assert.deepEqual([host.slept, host.execution.trims], [[], 0], 'there is room, and nobody wants more');
  host.deliver(2);
  await host.endTurn();
  await host.execution.want(400);
  assert.deepEqual(host.slept, [1, 3], '2 is busy, and 0 was used last');
  assert.ok(host.execution.trims > 0, 'executors have given back what those had');
  await host.execution.want(700);
  assert.deepEqual(host.slept, [1, 3, 0]);
  const { trims } = host.execution;
  const inVain = host.execution.want(900);
  for (let turn = 0; turn < 3; turn++) await host.endTurn();
  host.clock.advance(50);
  await inVain;
  assert.deepEqual(host.slept, [1, 3, 0], 'nobody is idle');
  assert.equal(host.execution.trims, trims + 1, 'there may be garbage');
  assert.equal(host.scheduler.live.evictions, 3);
  host.execution.endOne();
  await host.endTurn();
  memory.bytesUsed = 910;
  await host.execution.want(0);
  assert.deepEqual(host.slept, [1, 3, 0, 2], 'with most of it in use, before anybody is refused');
});

test('large ones that are wanted wait in line for the memory of others, and small ones do not wait behind them', async () => {
  const host = new DurableHost().admit([0, 1, 2, 3], { isAsleep: true });
  const { memory } = host.execution;
  memory.bytesMax = memory.bytesHigh = 1000 * 2 ** 20;
  for (const handle of [0, 1, 2]) host.heaps.set(handle, 600 * 2 ** 20);
  host.deliver(0);
  await host.endTurn();
  for (const handle of [1, 2, 3]) host.deliver(handle);
  await host.endTurn();
  assert.deepEqual(host.woken, [0, 3], '0 is busy, and has most of it');
  for (const next of [1, 2]) {
    host.execution.endOne();
    for (let turn = 0; turn < 5; turn++) await host.endTurn();
    assert.equal(host.woken.at(-1), next);
    assert.ok(memory.bytesUsed <= memory.bytesMax);
    if (next === 1) assert.deepEqual(host.slept, [0]);
    host.execution.endOne();
    await host.endTurn();
  }
  assert.deepEqual(
    host.slept.filter((handle) => handle !== 3),
    [0, 1],
  );
});

test('one that there is no memory for is woken when others have given way, and refused when they do not', async () => {
  const host = new DurableHost().admit([0, 1], { isAsleep: true });
  const { memory } = host.execution;
  for (const handle of [0, 1]) host.heaps.set(handle, 500);
  await use(host, 0);
  memory.bytesUsed = 800;
  const isShort = (): boolean => memory.bytesUsed > 500;
  Object.defineProperty(host, 'wakeProblem', {
    get: () => (isShort() ? new ServerError('unavailable', 'memory-full', 'there is no room') : undefined),
  });
  const told = host.deliver(1);
  await host.endTurn();
  assert.deepEqual([host.slept, host.woken], [[0], [0, 1]]);
  host.execution.endOne();
  await host.commit();
  assert.notEqual(told.outcome, undefined);
  memory.bytesUsed = 2000;
  host.deliver(1);
  await host.endTurn();
  const refused = host.deliver(0);
  for (let k = 0; k < 210; k++) {
    await host.commit();
    host.clock.advance(50);
  }
  await host.commit();
  assert.equal(refused.outcome?.kind === 'unavailable' ? refused.outcome.message : '', 'there is no room');
});

test('idle ones give way to stable memory that the first try to wake its owner finds', async () => {
  const host = new DurableHost().admit([0, 1, 2], { isAsleep: true });
  const { memory } = host.execution;
  for (const handle of [0, 1]) host.heaps.set(handle, 300);
  for (const handle of [0, 1]) await use(host, handle);
  memory.bytesUsed = 800;
  host.heaps.set(2, 10);
  const found = 600;
  Object.defineProperty(host, 'wakeProblem', {
    get: () => {
      host.stable.set(2, found);
      const isShort = memory.bytesUsed + found > memory.bytesMax;
      return isShort ? new ServerError('unavailable', 'memory-full', 'there is no room') : undefined;
    },
  });
  const told = host.deliver(2);
  for (let k = 0; k < 5; k++) await host.endTurn();
  assert.deepEqual(
    [host.slept, host.woken],
    [
      [0, 1],
      [0, 1, 2],
    ],
  );
  host.execution.endOne();
  await host.commit();
  assert.notEqual(told.outcome, undefined);
});

test('one whose small heap and stable memory may be more than there is together is tried all the same', async () => {
  const host = new DurableHost().admit([0, 1], { isAsleep: true });
  const { memory } = host.execution;
  host.heaps.set(0, 300);
  await use(host, 0);
  memory.bytesUsed = 800;
  host.heaps.set(1, 600);
  host.stable.set(1, 600);
  const isShort = (): boolean => memory.bytesUsed > 500;
  Object.defineProperty(host, 'wakeProblem', {
    get: () => (isShort() ? new ServerError('unavailable', 'memory-full', 'there is no room') : undefined),
  });
  const told = host.deliver(1);
  for (let k = 0; k < 5; k++) await host.endTurn();
  assert.deepEqual([host.slept, host.woken], [[0], [0, 1]]);
  host.execution.endOne();
  await host.commit();
  assert.notEqual(told.outcome, undefined);
});

test('one is refused after its first try if that finds more stable memory than there can be', async () => {
  const host = new DurableHost().admit([0, 1], { isAsleep: true });
  host.heaps.set(0, 300);
  await use(host, 0);
  let looks = 0;
  Object.defineProperty(host, 'wakeProblem', {
    get: () => {
      looks++;
      host.stable.set(1, host.execution.memory.bytesMax + 1);
      return new ServerError('unavailable', 'memory-full', 'there is no room');
    },
  });
  const told = host.deliver(1);
  await host.commit();
  // The host looks twice in each try.
  assert.deepEqual([told.outcome?.kind, looks, host.slept], ['unavailable', 2, []]);
});

test('one that cannot be woken refuses what waits with the reason, and the next message tries again', async () => {
  const host = new DurableHost().admit([0], { isAsleep: true });
  host.wakeProblem = new ServerError('unavailable', 'disk-away', 'the disk is away');
  const told = [host.deliver(0), host.deliver(0, 'query')];
  await host.commit();
  for (const { outcome } of told) {
    assert.equal(outcome?.kind, 'unavailable');
    assert.equal(outcome?.kind === 'unavailable' ? outcome.message : '', 'the disk is away');
  }
  await assert.rejects(host.scheduler.pin(0), { code: 'disk-away' });
  host.wakeProblem = undefined;
  const later = host.deliver(0);
  await host.endTurn();
  host.execution.endOne();
  await host.commit();
  assert.equal(later.outcome?.kind, 'reply');
});

test('when an executor dies while a canister wakes, the next one wakes it and nothing is refused; but not for ever', async () => {
  const host = new DurableHost({ liveCap: 1 }).admit([0, 1], { isAsleep: true });
  const stopped = new ServerError('unavailable', 'executor-stopped', 'it has stopped');
  host.holdsWakes = true;
  const kindOf = (delivered: { readonly outcome: Outcome | undefined }): string | undefined => delivered.outcome?.kind;
  const told = host.deliver(0);
  const fail = async (error: Error | undefined): Promise<void> => {
    await host.endTurn();
    const { settle } = host.held.splice(0).at(-1) ?? {};
    if (error === undefined) settle?.resolve();
    else settle?.reject(error);
    await host.endTurn();
  };
  for (let death = 1; death <= 3; death++) await fail(stopped);
  assert.equal(kindOf(told), undefined);
  await fail(undefined);
  assert.deepEqual(host.woken, [0]);
  host.execution.endOne();
  await host.commit();
  assert.equal(kindOf(told), 'reply');
  const doomed = host.deliver(1);
  for (let death = 1; death <= 3; death++) await fail(stopped);
  assert.equal(kindOf(doomed), undefined);
  await fail(stopped);
  assert.equal(kindOf(doomed), 'unavailable');
});

test('after a failure heartbeats wake a canister no more for five seconds, or until a message has woken it', async () => {
  const host = new DurableHost().admit([0], { isAsleep: true });
  let tries = 0;
  let problem: Error | undefined = new ServerError('unavailable', 'disk-away', 'the disk is away');
  Object.defineProperty(host, 'wakeProblem', {
    get() {
      tries++;
      return problem;
    },
  });
  host.deliver(0);
  await host.endTurn();
  const triesOf = (): number => tries;
  const before = triesOf();
  host.scheduler.beginTicking();
  host.clock.advance(4900);
  await host.endTurn();
  assert.equal(triesOf(), before);
  host.clock.advance(200);
  await host.endTurn();
  assert.ok(triesOf() > before, 'the pause is over');
  problem = undefined;
  host.deliver(0);
  await host.endTurn();
  assert.equal(host.execution.started.length, 1);
  host.clock.advance(20);
  assert.equal(host.execution.started.at(-1)?.task.kind, 'system', 'it is awake, so it gets its heartbeats');
});

test('a response is not refused when its canister cannot be woken: it is tried again', async () => {
  const host = new DurableHost({ liveCap: 1 }).admit([0, 1], { isAsleep: true });
  host.deliver(0);
  await host.endTurn();
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  await host.endTurn();
  host.wakeProblem = new ServerError('unavailable', 'disk-away', 'the disk is away');
  host.execution.endOne();
  await host.endTurn();
  assert.equal(host.execution.started.length, 2);
  host.wakeProblem = undefined;
  host.clock.advance(5000);
  await host.endTurn();
  assert.equal(host.execution.started.at(-1)?.task.kind, 'callback');
});

test('nothing starts before a wake is done, one is enough for all that waits, and a due timer or beat wakes too', async () => {
  const host = new DurableHost({ nowMs: 5000 })
    .admit([0], { isAsleep: true, module: QUIET })
    .admit([1], { isAsleep: true, module: QUIET, timerMs: 4000 })
    .admit([2], { isAsleep: true });
  host.holdsWakes = true;
  for (let k = 0; k < 3; k++) host.deliver(0);
  await host.endTurn();
  host.scheduler.beginTicking();
  host.clock.advance(25);
  await host.endTurn();
  assert.equal(host.execution.started.length, 0);
  assert.deepEqual(
    host.held.map(({ handle }) => handle),
    [0, 1, 2],
  );
  for (const { settle } of host.held) settle.resolve();
  await host.endTurn();
  assert.deepEqual(
    host.execution.started.map(({ handle, task }) => `${handle} ${task.kind}`),
    ['0 update', '0 update', '0 update', '1 system', '2 system'],
  );
});

test('a heartbeat wakes its canister in place of one that nobody uses, and waits where all are busy', async () => {
  const host = new DurableHost({ liveCap: 1 })
    .admit([0], { isAsleep: true, module: QUIET })
    .admit([1], { isAsleep: true });
  const update = host.deliver(0);
  await host.endTurn();
  host.scheduler.beginTicking();
  for (let n = 0; n < 50; n++) {
    host.clock.advance(10);
    await host.endTurn();
  }
  assert.deepEqual(host.slept, [], 'it executes for somebody');
  host.execution.endOne();
  await host.commit();
  assert.equal(update.outcome?.kind, 'reply');
  assert.deepEqual(host.slept, [0]);
  assert.equal(host.execution.started.at(-1)?.task.kind, 'system');
});

test('where clients use an actor all the time, heartbeats of another take its place with pauses seven times as long', async () => {
  const host = new DurableHost({ liveCap: 1 })
    .admit([0], { isAsleep: true, module: QUIET })
    .admit([1], { isAsleep: true });
  host.holdsWakes = true;
  host.scheduler.beginTicking();
  const wakes: number[] = [];
  const told: { readonly outcome: Outcome | undefined }[] = [];
  for (let step = 0; step < 200; step++) {
    if (told.every(({ outcome }) => outcome !== undefined)) told.push(host.deliver(0, 'query'));
    await host.endTurn();
    // A load takes one step.
    const loaded = host.held.splice(0);
    host.clock.advance(100);
    for (const { handle, settle } of loaded) {
      wakes.push(handle);
      settle.resolve();
    }
    await host.endTurn();
    host.execution.endAll();
    await host.commit();
  }
  const beats = wakes.filter((handle) => handle === 1).length;
  assert.ok(beats >= 10 && beats <= 26, `${beats} wakes for heartbeats in 200 steps`);
  const waits = told.length;
  assert.ok(waits >= 120, `${waits} queries were answered`);
});

test('what a heartbeat calls waits as a heartbeat does, and whoever else wants it makes it come in turn', async () => {
  const host = new DurableHost({ liveCap: 1 }).admit([0, 1], { isAsleep: true, module: QUIET });
  host.admit([2], { isAsleep: true });
  host.scheduler.beginTicking();
  host.clock.advance(10);
  await host.endTurn();
  assert.deepEqual(host.woken, [2]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  await host.endTurn();
  assert.deepEqual(host.woken, [2, 0], 'a client comes before the call of a heartbeat');
  host.deliver(1);
  host.execution.endOne();
  await host.endTurn();
  assert.deepEqual(host.woken, [2, 0, 1]);
});

test('an operator is told once when more actors have heartbeats than may be live, and which number would do', async () => {
  const host = new DurableHost({ liveCap: 2, liveBytes: 100 }).admit([0, 1, 2]);
  for (const handle of [0, 1, 2]) host.bytes.set(handle, 40);
  host.scheduler.beginTicking();
  for (let n = 0; n < 50; n++) {
    host.clock.advance(1000);
    for (let turn = 0; turn < 4; turn++) {
      await host.endTurn();
      host.execution.endAll();
    }
  }
  assert.equal(host.warnings.length, 1);
  assert.match(host.warnings[0] ?? '', /^3 actors .*--live-cap to 3 at least.*--live-bytes to 120 at least/);
  const enough = new DurableHost({ liveCap: 3, liveBytes: 120 }).admit([0, 1, 2]);
  for (const handle of [0, 1, 2]) enough.bytes.set(handle, 40);
  enough.scheduler.beginTicking();
  for (let n = 0; n < 50; n++) {
    enough.clock.advance(1000);
    await enough.endTurn();
    enough.execution.endAll();
  }
  assert.deepEqual(enough.warnings, []);
});

test('a pinned canister is awake and stays so; a change of code wakes its own', async () => {
  const host = new DurableHost({ liveCap: 1 }).admit([0, 1, 2], { isAsleep: true });
  const release = await host.scheduler.pin(0);
  assert.ok(!host.scheduler.stateOf(0).isAsleep);
  host.deliver(1);
  await host.endTurn();
  assert.deepEqual(host.slept, []);
  const releaseOther = await host.scheduler.pin(2);
  assert.ok(
    !host.scheduler.stateOf(0).isAsleep && !host.scheduler.stateOf(2).isAsleep,
    'who pins does not wait for who pins',
  );
  release();
  releaseOther();
  await host.endTurn();
  assert.deepEqual(host.slept, [0, 2]);
  host.execution.endOne();
  const change = { mode: 'reinstall', argument: new Uint8Array(0), caller: idOf(9) } as const;
  const { step } = await host.scheduler.change(0, MODULE, change);
  assert.equal(step.fault, undefined);
  assert.ok(!host.scheduler.stateOf(0).isAsleep && host.scheduler.stateOf(1).isAsleep);
});

test('a status that changes while a canister is being woken reaches its executor', async () => {
  const host = new DurableHost().admit([0], { isAsleep: true });
  host.holdsWakes = true;
  const pinned = host.scheduler.pin(0);
  await host.endTurn();
  await host.scheduler.stop(0);
  assert.deepEqual(host.execution.configured, []);
  host.held[0]?.settle.resolve();
  await pinned;
  assert.deepEqual(host.execution.configured, [{ handle: 0, settings: { status: 'stopped' } }]);
});

test('cycles for a sleeping canister wake it, and are paid then', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { cycles: 7n })] });
  await host.scheduler.uninstall(0);
  host.execution.lose(0);
  host.execution.endOne(REPLY);
  await host.endTurn();
  assert.deepEqual(
    host.execution.credits.map(({ handle, amount }) => [handle, amount]),
    [[0, 7n]],
  );
  assert.ok(!host.scheduler.stateOf(0).isAsleep);
});

test('the list of idle canisters forgets in constant time, and gives the one that was touched first', () => {
  const set = new LruList<ScheduledCanister>();
  const canisters = Array.from({ length: 5 }, (_, handle) => new ScheduledCanister(handle, idToText(idOf(handle))));
  for (const canister of canisters) set.touch(canister);
  for (const at of [0, 3]) set.touch(canisters[at] ?? assert.fail());
  set.remove(canisters[2] ?? assert.fail());
  set.remove(canisters[2] ?? assert.fail());
  const order: number[] = [];
  for (let [coldest] = set.fromColdest(); coldest !== undefined; [coldest] = set.fromColdest()) {
    order.push(coldest.handle);
    set.remove(coldest);
  }
  assert.deepEqual(order, [1, 4, 0, 3]);
});

test('a sleeping canister with nothing to do takes at most some 160 bytes', async () => {
  const { setFlagsFromString } = await import('node:v8');
  const { runInNewContext } = await import('node:vm');
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const id = idToText(idOf(0));
  const canisters: ScheduledCanister[] = [];
  const count = 20_000;
  const make = (handle: number): ScheduledCanister => {
    const canister = new ScheduledCanister(handle, id);
    canister.timerMs = handle + 0.5;
    canister.work.executing++;
    canister.work.executing--;
    canister.enter(EVICTED);
    canister.shrink();
    return canister;
  };
  for (let k = 0; k < 100; k++) canisters.push(make(k));
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let k = 0; k < count; k++) canisters.push(make(k));
  collect();
  const bytes = (process.memoryUsage().heapUsed - before) / count;
  assert.equal(canisters.length, count + 100);
  assert.ok(bytes < 180, `${bytes} bytes`);
});
