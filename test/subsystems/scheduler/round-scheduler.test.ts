import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idToText, type Outcome } from '../../../subsystems/ic/index.ts';
import { NO_LISTENER, NO_LOADER } from '../../../subsystems/scheduler/canister-port.ts';
import type { IngressMessage } from '../../../subsystems/scheduler/index.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { HeldExecution, MODULE, REPLY, type Started, STEP } from './held-execution.ts';

/** The clock of every scheduler here. */
const clock = new FakeClock(1_000);

/** Makes a scheduler with canisters 0 … 10 that have code. */
async function scheduler(execution: HeldExecution): Promise<RoundScheduler> {
  const granted = {
    execution,
    clock,
    storage: new NoStorage(),
  };
  const rounds = new RoundScheduler(granted, { heartbeatMs: 10, timerMs: 5, queryInstructionsMax: 1000 });
  for (let handle = 0; handle <= 10; handle++) {
    rounds.admit(handle, idToText(Uint8Array.of(handle, 1, 1)));
    await rounds.change(handle, MODULE, { mode: 'install', argument: new Uint8Array(0), caller: Uint8Array.of(4) });
  }
  return rounds;
}

let sequence = 0;
function message(handle: number, kind: 'update' | 'query' = 'update'): readonly [number, IngressMessage] {
  const argument = Buffer.from(String(sequence++));
  return [handle, { kind, method: kind === 'update' ? 'm' : 'q', caller: Uint8Array.of(4), argument }];
}

const numberOf = ({ argument }: { readonly argument: Uint8Array }): number => Number(Buffer.from(argument).toString());
const argumentOf = ({ task }: Started): { readonly argument: Uint8Array } => {
  assert.ok(task.kind === 'update');
  return task;
};

test('messages of one canister start in the order they came, also past the window', async () => {
  const execution = new HeldExecution();
  const { deliver } = bound(await scheduler(execution));
  const sent = Array.from({ length: 1000 }, () => message(0));
  const outcomes = sent.map((each) => deliver(...each));
  execution.endAll();
  for (const outcome of await Promise.all(outcomes)) assert.equal(outcome.kind, 'reply');
  assert.deepEqual(
    execution.started.map(argumentOf).map(numberOf),
    sent.map(([, each]) => numberOf(each)),
  );
});

test('a canister that floods its lane does not starve the others: each gets its turn', async () => {
  const execution = new HeldExecution();
  const { deliver } = bound(await scheduler(execution));
  for (let i = 0; i < 5000; i++) void deliver(...message(0));
  const window = execution.started.length;
  for (let handle = 1; handle <= 10; handle++) void deliver(...message(handle));
  for (let i = 0; i < 40; i++) execution.endOne();
  const next = execution.started.slice(window);
  for (let handle = 1; handle <= 10; handle++) {
    const position = next.findIndex((each) => each.handle === handle);
    assert.ok(position >= 0 && position <= 2 * handle, `canister ${handle} started at place ${position}`);
  }
});

test('lanes do not wait for each other', async () => {
  const execution = new HeldExecution(2);
  const { deliver } = bound(await scheduler(execution));
  for (let i = 0; i < 5000; i++) void deliver(...message(0));
  void deliver(...message(1));
  assert.ok(execution.started.some((each) => each.handle === 1));
});

test('the 10,001st waiting message of a canister is refused with the numbers, and others still get in', async () => {
  const execution = new HeldExecution();
  const { deliver } = bound(await scheduler(execution));
  void deliver(...message(0));
  const window = (): number => execution.running;
  let before = -1;
  while (before !== window()) {
    before = window();
    void deliver(...message(0));
  }
  for (let i = 0; i < 9_999; i++) void deliver(...message(0));
  const refused = await deliver(...message(0));
  assert.equal(refused.kind, 'unavailable');
  assert.match(refused.kind === 'unavailable' ? refused.message : '', /10000 of 10000/);
  execution.endOne();
  const last = deliver(...message(0));
  while (execution.running > 0) execution.endOne();
  assert.equal((await last).kind, 'reply');
});

