import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { CALLS_PER_TURN, type Task } from '../../../subsystems/ic/index.ts';
import type { Entry } from '../../../subsystems/storage/index.ts';
import { DurableHost } from './durable-host.ts';
import { callOf, idOf, MODULE, REPLY, STEP } from './held-execution.ts';

const FREE = { ...REPLY, charge: 0 };
const UNAVAILABLE = { ...STEP, charge: 0, fault: { kind: 'unavailable', code: 2, message: 'died' } } as const;

const letters = (entries: readonly Entry[]): string =>
  entries.map(([key]) => String.fromCharCode(key[0] ?? 0)).join('');
const taskOf = (host: DurableHost, at = -1): Task => {
  const task = host.execution.started.at(at)?.task;
  assert.ok(task !== undefined);
  return task;
};

const isTold = ({ outcome }: { readonly outcome: unknown }): boolean => outcome !== undefined;

/** Starts the next host with the durable state. */
async function restarted(host: DurableHost, handles: readonly number[]): Promise<DurableHost> {
  const entries = await host.entries();
  const next = new DurableHost({ entries }).admit(handles);
  next.scheduler.restore(entries);
  return next;
}

test('an update without calls writes nothing, and its client is told when its unit is durable', async () => {
  const host = new DurableHost().admit([0]);
  const told = host.deliver(0);
  await host.commit();
  host.execution.endOne();
  await host.endTurn();
  assert.ok(!isTold(told));
  assert.equal(host.journal.pending, 1);
  await host.commit();
  assert.equal(told.outcome?.kind, 'reply');
  assert.equal(host.journal.written, 0);
});

test('a unit is expected while something executes that may change a canister, and of no query', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0, 'query');
  assert.equal(host.journal.expected, 0);
  host.deliver(0);
  assert.equal(host.journal.expected, 1);
  host.execution.endOne(FREE);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  assert.equal(host.journal.expected, 2, 'of the callee');
  host.execution.endOne();
  assert.equal(host.journal.expected, 3, 'and of the callback');
  host.execution.endOne();
  await host.endTurn();
});

test('calls of a large step are sent in several turns, in order, and are one unit with the answer', async () => {
  const host = new DurableHost().admit([0, 1]);
  const told = host.deliver(0);
  const count = 2 * CALLS_PER_TURN + 1;
  const calls = Array.from({ length: count }, (_, n) => ({ ...callOf(idOf(1)), payload: Uint8Array.of(n, n >> 8) }));
  host.execution.endOne({ ...FREE, calls, isLarge: true });
  const sent = (): number => host.execution.started.length - 1 + host.scheduler.stateOf(1).queued;
  assert.equal(sent(), CALLS_PER_TURN);
  await host.commit();
  assert.deepEqual([host.journal.pending, host.journal.entries().length, isTold(told)], [0, 0, false]);
  for (let turns = 0; turns < 3; turns++) await host.endTurn();
  assert.equal(sent(), count);
  assert.equal(host.journal.pending, 1);
  await host.commit();
  assert.ok(isTold(told));
  assert.equal(letters(host.journal.entries()).replaceAll('c', '').length, count, 'open calls');
  const order = host.execution.started.slice(1).map(({ task }) => (task.kind === 'update' ? task.argument : []));
  assert.deepEqual(
    order.map(([low = 0, high = 0]) => low + 256 * high),
    [...order.keys()],
  );
});

test('a query is told only of what is durable, and at once when all is', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne();
  const seeing = host.deliver(0, 'query');
  const other = host.deliver(1, 'query');
  host.execution.endOne(FREE);
  host.execution.endOne(FREE);
  await host.endTurn();
  assert.ok(!isTold(seeing), 'it has seen what is not durable');
  assert.equal(other.outcome?.kind, 'reply', 'the other canister has not changed');
  await host.commit();
  assert.equal(seeing.outcome?.kind, 'reply');
  const later = host.deliver(0, 'query');
  host.execution.endOne(FREE);
  await host.endTurn();
  assert.equal(later.outcome?.kind, 'reply');
});

