/** Messages of clients: order, turns, answers, refusals, and the end. */
import assert from 'node:assert/strict';
import type { Outcome, Step } from '../../../../subsystems/ic/index.ts';
import type { SuiteTest } from '../runner.ts';
import {
  argumentOf,
  Bench,
  CLIENT,
  faulted,
  INSPECT,
  type MakeScheduler,
  MODULE,
  moduleOf,
  NONE,
  RAN,
  refusalOf,
  replied,
  type Watched,
} from './bench.ts';

const numbered = (n: number): { readonly argument: Uint8Array } => ({ argument: Uint8Array.of(n, n >> 8) });
const numberOf = ([low = 0, high = 0]: Uint8Array): number => low + 256 * high;

export function describeMessages(test: SuiteTest, make: MakeScheduler): void {
  test('a client gets what the step says, and it is told as it came, once', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    for (const [step, kind] of [
      [replied(Uint8Array.of(1)), 'reply'],
      [{ ...RAN, answer: { kind: 'reject', code: 4, message: 'no' } }, 'reject'],
      [faulted('trap'), 'trap'],
      [faulted('calledTrap'), 'trap'],
      [faulted('limit'), 'limit'],
      [faulted('outOfCycles'), 'outOfCycles'],
      [RAN, 'noReply'],
    ] as const satisfies readonly (readonly [Step, string])[])
      for (const method of ['m', 'q']) {
        const noted = {
          kind: 'update',
          method,
          caller: CLIENT,
          argument: NONE,
          argumentBytes: 0,
          startedMs: 1,
        } as const;
        const told = method === 'm' ? bench.deliver(0, 'm', { noted }) : bench.query(0, 'q', { noted });
        const task = await bench.end(0, step);
        const outcome = await bench.settled(told);
        assert.deepEqual([outcome.kind, outcome.instructions, outcome.charge], [kind, 10, 7], method);
        assert.ok(task.kind === 'update' || task.kind === 'query');
        assert.deepEqual([task.context.caller, task.context.canAnswer], [CLIENT, true]);
        const { answered } = bench.heard;
        assert.deepEqual(answered.splice(0), [{ handle: 0, noted, outcome }]);
        assert.deepEqual(bench.heard.ended.splice(0), [{ handle: 0, step, count: 'nothing' }]);
      }
  });

  test('updates of a canister start in the order in which they came', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const told = Array.from({ length: 600 }, (_, n) => bench.deliver(0, 'm', numbered(n)));
    for (const [n, each] of told.entries()) {
      assert.equal(numberOf(argumentOf(await bench.end(0))), n);
      assert.equal((await bench.settled(each)).kind, 'reply');
    }
  });

  test('queries are answered while updates wait, and updates while queries do', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const updates = Array.from({ length: 40 }, () => bench.deliver(0));
    const queries = Array.from({ length: 40 }, () => bench.query(0));
    for (let ended = 0; ended < 80; ended++) await bench.end(0);
    for (const each of [...updates, ...queries]) assert.equal((await bench.settled(each)).kind, 'reply');
  });

  test('a canister that floods its executor does not keep others from it', async (t) => {
    const bench = await Bench.over(t, make, [0, 1, 2]);
    for (let n = 0; n < 900; n++) bench.deliver(0);
    await bench.idle();
    const ahead = bench.execution.underWay(0);
    const [update, query] = [bench.deliver(1), bench.query(2)];
    const isGiven = (): boolean => [1, 2].every((handle) => bench.execution.head(handle) !== undefined);
    let ended = 0;
    for (; !isGiven(); ended++) {
      assert.ok(ended <= ahead + 4, `canister 0 had ${ended} turns more before the others had one`);
      await bench.end(0);
      await bench.idle();
    }
    await bench.end(1);
    await bench.end(2);
    for (const each of [update, query]) assert.equal((await bench.settled(each)).kind, 'reply');
  });

  test('one executor does not wait for another', async (t) => {
    const bench = await Bench.over(t, make, [0, 1], { executors: 2 });
    for (let n = 0; n < 900; n++) bench.deliver(0);
    const told = bench.deliver(1);
    await bench.end(1);
    assert.equal((await bench.settled(told)).kind, 'reply');
  });

  test('the queue is as long as it says, and then refuses with code 2', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    const { scheduler, execution } = bench;
    assert.ok(scheduler.queuedMax > 0);
    let refused: Watched<Outcome> | undefined;
    const limit = 2 * scheduler.queuedMax + 2000;
    for (let sent = 0; refused === undefined && sent <= limit; sent += 100) {
      const told = Array.from({ length: 100 }, () => bench.deliver(0));
      await bench.idle();
      refused = told.find(({ isSettled }) => isSettled);
    }
    assert.ok(refused !== undefined, `${limit} messages wait`);
    const [kind, code, message] = refusalOf(await bench.settled(refused));
    assert.deepEqual([kind, code], ['unavailable', 2]);
    assert.ok(message.includes(String(scheduler.queuedMax)), message);
    assert.ok(scheduler.stateOf(0).queued <= scheduler.queuedMax);
    assert.ok(scheduler.stateOf(0).queued + execution.underWay(0) >= scheduler.queuedMax);
    await bench.end(0);
    await bench.idle();
    const later = bench.deliver(0);
    await bench.idle();
    assert.equal(later.isSettled, false, 'there is room again');
  });

  test('a message finds its entry point, or is refused with code 5', async (t) => {
    const bench = await Bench.over(t, make, [0]);
    for (const [kind, method, entry] of [
      ['update', 'm', 'canister_update m'],
      ['update', 'q', 'canister_query q'],
      ['query', 'q', 'canister_query q'],
      ['transform', 'q', 'canister_query q'],
    ] as const) {
      const told = bench.deliver(0, method, { kind });
      const task = await bench.end(0);
      assert.ok(task.kind === kind);
      assert.equal(task.entry, MODULE.entries.get(entry));
      assert.equal((await bench.settled(told)).kind, 'reply');
    }
    for (const [kind, method] of [
      ['update', 'nobody'],
      ['query', 'nobody'],
      ['query', 'm'],
      ['update', 'c'],
    ] as const) {
      const refused = refusalOf(await bench.settled(bench.deliver(0, method, { kind })));
      assert.deepEqual(refused.slice(0, 2), ['reject', 5], `${kind} ${method}`);
    }
    await bench.nothing(0);
  });

  test('who has no code is refused with code 5, and who is not there with code 3', async (t) => {
    const bench = await Bench.over(t, make, []);
    bench.admit(0);
    assert.deepEqual(refusalOf(await bench.settled(bench.deliver(0))).slice(0, 2), ['reject', 5]);
    assert.deepEqual(refusalOf(await bench.settled(bench.deliver(7))).slice(0, 2), ['reject', 3]);
    assert.equal(bench.scheduler.handleOf(Uint8Array.of(9)), undefined);
    assert.throws(() => bench.scheduler.stateOf(7));
  });

  test('updates of clients are inspected: accepted, refused with code 4, or faulted', async (t) => {
    const module = moduleOf(10, [INSPECT]);
    const bench = await Bench.over(t, make, [0], { module });
    for (const [step, kind] of [
      [RAN, 'reject'],
      [faulted('trap'), 'trap'],
    ] as const) {
      const told = bench.deliver(0);
      const task = await bench.end(0, step);
      assert.deepEqual([task.kind, 'method' in task && task.method], ['inspect', 'm']);
      assert.equal((await bench.settled(told)).kind, kind);
      await bench.nothing(0);
    }
    // A large argument is the executor's when the hook has it.
    for (const bytes of [3, 200_000]) {
      const told = bench.deliver(0, 'm', { argument: new Uint8Array(bytes).fill(7) });
      assert.equal((await bench.end(0, { ...RAN, isAccepted: true })).kind, 'inspect');
      assert.deepEqual(argumentOf(await bench.end(0)), new Uint8Array(bytes).fill(7));
      assert.equal((await bench.settled(told)).instructions, 20, 'with those of the hook');
    }
    bench.query(0);
    assert.equal((await bench.end(0)).kind, 'query');
  });

  test('at the end what waits is answered, what executes ends first, and nothing starts any more', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const waiting = Array.from({ length: 500 }, () => bench.deliver(0));
    await bench.task(0);
    const drained = watchDrain(bench);
    await bench.until('executors go on', () => bench.execution.isRefusing);
    await bench.idle();
    assert.equal(waiting[0]?.isSettled, false, 'it executes');
    for (const each of waiting.slice(1)) assert.deepEqual(refusalOf(await bench.settled(each)).slice(0, 2), STOPPING);
    for (const late of [bench.deliver(0), bench.query(1)])
      assert.deepEqual(refusalOf(await bench.settled(late)).slice(0, 2), STOPPING);
    assert.equal(drained.isOver, false);
    await bench.end(0);
    await bench.until('it is not drained', () => drained.isOver);
    assert.equal(waiting[0]?.value?.kind, 'reply');
    await bench.nothing(0);
  });
}

const STOPPING = ['unavailable', 2];

function watchDrain(bench: Bench): { readonly isOver: boolean } {
  const watched = { isOver: false };
  void bench.drain().then(() => (watched.isOver = true));
  return watched;
}