test('drain answers what waits, lets what executes end, and resolves only then', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  const outcomes = Array.from({ length: 500 }, () => rounds.deliver(...message(0)));
  const executing = execution.running;
  let isDrained = false;
  const drained = rounds.drain().then(() => {
    isDrained = true;
  });
  assert.ok(execution.refused);
  assert.equal((await rounds.deliver(...message(0))).kind, 'unavailable');
  const waiting = await Promise.all(outcomes.slice(executing));
  assert.ok(waiting.every((outcome) => outcome.kind === 'unavailable'));
  assert.equal(isDrained, false);
  execution.endAll();
  await drained;
  const ended = await Promise.all(outcomes.slice(0, executing));
  assert.ok(ended.every((outcome) => outcome.kind === 'reply'));
  assert.equal(execution.started.length, executing, 'nothing started after drain');
});

test('whoever sent a message hears its answer once, as soon as it is known, also of what nothing is executed for', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  const heard: Outcome[] = [];
  rounds.attachCanisters(NO_LOADER, { ...NO_LISTENER, answered: (_handle, _noted, outcome) => heard.push(outcome) });
  const deliver = (handle: number, kind?: 'update' | 'query'): Promise<Outcome> => {
    const [, delivered] = message(handle, kind);
    return rounds.deliver(handle, { ...delivered, noted: { ...delivered, argumentBytes: 0, startedMs: 0 } });
  };
  for (const [step, kind] of [
    [REPLY, 'reply'],
    [{ ...STEP, fault: { kind: 'trap', code: 5, message: 'it fell' } }, 'trap'],
    [STEP, 'noReply'],
  ] as const) {
    heard.length = 0;
    const [update, query] = [deliver(0), deliver(0, 'query')];
    execution.endOne(step);
    assert.equal(heard.length, 1, 'in the turn of the step');
    execution.endOne(step);
    assert.deepEqual(heard, [await update, await query]);
    assert.deepEqual(
      heard.map((outcome) => outcome.kind),
      [kind, kind],
    );
  }
  const refused = async (handle: number, kind: Outcome['kind']): Promise<void> => {
    heard.length = 0;
    assert.deepEqual([await deliver(handle)], heard);
    assert.equal(heard[0]?.kind, kind);
  };
  await refused(99, 'reject');
  await rounds.stop(1);
  await refused(1, 'reject');
  for (let k = 0; k < 10_200; k++) void rounds.deliver(...message(0));
  await refused(0, 'unavailable');
  heard.length = 0;
  const waiting = deliver(2);
  void rounds.drain();
  assert.deepEqual([await waiting], heard);
  await refused(3, 'unavailable');
  execution.endAll();
});

function bound(rounds: RoundScheduler): { readonly deliver: RoundScheduler['deliver'] } {
  return { deliver: (...each) => rounds.deliver(...each) };
}

test('queries overtake waiting updates', async () => {
  const execution = new HeldExecution();
  const { deliver } = bound(await scheduler(execution));
  for (let i = 0; i < 1000; i++) void deliver(...message(0));
  const window = execution.started.length;
  void deliver(...message(0, 'query'));
  execution.endOne();
  execution.endOne();
  assert.ok(execution.started.slice(window).some(({ task }) => task.kind === 'query'));
});

test('a reply of a canister that never comes is a reject, and its state is the reason given', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  const outcome = rounds.deliver(...message(0));
  execution.endOne(STEP);
  const ended = await outcome;
  assert.equal(ended.kind, 'noReply');
  assert.match(ended.kind === 'noReply' ? ended.message : '', /did not reply/);
});