test('a composite query waits for every canister it has seen', async () => {
  const module = { ...MODULE, methods: new Map([...MODULE.methods, ['c', 'composite_query'] as const]) };
  const entries = new Map([...MODULE.entries, ['canister_composite_query c', 4]]);
  const host = new DurableHost().admit([0, 1], { module: { ...module, entries } });
  host.deliver(1);
  host.execution.endOne();
  let isAnswered = false;
  const message = { kind: 'query', method: 'c', caller: idOf(9), argument: new Uint8Array(0) } as const;
  void host.scheduler.deliver(0, message).then(() => (isAnswered = true));
  host.execution.endOne({ ...STEP, charge: 0, frame: 1, calls: [callOf(idOf(1), { method: 'q' })] });
  host.execution.endOne(FREE);
  host.execution.endOne(FREE);
  await host.endTurn();
  assert.equal(isAnswered, false, 'the callee has changed');
  await host.commit();
  assert.equal(isAnswered, true);
});

test('what comes and goes within one unit is not written', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  host.execution.endOne();
  host.execution.endOne();
  await host.commit();
  assert.equal(host.journal.written, 0);
});

test('a call, its execution and its response are each stored until the execution after them has ended', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  assert.equal(letters(await host.entries()), 'cco', 'two contexts, one open call');
  const before = host.journal.written;
  assert.ok(before > 0);
  assert.equal(letters(await host.entries()), 'cco');
  assert.equal(host.journal.written, before, 'nothing has changed');
  host.execution.endOne();
  assert.equal(letters(await host.entries()), 'co', 'the callee is done, its response waits');
  host.execution.endOne();
  assert.deepEqual(await host.entries(), []);
});

test('a call that executed is executed again after a crash, with what it had', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  const payload = new Uint8Array(100_000).fill(7);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { payload, cycles: 2n ** 90n })] });
  const given = taskOf(host);
  assert.ok(given.kind === 'update');
  // Does the same as an executor with a large argument.
  structuredClone(given.argument, { transfer: [given.argument.buffer as ArrayBuffer] });
  const next = await restarted(host, [0, 1]);
  const task = taskOf(next);
  assert.ok(task.kind === 'update');
  assert.deepEqual(task.argument, new Uint8Array(100_000).fill(7));
  assert.equal(task.context.cyclesAvailable, 2n ** 90n);
  assert.deepEqual(task.context.caller, idOf(0));
});

test('a response that executed is given again after a crash; then nothing is left', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  const callbacks = new Uint8Array(56).fill(9);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { cycles: 100n, callbacks })] });
  host.execution.endOne({ ...REPLY, cyclesAccepted: 30n, answer: { kind: 'reject', code: 4, message: 'nö' } });
  const next = await restarted(host, [0, 1]);
  assert.equal(next.execution.started.length, 1);
  const task = taskOf(next);
  assert.ok(task.kind === 'callback');
  assert.deepEqual(task.response, { kind: 'reject', code: 4, message: 'nö' });
  assert.equal(task.refunded, 70n);
  assert.deepEqual(task.callbacks, callbacks);
  next.execution.endOne();
  assert.deepEqual(await next.entries(), []);
});

test('after a crash each canister goes on in the order in which things came to wait', async () => {
  const host = new DurableHost().admit([0, 1, 2]);
  for (const handle of [0, 2]) host.deliver(handle);
  host.execution.endOne({ ...STEP, calls: [1, 2, 3].map((k) => callOf(idOf(1), { payload: Uint8Array.of(k) })) });
  host.execution.endOne({ ...STEP, calls: [4, 5].map((k) => callOf(idOf(1), { payload: Uint8Array.of(k) })) });
  // The calls are answered in another order than they were made: the responses wait in this one.
  const given = host.execution.started.slice(-5).toReversed();
  for (const { task, done } of given) {
    assert.ok(task.kind === 'update');
    done({ ...REPLY, answer: { kind: 'reply', data: task.argument } });
  }
  const next = await restarted(host, [0, 1, 2]);
  const answers = (): number[] =>
    next.execution.started.flatMap(({ handle, task }) =>
      handle === 0 && task.kind === 'callback' && task.response.kind === 'reply' ? [task.response.data[0] ?? 0] : [],
    );
  while (next.execution.running > 0) next.execution.endOne({ ...STEP });
  assert.deepEqual(answers(), [3, 2, 1]);
});

