/** Composite queries, if the scheduler supports them. */
import assert from 'node:assert/strict';
import type { SuiteTest } from '../runner.ts';
import {
  Bench,
  callbackOf,
  calling,
  callOf,
  faulted,
  idOf,
  type MakeScheduler,
  RAN,
  refusalOf,
  replied,
  type Watched,
} from './bench.ts';

const suspended = (frame: number, ...callees: readonly number[]): ReturnType<typeof calling> => ({
  ...calling(...callees.map((handle) => callOf(idOf(handle), { method: 'q' }))),
  frame,
});

export function describeQueries(test: SuiteTest, make: MakeScheduler): void {
  test('composite queries call queries and go on where they waited, or are refused with code 1', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    const told = bench.query(0, 'c');
    if (!bench.scheduler.supports.compositeQueries) {
      assert.deepEqual(refusalOf(await bench.settled(told)).slice(0, 2), ['reject', 1]);
      await bench.nothing(0);
      return;
    }
    await bench.end(0, suspended(7, 1));
    assert.equal((await bench.end(1)).kind, 'query');
    const callback = callbackOf(await bench.end(0, replied(undefined, { frame: 7 })));
    assert.deepEqual([callback.frame, callback.response.kind], [7, 'reply']);
    assert.equal((await bench.settled(told)).kind, 'reply');
    assert.deepEqual(await bench.end(0, RAN), { kind: 'dropFrame', frame: 7 });
    await bench.nothing(0);
    for (const method of ['m', 'nobody']) {
      const refused: Watched<unknown> = bench.query(0, 'c');
      await bench.end(0, { ...suspended(8, 1), calls: [callOf(idOf(1), { method })] });
      const { response } = callbackOf(await bench.end(0));
      assert.equal(response.kind === 'reject' && response.code, 5, method);
      await bench.settled(refused);
    }
  });

  test('a composite query that has answered drops what is open, and one that traps ends', async (t) => {
    const bench = await Bench.over(t, make, [0, 1]);
    if (!bench.scheduler.supports.compositeQueries) return;
    const answered = bench.query(0, 'c');
    await bench.end(0, { ...suspended(3, 1, 1), answer: { kind: 'reply', data: Uint8Array.of(1) } });
    assert.equal((await bench.settled(answered)).kind, 'reply');
    assert.deepEqual(await bench.end(0, RAN), { kind: 'dropFrame', frame: 3 });
    await bench.end(1);
    await bench.end(1);
    await bench.nothing(0);
    const trapped = bench.query(0, 'c');
    await bench.end(0, suspended(4, 1, 1));
    await bench.end(1);
    await bench.end(0, faulted('trap'));
    await bench.end(1);
    assert.equal((await bench.settled(trapped)).kind, 'trap');
    await bench.nothing(0);
  });
}
