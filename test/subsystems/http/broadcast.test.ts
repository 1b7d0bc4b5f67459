import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Audience, Broadcast } from '../../../subsystems/http/broadcast.ts';

/** A clock that moves by the work that is done. */
class WorkClock {
  ms = 1000;
  /** Pending work, and the time at which it is due. */
  due: { readonly ms: number; readonly work: () => void } | undefined;

  nowMs(): number {
    return this.ms;
  }

  after(ms: number, work: () => void): Disposable {
    assert.equal(this.due, undefined, 'there is one pause at a time');
    this.due = { ms, work };
    return { [Symbol.dispose]: () => (this.due = undefined) };
  }

  every(): Disposable {
    throw new Error('nothing comes again and again');
  }

  /** Ends the pause; returns its length. */
  pass(): number {
    const { due } = this;
    assert.ok(due !== undefined, 'there is a pause');
    this.due = undefined;
    this.ms += due.ms;
    due.work();
    return due.ms;
  }
}

/** Clients that each cost some time when they are told, and the same again behind their write. */
class Crowd implements Audience {
  told = 0;
  readonly #clock: WorkClock;
  #left: number;
  readonly #costMs: number;

  constructor(clock: WorkClock, clients: number, costMs: number) {
    this.#clock = clock;
    this.#left = clients;
    this.#costMs = costMs;
  }

  tellSome(count: number): boolean {
    const now = Math.min(count, this.#left);
    this.#left -= now;
    this.told += now;
    this.#clock.ms += now * this.#costMs;
    process.nextTick(() => (this.#clock.ms += now * this.#costMs));
    return this.#left > 0;
  }
}

test('who tells ten thousand takes a third of the time, with what is done behind the writes, and reaches all', async () => {
  const clock = new WorkClock();
  const broadcast = new Broadcast(clock);
  const crowd = new Crowd(clock, 10_000, 0.01);
  broadcast.tell(crowd);
  let pausedMs = 0;
  for (let slices = 0; crowd.told < 10_000; slices++) {
    assert.ok(slices < 200, 'it goes on');
    // If it is told once more in a pause, it does not begin earlier.
    const { told } = crowd;
    broadcast.tell(crowd);
    assert.equal(crowd.told, told);
    await nextTurn();
    pausedMs += clock.pass();
  }
  // 10,000 cost 200 ms, half of it behind the writes.
  assert.ok(pausedMs >= 380 && pausedMs <= 420, `${pausedMs} ms of pauses`);
  await nextTurn();
  assert.equal(clock.due, undefined, 'there is nothing left');
});

test('a slice that something else held up is followed by a pause that has a bound', async () => {
  const clock = new WorkClock();
  const broadcast = new Broadcast(clock);
  broadcast.tell(new Crowd(clock, 200, 10));
  await nextTurn();
  assert.equal(clock.pass(), 50);
});