test('a call of the management canister that had no answer is rejected after a restart, with its cycles', async () => {
  const host = new DurableHost().admit([0]);
  host.scheduler.attach({ call: () => new Promise(() => undefined) });
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(new Uint8Array(0), { cycles: 55n })] });
  const next = await restarted(host, [0]);
  const task = taskOf(next);
  assert.ok(task.kind === 'callback' && task.response.kind === 'reject');
  assert.equal(task.response.code, 2);
  assert.match(task.response.message, /restarted/);
  assert.equal(task.refunded, 55n);
});

test('a clock that was ahead when a best-effort call was sent makes its caller wait no longer than it may', async () => {
  const host = new DurableHost({ nowMs: 360_000_000 }).admit([0, 1]);
  host.execution.ahead.set(1, 5_000);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { timeoutSeconds: 60 })] });
  const callee = taskOf(host);
  assert.ok(callee.kind === 'update');
  assert.equal(callee.context.deadlineNs, 360_065_000_000_000n, 'in the time that the callee sees');
  const entries = await host.entries();
  const next = new DurableHost({ entries, nowMs: 0 }).admit([0, 1]);
  next.scheduler.restore(entries);
  next.scheduler.beginTicking();
  const isCallback = (): boolean => next.execution.started.some(({ task }) => task.kind === 'callback');
  next.clock.advance(299_000);
  assert.equal(isCallback(), false);
  next.clock.advance(1_000);
  const task = next.execution.started.find(({ task: each }) => each.kind === 'callback')?.task;
  assert.ok(task?.kind === 'callback' && task.response.kind === 'reject');
  assert.equal(task.response.code, 6);
});

test('a deadline goes on across a restart, and a late answer finds nobody', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { timeoutSeconds: 2 })] });
  const entries = await host.entries();
  const next = new DurableHost({ entries }).admit([0, 1]);
  next.scheduler.restore(entries);
  next.scheduler.beginTicking();
  next.clock.advance(5);
  assert.equal(next.execution.started.length, 1);
  next.clock.advance(2_000);
  const task = taskOf(next);
  assert.ok(task.kind === 'callback' && task.response.kind === 'reject' && task.response.code === 6);
  // The callback ends, the callee has not: its caller is gone, also for the next host.
  next.execution.endLast();
  const last = await restarted(next, [0, 1]);
  assert.equal(last.execution.running, 1);
  last.execution.endOne();
  assert.deepEqual(await last.entries(), []);
});

test('cycles for a context that is gone are paid once, crash or not', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { cycles: 40n })] });
  await host.scheduler.uninstall(0);
  host.execution.endOne();
  assert.equal(host.execution.credits.length, 1);
  assert.equal(letters(await host.entries()), 'd');
  const next = await restarted(host, [0, 1]);
  assert.deepEqual(
    next.execution.credits.map(({ handle, amount }) => [handle, amount]),
    [[0, 40n]],
  );
  next.execution.credits[0]?.pay(true);
  assert.deepEqual(await next.entries(), []);
});

test('cycles for a canister that was deleted while it was paid are gone, with what says so', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { cycles: 40n })] });
  await host.scheduler.uninstall(0);
  host.execution.endOne();
  host.scheduler.withdraw(0);
  // The executor has not answered yet, and a crash comes first.
  assert.equal(letters(await host.entries()), 'd');
  const next = await restarted(host, [1]);
  assert.deepEqual(next.execution.credits, []);
  assert.deepEqual(await next.entries(), []);
});

test('what a canister has that could not be loaded stays stored; its callers wait, its calls get their answers', async () => {
  const host = new DurableHost().admit([0, 1, 2]);
  // 0 waits for 1, and 1 waits for 2.
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(2))] });
  const whole = await host.entries();
  const without = await restarted(host, [0, 2]);
  assert.deepEqual(
    without.execution.started.map(({ handle }) => handle),
    [2],
  );
  without.execution.endOne({ ...REPLY, answer: { kind: 'reply', data: Uint8Array.of(42) } });
  const entries = await without.entries();
  assert.equal(letters(entries), letters(whole).replace('c', ''), 'only the call at 2 is done');
  const again = await restarted(without, [0, 1, 2]);
  const task = taskOf(again);
  assert.ok(task.kind === 'callback' && task.response.kind === 'reply');
  assert.deepEqual(task.response.data, Uint8Array.of(42));
  again.execution.endOne();
  again.execution.endOne();
  assert.deepEqual(await again.entries(), []);
});