test('a call to another canister reaches it, and its answer comes back to the callback with what was not accepted', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  const outcome = rounds.deliver(...message(0));
  const call = {
    callee: Uint8Array.of(1, 1, 1),
    method: 'm',
    payload: Uint8Array.of(7),
    cycles: 100n,
    timeoutSeconds: undefined,
    callbacks: new Uint8Array(56).fill(3),
  };
  execution.endOne({ ...STEP, calls: [call] });
  const callee = execution.started.at(-1);
  assert.equal(callee?.handle, 1);
  assert.ok(callee?.task.kind === 'update');
  assert.equal(callee.task.context.cyclesAvailable, 100n);
  assert.deepEqual(callee.task.context.caller, Uint8Array.of(0, 1, 1));
  execution.endOne({ ...REPLY, cyclesAccepted: 30n, answer: { kind: 'reply', data: Uint8Array.of(9) } });
  const callback = execution.started.at(-1);
  assert.equal(callback?.handle, 0);
  assert.ok(callback?.task.kind === 'callback');
  assert.equal(callback.task.refunded, 70n);
  assert.deepEqual(callback.task.response, { kind: 'reply', data: Uint8Array.of(9) });
  assert.deepEqual(callback.task.callbacks, call.callbacks);
  execution.endOne();
  assert.equal((await outcome).kind, 'reply');
});

test('two callbacks of one context never execute at the same time', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  void rounds.deliver(...message(0));
  const call = (id: number) => ({
    callee: Uint8Array.of(id, 1, 1),
    method: 'm',
    payload: new Uint8Array(0),
    cycles: 0n,
    timeoutSeconds: undefined,
    callbacks: new Uint8Array(56),
  });
  execution.endOne({ ...STEP, calls: [call(1), call(2)] });
  execution.endOne();
  execution.endOne();
  const callbacks = (): number => execution.started.filter(({ task }) => task.kind === 'callback').length;
  assert.equal(callbacks(), 1, 'the second waits for the first');
  execution.endOne();
  assert.equal(callbacks(), 2);
});

test('calls to a canister that does not exist, is stopped, or lacks the method are rejected with a refund', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  await rounds.stop(2);
  const cases: readonly (readonly [Uint8Array, string, number])[] = [
    [Uint8Array.of(99, 1, 1), 'm', 3],
    [Uint8Array.of(2, 1, 1), 'm', 5],
    [Uint8Array.of(1, 1, 1), 'nothing', 5],
  ];
  for (const [callee, method, code] of cases) {
    void rounds.deliver(...message(0));
    const callbacks = new Uint8Array(56);
    execution.endOne({
      ...STEP,
      calls: [{ callee, method, payload: new Uint8Array(0), cycles: 5n, timeoutSeconds: undefined, callbacks }],
    });
    const task = execution.started.at(-1)?.task;
    assert.ok(task?.kind === 'callback' && task.response.kind === 'reject', `${method}: ${task?.kind}`);
    assert.equal(task.response.code, code);
    assert.equal(task.refunded, 5n);
    execution.endOne();
  }
});

test('stopping waits for open calls, refuses new ones, and ends when the last has ended', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  const open = rounds.deliver(...message(0));
  const stopped = rounds.stop(0);
  assert.equal(rounds.stateOf(0).status, 'stopping');
  assert.equal((await rounds.deliver(...message(0))).kind, 'reject');
  execution.endOne();
  await stopped;
  assert.equal(rounds.stateOf(0).status, 'stopped');
  assert.equal((await open).kind, 'reply');
  rounds.start(0);
  assert.equal(rounds.stateOf(0).status, 'running');
});

test('a best-effort call is given up at its deadline, and its late answer is dropped', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  rounds.beginTicking();
  void rounds.deliver(...message(0));
  const callbacks = new Uint8Array(56);
  execution.endOne({
    ...STEP,
    calls: [
      {
        callee: Uint8Array.of(1, 1, 1),
        method: 'm',
        payload: new Uint8Array(0),
        cycles: 0n,
        timeoutSeconds: 1,
        callbacks,
      },
    ],
  });
  clock.advance(2_000);
  const isCallback = ({ task }: Started): boolean => task.kind === 'callback';
  const callback = execution.started.find(isCallback)?.task;
  assert.ok(callback?.kind === 'callback' && callback.response.kind === 'reject');
  assert.equal(callback.response.code, 6);
  execution.endAll();
  assert.equal(execution.started.filter(isCallback).length, 1);
  await rounds.drain();
});

