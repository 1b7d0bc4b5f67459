/** Calls between canisters: contexts, callbacks, responses, cycles and deadlines. */
import assert from 'node:assert/strict';
import type { OutgoingCall } from '../../../../subsystems/ic/index.ts';
import type { SystemCall } from '../../../../subsystems/scheduler/index.ts';
import type { SuiteTest } from '../runner.ts';
import {
  argumentOf,
  Bench,
  callbackOf,
  calling,
  callOf,
  CLIENT,
  faulted,
  idOf,
  type MakeScheduler,
  NONE,
  RAN,
  refusalOf,
  replied,
  TIMER_MS,
} from './bench.ts';

export function describeCalls(test: SuiteTest, make: MakeScheduler): void {
  test('a call reaches its method with caller, argument and cycles, and its response the callback', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const told = bench.deliver(0);
    const call = callOf(idOf(1), { method: 'n', payload: Uint8Array.of(1, 2), cycles: 100n });
    await bench.end(0, calling(call));
    const task = await bench.end(1, replied(Uint8Array.of(9), { cyclesAccepted: 30n }));
    assert.ok(task.kind === 'update');
    const { caller, cyclesAvailable, canAnswer, deadlineNs } = task.context;
    assert.deepEqual([caller, cyclesAvailable, canAnswer, deadlineNs], [idOf(0), 100n, true, 0n]);
    assert.deepEqual(task.argument, Uint8Array.of(1, 2));
    assert.equal(told.isSettled, false);
    const callback = callbackOf(await bench.end(0, replied(Uint8Array.of(5))));
    assert.deepEqual(callback.response, { kind: 'reply', data: Uint8Array.of(9) });
    assert.deepEqual([callback.refunded, callback.callbacks], [70n, call.callbacks]);
    assert.deepEqual([callback.context.caller, callback.context.instructions], [CLIENT, 10]);
    const outcome = await bench.settled(told);
    assert.ok(outcome.kind === 'reply');
    assert.deepEqual([outcome.data, outcome.instructions, outcome.charge], [Uint8Array.of(5), 20, 14]);
    assert.deepEqual(
      bench.heard.answered.map(({ handle, noted }) => [handle, noted.kind, noted.method, noted.argumentBytes]),
      [[1, 'call', 'n', 2]],
    );
    assert.deepEqual(
      bench.heard.ended.map(({ handle, count }) => [handle, count]),
      [
        [0, 'nothing'],
        [1, 'message'],
        [0, 'nothing'],
      ],
    );
  });

  test('calls of one canister to another start in the order in which they were made', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const numbered = (from: number): OutgoingCall[] =>
      Array.from({ length: 50 }, (_, n) => callOf(idOf(1), { payload: Uint8Array.of(from + n) }));
    bench.deliver(0);
    bench.deliver(0);
    await bench.end(0, calling(...numbered(0)));
    await bench.end(0, calling(...numbered(50)));
    for (let n = 0; n < 100; n++) assert.deepEqual(argumentOf(await bench.end(1)), Uint8Array.of(n));
  });

  test('calls of a large step come in several turns, all of them and in order', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    bench.deliver(0);
    const calls = Array.from({ length: 700 }, (_, n) => callOf(idOf(1), { payload: Uint8Array.of(n, n >> 8) }));
    await bench.task(0);
    const sent = bench.execution.end(0, { ...calling(...calls), isLarge: true });
    for (let n = 0; n < 700; n++) assert.deepEqual(argumentOf(await bench.end(1)), Uint8Array.of(n, n >> 8));
    await sent;
    await bench.nothing(1);
  });

  test('each way in which a callee ends is one response, with the cycles that it has not accepted', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const step = { cyclesAccepted: 10n };
    for (const [end, code, refunded] of [
      [{ ...RAN, ...step, answer: { kind: 'reject', code: 4, message: 'no' } }, 4, 90n],
      [{ ...RAN, ...step }, 5, 90n],
      [faulted('trap'), 5, 100n],
      [faulted('outOfCycles'), 2, 100n],
    ] as const) {
      const told = bench.deliver(0);
      await bench.end(0, calling(callOf(idOf(1), { cycles: 100n })));
      await bench.end(1, end);
      const { response, refunded: back } = callbackOf(await bench.end(0));
      assert.deepEqual([response.kind, response.kind === 'reject' && response.code, back], ['reject', code, refunded]);
      assert.equal((await bench.settled(told)).kind, 'reply');
      await bench.nothing(0);
    }
  });

  test('a call that reaches no method is rejected, and refunds all', async (t) => {
    const bench = await Bench.over(t, make, [0, 1, 2]);
    bench.admit(3);
    await bench.scheduler.stop(2);
    bench.scheduler.setMinimumCycles(1, 500n);
    for (const [call, code] of [
      [callOf(idOf(9), { cycles: 100n }), 3],
      [callOf(idOf(0), { cycles: 100n, method: 'nobody' }), 5],
      [callOf(idOf(0), { cycles: 100n, method: 'c' }), 5],
      [callOf(idOf(2), { cycles: 100n }), 5],
      [callOf(idOf(3), { cycles: 100n }), 5],
      [callOf(idOf(1), { cycles: 100n }), 5],
    ] as const) {
      bench.deliver(0);
      await bench.end(0, calling(call));
      const { response, refunded } = callbackOf(await bench.end(0));
      assert.deepEqual([response.kind === 'reject' && response.code, refunded], [code, 100n]);
    }
    bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1), { cycles: 500n })));
    await bench.end(1);
    await bench.end(0);
    await bench.nothing(0);
  });

  test('a query method that a canister calls runs as an update, and its answer comes back', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1), { method: 'q' })));
    assert.equal((await bench.end(1)).kind, 'update');
    assert.equal(callbackOf(await bench.end(0)).response.kind, 'reply');
  });

  test('a call to itself is a message like any other', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const told = bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(0), { payload: Uint8Array.of(1) })));
    const task = await bench.end(0);
    assert.deepEqual([argumentOf(task), 'context' in task && task.context.caller], [Uint8Array.of(1), idOf(0)]);
    callbackOf(await bench.end(0));
    assert.equal((await bench.settled(told)).kind, 'reply');
  });

  test('executions of one context follow each other, and each knows what the one before it did', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    bench.deliver(1);
    await bench.end(1, calling(callOf(idOf(0), { cycles: 100n })));
    const [one, two, three] = [callOf(idOf(1)), callOf(idOf(1)), callOf(idOf(1))];
    await bench.end(0, { ...calling(one, two, three), cyclesAccepted: 5n });
    for (let n = 0; n < 3; n++) await bench.end(1);
    const views = [];
    for (const step of [replied(NONE, { cyclesAccepted: 20n }), { ...RAN }, { ...RAN }])
      views.push(callbackOf(await bench.end(0, step)).context);
    assert.deepEqual(
      views.map(({ canAnswer, cyclesAvailable, instructions }) => [canAnswer, cyclesAvailable, instructions]),
      [
        [true, 95n, 10],
        [false, 0n, 20],
        [false, 0n, 30],
      ],
    );
    assert.equal(callbackOf(await bench.end(1)).refunded, 75n);
  });

  test('who waits for a trap learns of it at once, or when the other calls of its context have ended', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const first = bench.deliver(0);
    await bench.end(0, faulted('trap'));
    assert.equal((await bench.settled(first)).kind, 'trap');
    const second = bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1)), callOf(idOf(1))));
    await bench.end(1);
    await bench.end(0, faulted('trap', 'the callback fell'));
    await bench.idle();
    assert.equal(second.isSettled, false, 'the other call may still bring an answer');
    await bench.end(1);
    await bench.end(0);
    assert.equal((await bench.settled(second)).kind, 'reply');
    const third = bench.deliver(0);
    await bench.end(0, calling(callOf(idOf(1))));
    await bench.end(1);
    await bench.end(0, faulted('trap', 'the callback fell'));
    assert.deepEqual(refusalOf(await bench.settled(third)), ['trap', 5, 'the callback fell']);
  });

  test('an answer before the calls have ended is given at once, and the calls go on', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const told = bench.deliver(0);
    await bench.end(0, { ...replied(), calls: [callOf(idOf(1))] });
    assert.equal((await bench.settled(told)).kind, 'reply');
    await bench.end(1);
    assert.equal(callbackOf(await bench.end(0, faulted('trap'))).context.canAnswer, false);
    await bench.nothing(0);
  });

  test('a one-way call executes, and the callback that is none changes nothing', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const told = bench.deliver(0);
    await bench.end(0, { ...replied(), calls: [callOf(idOf(1))] });
    await bench.end(1);
    await bench.end(0, faulted('noCallback'));
    assert.equal((await bench.settled(told)).kind, 'reply');
    const stopped = bench.scheduler.stop(0);
    await bench.idle();
    await stopped;
    await bench.nothing(0);
  });

  test('a best-effort call ends at its deadline with code 6, and a later answer goes nowhere', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const told = bench.deliver(0);
    const nowMs = bench.clock.nowMs();
    await bench.end(0, calling(callOf(idOf(1), { timeoutSeconds: 2, cycles: 100n })));
    const task = await bench.task(1);
    assert.ok(task.kind === 'update');
    assert.equal(task.context.deadlineNs, BigInt(nowMs + 2000) * 1_000_000n);
    await bench.pass(2000 - TIMER_MS, TIMER_MS);
    await bench.nothing(0);
    await bench.pass(2 * TIMER_MS, TIMER_MS);
    const { response, refunded } = callbackOf(await bench.end(0));
    assert.deepEqual(response, { kind: 'reject', code: 6, message: 'Call deadline has expired.' });
    assert.equal(refunded, 0n);
    assert.equal((await bench.settled(told)).kind, 'reply');
    await bench.end(1);
    await bench.nothing(0);
  });

  test('a best-effort call waits for 300 s at most, and is answered like any other before that', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    bench.deliver(0);
    bench.deliver(0);
    const nowMs = bench.clock.nowMs();
    await bench.end(0, calling(callOf(idOf(1), { timeoutSeconds: 10 })));
    await bench.end(0, calling(callOf(idOf(1), { timeoutSeconds: 100_000 })));
    await bench.end(1);
    const second = await bench.task(1);
    assert.ok(second.kind === 'update');
    assert.equal(second.context.deadlineNs, BigInt(nowMs + 300_000) * 1_000_000n);
    assert.equal(callbackOf(await bench.end(0)).response.kind, 'reply');
    await bench.pass(20_000, 1000);
    await bench.nothing(0);
    await bench.pass(281_000, 1000);
    const { response } = callbackOf(await bench.end(0));
    assert.equal(response.kind === 'reject' && response.code, 6);
  });

  test('calls to the management canister go to it, and its responses come back', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const call = callOf(NONE, { method: 'raw_rand', payload: Uint8Array.of(1), cycles: 100n });
    bench.deliver(0);
    await bench.end(0, calling(call));
    const without = callbackOf(await bench.end(0));
    assert.deepEqual([without.response.kind === 'reject' && without.response.code, without.refunded], [3, 100n]);
    const asked: SystemCall[] = [];
    const answers = [
      Promise.withResolvers<{ response: { kind: 'reply'; data: Uint8Array }; refunded: bigint }>(),
      Promise.withResolvers<never>(),
    ] as const;
    bench.scheduler.attach({ call: (each) => answers[asked.push(each) - 1]?.promise ?? assert.fail('asked twice') });
    bench.deliver(0);
    await bench.end(0, calling({ ...call, callbacks: callOf(NONE).callbacks }, callOf(NONE, { cycles: 50n })));
    await bench.until('nobody asked', () => asked.length === 2);
    const { sender, method, argument, cycles, isQuery } = asked[0] ?? assert.fail();
    assert.deepEqual([sender, method, argument, cycles, isQuery], [idOf(0), 'raw_rand', Uint8Array.of(1), 100n, false]);
    await bench.nothing(0);
    answers[0].resolve({ response: { kind: 'reply', data: Uint8Array.of(8) }, refunded: 60n });
    const first = callbackOf(await bench.end(0, RAN));
    assert.deepEqual([first.response, first.refunded], [{ kind: 'reply', data: Uint8Array.of(8) }, 60n]);
    answers[1].reject(new Error('it broke'));
    const second = callbackOf(await bench.end(0, RAN));
    assert.deepEqual([second.response.kind === 'reject' && second.response.code, second.refunded], [2, 50n]);
  });
}