test('one that proves damaged when it is woken keeps what waits for it, and calls to it are rejected', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  const entries = await host.entries();
  const next = new DurableHost({ entries }).admit([0]).admit([1], { isAsleep: true });
  next.wakeProblem = new ServerError('missing', 'actor-rejected', 'damaged');
  next.scheduler.restore(entries);
  const told = next.deliver(1);
  assert.equal(letters(await next.entries()), 'cco');
  assert.equal(told.outcome?.kind, 'unavailable');
  assert.match(told.outcome?.kind === 'unavailable' ? told.outcome.message : '', /damaged/);
  next.deliver(0);
  next.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  const task = taskOf(next);
  assert.ok(task.kind === 'callback' && task.response.kind === 'reject' && task.response.code === 3);
  next.execution.endOne();
  assert.equal(letters(await next.entries()), 'cco');
});

test('when its executor dies a canister executes again what others sent it, in order; clients are told', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [1, 2, 3].map((k) => callOf(idOf(1), { payload: Uint8Array.of(k) })) });
  const client = host.deliver(1);
  // The tasks are handed back in any order.
  for (let k = 0; k < 4; k++) host.execution.endLast(UNAVAILABLE);
  host.execution.lose(1);
  assert.equal(!host.scheduler.stateOf(1).isAsleep, false);
  await host.commit();
  assert.equal(client.outcome?.kind, 'unavailable');
  assert.deepEqual(host.woken, [1]);
  const again = host.execution.started.slice(-3).map(({ task }) => (task.kind === 'update' ? task.argument[0] : 0));
  assert.deepEqual(again, [1, 2, 3]);
});

test('a task that an executor gives up without dying is answered', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  host.execution.endOne(UNAVAILABLE);
  await host.commit();
  const task = taskOf(host);
  assert.ok(task.kind === 'callback' && task.response.kind === 'reject' && task.response.code === 2);
});

test('a drain refuses who waits for a stop, and calls go on after the restart', async () => {
  for (const how of ['stop', 'pause'] as const) {
    const host = new DurableHost().admit([0, 1]);
    host.deliver(0);
    host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
    await host.commit();
    const refused = { code: 'stop-failed', message: /did not stop: the server is stopping$/u };
    const before = assert.rejects(host.scheduler[how](0), refused);
    const drained = host.scheduler.drain();
    await before;
    await assert.rejects(host.scheduler[how](0), refused);
    host.execution.endOne(UNAVAILABLE);
    await host.commit();
    await drained;
  }
});

test('a drain tells clients, keeps what canisters sent each other, and resolves when that is durable', async () => {
  const host = new DurableHost().admit([0, 1]);
  const told = host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  const executing = host.deliver(0);
  let isDrained = false;
  const drained = host.scheduler.drain().then(() => (isDrained = true));
  await host.endTurn();
  assert.equal(told.outcome?.kind, 'unavailable');
  host.execution.endOne(UNAVAILABLE);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  await host.endTurn();
  assert.equal(executing.outcome?.kind, 'unavailable', 'its call goes on without it');
  assert.equal(isDrained, false, 'not durable yet');
  await host.commit();
  await drained;
  assert.equal(letters(await host.entries()), 'ccccoo');
  const next = await restarted(host, [0, 1]);
  assert.equal(next.execution.running, 2);
  while (next.execution.running > 0) next.execution.endOne();
  assert.deepEqual(await next.entries(), []);
});

test('a timer is stored as due until its hook has ended, or it is set again', async () => {
  const host = new DurableHost({ nowMs: 5000 }).admit([0], {
    timerMs: 4000,
    module: { ...MODULE, entries: new Map([...MODULE.entries].filter(([name]) => name !== 'canister_heartbeat')) },
  });
  host.scheduler.beginTicking();
  host.clock.advance(5);
  assert.equal(taskOf(host).kind, 'system');
  assert.equal(host.scheduler.stateOf(0).timerMs, undefined);
  assert.equal(host.scheduler.stateOf(0).storedTimerMs, 4000);
  host.execution.endOne(STEP);
  assert.equal(host.scheduler.stateOf(0).storedTimerMs, undefined);
  assert.deepEqual(host.changed, [0]);
  host.deliver(0);
  host.execution.endOne({ ...REPLY, timerNs: 4_500_000_000n });
  host.clock.advance(5);
  host.execution.endOne({ ...STEP, timerNs: 9_000_000_000n });
  assert.equal(host.scheduler.stateOf(0).storedTimerMs, 9000);
});