test('nothing of a held canister starts, and everything does when it is let go', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  const [one, two] = [rounds.lock(0), rounds.lock(0)];
  const outcome = rounds.deliver(...message(0));
  void rounds.deliver(...message(1));
  one();
  assert.deepEqual(
    execution.started.map(({ handle }) => handle),
    [1],
  );
  two();
  execution.endAll();
  assert.equal((await outcome).kind, 'reply');
});

test('a query that waits for a canister which is deleted is answered, and later messages are', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  for (let i = 0; i < 500; i++) void rounds.deliver(...message(1));
  const waiting = rounds.deliver(...message(0, 'query'));
  await rounds.stop(0);
  rounds.withdraw(0);
  for (const outcome of [await waiting, await rounds.deliver(...message(0))]) assert.equal(outcome.kind, 'reject');
  execution.endAll();
  assert.ok(!execution.started.some(({ handle }) => handle === 0));
});

test('what an uninstalled canister accepted in an execution that was under way is not refunded as well', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  void rounds.deliver(...message(0));
  const payload = new Uint8Array(0);
  const callbacks = new Uint8Array(56);
  const call = {
    callee: Uint8Array.of(1, 1, 1),
    method: 'm',
    payload,
    cycles: 100n,
    timeoutSeconds: undefined,
    callbacks,
  };
  execution.endOne({ ...STEP, calls: [call] });
  await rounds.uninstall(1);
  execution.endOne({ ...STEP, cyclesAccepted: 30n });
  const callback = execution.started.at(-1)?.task;
  assert.ok(callback?.kind === 'callback' && callback.response.kind === 'reject');
  assert.equal(callback.response.code, 4);
  assert.equal(callback.refunded, 70n);
});

for (const [title, forget] of [
  [
    'its code is replaced',
    async (rounds: RoundScheduler): Promise<void> => {
      await rounds.change(0, MODULE, { mode: 'reinstall', argument: new Uint8Array(0), caller: Uint8Array.of(4) });
    },
  ],
  [
    'a message sets it anew',
    (_: RoundScheduler, execution: HeldExecution): Promise<void> => {
      execution.endOne({ ...REPLY, timerNs: 2n ** 62n });
      return Promise.resolve();
    },
  ],
] as const) {
  test(`a timer that is due does not fire any more when ${title} before its hook begins`, async () => {
    const execution = new HeldExecution();
    const rounds = await scheduler(execution);
    void rounds.deliver(...message(0));
    execution.endOne({ ...REPLY, timerNs: 1n });
    rounds.beginTicking();
    for (let i = 0; i < 5000; i++) void rounds.deliver(...message(0));
    clock.advance(5);
    await forget(rounds, execution);
    execution.endAll();
    const hooks = execution.started.filter(({ task }) => task.kind === 'system' && task.entry === 3);
    assert.equal(hooks.length, 0);
    const drained = rounds.drain();
    execution.endAll();
    await drained;
  });
}

test('a heartbeat is skipped only while the one before it has not ended; a timer fires once', async () => {
  const execution = new HeldExecution();
  const rounds = await scheduler(execution);
  void rounds.deliver(...message(0));
  execution.endOne({ ...REPLY, timerNs: 1n });
  const beats = (handle: number, entry: number): number =>
    execution.started.filter(
      (each) => each.handle === handle && each.task.kind === 'system' && each.task.entry === entry,
    ).length;
  assert.equal(beats(0, 2), 0, 'nothing before ticking begins');
  rounds.beginTicking();
  clock.advance(80);
  assert.equal(beats(0, 2), 1, 'eight periods, and the first beat has not ended');
  assert.equal(beats(0, 3), 1);
  execution.endAll();
  clock.advance(10);
  assert.equal(beats(0, 2), 2);
  assert.equal(beats(0, 3), 1, 'the timer was off before its hook ran');
  const drained = rounds.drain();
  execution.endAll();
  await drained;
});
