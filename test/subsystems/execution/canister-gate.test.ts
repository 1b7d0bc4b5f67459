import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CanisterGate } from '../../../subsystems/execution/thread/canister-gate.ts';
import { seeded } from '../../support/seeded.ts';

interface Work {
  readonly handle: number;
  readonly number: number;
  /** True if the work does not end at once. */
  readonly isLong: boolean;
  /** True if the bytes are the work's own; false if they lie in a ring that is overwritten. */
  readonly isOwn: boolean;
}

/** A thread as the gate sees it. */
class Thread {
  readonly gate = new CanisterGate<Work>((work) => ({ ...work, isOwn: true }));
  readonly begun: Work[] = [];
  /** Canisters whose message is under way. */
  readonly underWay = new Set<number>();
  #numbers = 0;

  comes(handle: number, isLong = false): Work {
    const work = { handle, number: ++this.#numbers, isLong, isOwn: false };
    if (this.gate.admits(handle, work) && !this.begin(work)) this.gate.close(handle);
    return work;
  }

  readonly begin = (work: Work): boolean => {
    const { handle, isLong } = work;
    assert.ok(!this.underWay.has(handle), `${handle} has one message at a time`);
    this.begun.push(work);
    if (isLong) this.underWay.add(handle);
    return !isLong;
  };

  ends(handle: number): void {
    this.underWay.delete(handle);
    this.gate.ended(handle);
  }

  work(): void {
    this.gate.work(this.begin);
  }

  get numbers(): number[] {
    return this.begun.map(({ number }) => number);
  }
}

test('what comes for a canister with a message under way waits for its end, in order, with bytes of its own', () => {
  const thread = new Thread();
  thread.comes(0, true);
  thread.comes(0);
  thread.comes(1);
  thread.comes(0);
  assert.deepEqual(thread.numbers, [1, 3], 'another canister goes on');
  assert.equal(thread.gate.hasDue, false, 'nothing is due while it is under way');
  thread.ends(0);
  assert.equal(thread.gate.hasDue, true);
  thread.work();
  thread.work();
  assert.deepEqual(thread.numbers, [1, 3, 2, 4]);
  assert.deepEqual(
    thread.begun.map(({ isOwn }) => isOwn),
    [false, false, true, true],
  );
  assert.equal(thread.gate.hasDue, false);
});

test('what comes after the end does not get ahead of what has waited', () => {
  const thread = new Thread();
  thread.comes(0, true);
  thread.comes(0);
  thread.ends(0);
  thread.comes(0);
  assert.deepEqual(thread.numbers, [1]);
  thread.work();
  assert.equal(thread.gate.hasDue, true, 'the one that came in between waits as well');
  thread.work();
  thread.comes(0);
  assert.deepEqual(thread.numbers, [1, 2, 3, 4], 'then the canister is open again');
});

test('a long message out of what has waited closes the canister again', () => {
  const thread = new Thread();
  thread.comes(0, true);
  thread.comes(0, true);
  thread.comes(0);
  thread.ends(0);
  thread.work();
  assert.deepEqual(thread.numbers, [1, 2]);
  assert.equal(thread.gate.hasDue, false, 'the rest waits for it');
  thread.ends(0);
  thread.work();
  assert.deepEqual(thread.numbers, [1, 2, 3]);
  thread.comes(0);
  assert.equal(thread.begun.length, 4);
});

test('canisters for which much waits take turns', () => {
  const thread = new Thread();
  for (const handle of [0, 1]) thread.comes(handle, true);
  for (const handle of [0, 0, 0, 1, 1, 1]) thread.comes(handle);
  thread.ends(0);
  thread.ends(1);
  for (let n = 0; n < 6; n++) thread.work();
  assert.deepEqual(
    thread.begun.slice(2).map(({ handle }) => handle),
    [0, 1, 0, 1, 0, 1],
  );
});

test('an end without a message, and work that is not due, are mistakes of the thread', () => {
  const thread = new Thread();
  assert.throws(() => thread.gate.ended(7), /canister 7 has ended that had not closed the gate/);
  assert.throws(() => thread.work(), /no work is due/);
  thread.comes(0, true);
  assert.throws(() => thread.work(), /no work is due/);
});

test('in any order of comings and ends: one message at a time, each once, in the order in which they came', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = seeded(seed);
    const thread = new Thread();
    const came = new Map<number, number[]>();
    for (let n = 0; n < 300; n++) {
      const what = random.below(3);
      const [ending] = thread.underWay;
      if (what === 0) {
        const handle = random.below(4);
        const { number } = thread.comes(handle, random.oneIn(3));
        came.set(handle, [...(came.get(handle) ?? []), number]);
      } else if (what === 1 && thread.gate.hasDue) thread.work();
      else if (ending !== undefined) thread.ends(ending);
    }
    while (thread.gate.hasDue || thread.underWay.size > 0) {
      for (const handle of thread.underWay) thread.ends(handle);
      while (thread.gate.hasDue) thread.work();
    }
    for (const [handle, numbers] of came) {
      const begun = thread.begun.filter((work) => work.handle === handle).map(({ number }) => number);
      assert.deepEqual(begun, numbers, `seed ${seed}, canister ${handle}`);
    }
  }
});