test('open calls are told by callee, as the executor counts them', async () => {
  const host = new DurableHost().admit([0, 1, 2]);
  host.deliver(0);
  const slot = (k: number): Uint8Array => new Uint8Array(56).fill(k, 52, 53);
  const calls = [
    callOf(idOf(1), { callbacks: slot(1) }),
    callOf(idOf(2), { callbacks: slot(2) }),
    callOf(idOf(1), { callbacks: slot(1) }),
  ];
  host.execution.endOne({ ...STEP, calls: [...calls, callOf(idOf(2))] });
  const expected = [
    { callee: idOf(1), slot: 1, count: 2 },
    { callee: idOf(2), slot: 2, count: 1 },
  ];
  assert.deepEqual(host.scheduler.stateOf(0).openCounts, expected);
  const next = await restarted(host, [0, 1, 2]);
  assert.deepEqual(next.scheduler.stateOf(0).openCounts, expected);
  while (next.execution.running > 0) next.execution.endOne();
  assert.deepEqual(next.scheduler.stateOf(0).openCounts, []);
});

test('a stopping canister that was waiting for nothing else is stopped after a restart', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  const entries = await host.entries();
  const next = new DurableHost({ entries }).admit([0, 1, 2], { status: 'stopping', isAsleep: true });
  next.scheduler.restore(entries);
  assert.deepEqual(
    [0, 1, 2].map((handle) => next.scheduler.stateOf(handle).status),
    // The message that waits for the second canister has not begun, and is refused.
    ['stopping', 'stopped', 'stopped'],
  );
  for (let k = 0; k < 3; k++) {
    await next.commit();
    next.execution.endAll();
  }
  assert.deepEqual(
    [0, 1].map((handle) => next.scheduler.stateOf(handle).status),
    ['stopped', 'stopped'],
  );
});

for (const isRestarted of [false, true]) {
  test(`a canister whose calls are ended goes at once: callers are rejected and refunded, what it called finds nobody${isRestarted ? ', after a restart too' : ''}`, async () => {
    const host = new DurableHost().admit([0, 1, 2]);
    // The canister waits for another with 40 cycles, and has accepted 30 of the 70 that came with a call.
    const client = host.deliver(0);
    host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { cycles: 40n })] });
    const atOther = host.execution.started.at(-1);
    host.deliver(2);
    host.execution.endLast({ ...STEP, calls: [callOf(idOf(0), { cycles: 70n })] });
    host.execution.endLast({ ...STEP, cyclesAccepted: 30n, calls: [callOf(idOf(1), { cycles: 5n })] });
    const stopped = host.scheduler.stop(0);
    assert.equal(letters(await host.entries()), 'cccccooo');

    const stopping = assert.rejects(stopped, /did not stop: the canister is deleted/);
    const letGo = host.scheduler.lock(0);
    await host.scheduler.endCalls(0);
    host.scheduler.withdraw(0);
    letGo();
    await stopping;
    const callback = taskOf(host);
    assert.ok(callback.kind === 'callback' && callback.response.kind === 'reject');
    assert.equal(callback.response.code, 4);
    assert.match(callback.response.message, /^Canister .* was deleted$/);
    assert.equal(callback.refunded, 40n);
    // The rows of the callees, and of the caller, are left: the canister's own contexts and calls are gone in the same
    // unit.
    assert.equal(letters(await host.entries()), 'ccco');
    assert.ok(client.outcome?.kind === 'reject' && client.outcome.code === 4);

    const next = isRestarted ? await restarted(host, [1, 2]) : host;
    next.execution.endAll();
    assert.deepEqual(await next.entries(), [], 'nothing is left for one that is not there');
    assert.deepEqual(next.execution.credits, [], 'and nobody pays it');
    assert.ok(atOther !== undefined);
    assert.equal(next.execution.started.filter(({ handle }) => handle === 0 && next !== host).length, 0);
  });
}

test('nothing is ended when the executor dies meanwhile; a sleeping canister is not woken for it', async () => {
  const host = new DurableHost().admit([0, 1]);
  host.deliver(0);
  host.execution.endOne({ ...STEP, calls: [callOf(idOf(1))] });
  host.execution.uninstallProblem = new ServerError('unavailable', 'thread-stopped', 'died');
  const letGo = host.scheduler.lock(0);
  await assert.rejects(host.scheduler.endCalls(0), { code: 'thread-stopped' });
  letGo();
  assert.equal(letters(await host.entries()), 'cco');

  const entries = await host.entries();
  const next = new DurableHost({ entries }).admit([1]).admit([0], { isAsleep: true });
  next.scheduler.restore(entries);
  const release = next.scheduler.lock(0);
  await next.scheduler.endCalls(0);
  next.scheduler.withdraw(0);
  release();
  next.execution.endAll();
  assert.deepEqual([next.woken, await next.entries()], [[], []]);
});

const REINSTALL = { mode: 'reinstall', endsCalls: true, argument: new Uint8Array(0), caller: idOf(9) } as const;

for (const isRestarted of [false, true]) {
  test(`calls that end with the code hold up nobody, and their cycles come back${isRestarted ? ', after a restart too' : ''}`, async () => {
    const host = new DurableHost().admit([0, 1, 2]);
    // Canister 0 waits for canister 1, and canister 2 waits for canister 0.
    const client = host.deliver(0);
    host.execution.endOne({ ...STEP, calls: [callOf(idOf(1), { cycles: 40n })] });
    host.deliver(2);
    host.execution.endLast({ ...STEP, calls: [callOf(idOf(0), { cycles: 70n })] });
    host.execution.endLast({ ...STEP, cyclesAccepted: 30n, calls: [callOf(idOf(1), { cycles: 5n })] });
    // Canister 0 calls itself, and the call has not begun; nor has a client's message.
    host.deliver(0);
    const letGo = host.scheduler.lock(0);
    host.execution.endLast({ ...STEP, calls: [callOf(idOf(0), { cycles: 3n })] });
    const late = host.deliver(0);
    assert.equal(await host.scheduler.lockBetweenMessages(0), undefined, 'an upgrade would have to wait');
    const begun = host.execution.started.length;
    await host.scheduler.change(0, MODULE, REINSTALL);
    letGo();
    await host.commit();
    assert.ok(client.outcome?.kind === 'reject' && client.outcome.code === 4);
    assert.match(client.outcome.message, /^Canister .* was reinstalled$/);
    const rejected = host.execution.started.at(begun);
    assert.ok(rejected?.handle === 2 && rejected.task.kind === 'callback' && rejected.task.response.kind === 'reject');
    assert.deepEqual([rejected.task.response.code, rejected.task.refunded], [4, 40n]);
    assert.deepEqual(host.scheduler.stateOf(0).openCounts, [], 'the executor counts none of them');
    host.execution.endLast();
    await host.commit();
    assert.equal(late.outcome?.kind, 'reply', 'the new code answers what the old one had not begun');

    // The canister's call to itself carried cycles, which are back already.
    const paid = host.execution.credits.map(({ amount }) => amount);
    for (const { pay } of host.execution.credits.splice(0)) pay(true);
    const next = isRestarted ? await restarted(host, [0, 1, 2]) : host;
    const unlock = await next.scheduler.lockBetweenMessages(0);
    assert.ok(unlock !== undefined, 'an upgrade waits for nothing');
    unlock();
    await next.scheduler.stop(0);
    while (next.execution.running > 0) next.execution.endOne();
    const callbacks = next.execution.started.filter(({ handle, task }) => handle === 0 && task.kind === 'callback');
    assert.deepEqual(callbacks, []);
    for (const { handle, amount, pay } of next.execution.credits) {
      assert.equal(handle, 0);
      paid.push(amount);
      pay(true);
    }
    assert.deepEqual(paid, [3n, 40n, 5n]);
    assert.deepEqual(await next.entries(), []);
  });
}
