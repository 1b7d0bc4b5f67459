import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as realSleep } from 'node:timers/promises';
import { type Clock, sleep, systemClock } from '../../kernel/index.ts';
import { FakeClock } from '../support/fake-clock.ts';

const fake = new FakeClock();

/** Each clock, and how its time passes. */
const CLOCKS: readonly [string, Clock, (ms: number) => Promise<void>][] = [
  ['the system clock', systemClock, (ms) => realSleep(ms)],
  ['the clock of tests', fake, async (ms) => fake.advance(ms)],
];

for (const [name, clock, pass] of CLOCKS) {
  suite(name, () => {
    test('calls once, not before its time, and nobody who was cancelled', async () => {
      const called: string[] = [];
      const startedMs = clock.nowMs();
      clock.after(20, () => called.push(clock.nowMs() - startedMs > 19 ? 'in time' : 'early'));
      const cancelled = clock.after(20, () => called.push('cancelled'));
      cancelled[Symbol.dispose]();
      await pass(5);
      assert.deepEqual(called, []);
      for (let passedMs = 0; passedMs < 5000 && called.length === 0; passedMs += 20) await pass(20);
      cancelled[Symbol.dispose]();
      await pass(50);
      assert.deepEqual(called, ['in time']);
    });

    test('calls again and again until it is told to end, from within the call, too', async () => {
      let beats = 0;
      const beating = clock.every(5, () => {
        beats++;
        if (beats === 3) beating[Symbol.dispose]();
      });
      for (let passedMs = 0; passedMs < 5000 && beats < 3; passedMs += 5) await pass(5);
      await pass(50);
      assert.equal(beats, 3);
    });

    test('sleeps', async () => {
      let isAwake = false;
      void sleep(clock, 10).then(() => (isAwake = true));
      for (let passedMs = 0; passedMs < 5000 && !isAwake; passedMs += 10) await pass(10);
      assert.ok(isAwake);
    });
  });
}

test('a timer of the system clock keeps no process alive', () => {
  const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  using _timer = systemClock.after(1e6, () => assert.fail());
  using _beats = systemClock.every(1e6, () => assert.fail());
  assert.equal(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length, before);
});

test('in tests, who is due is called in order and sees the time to which the clock was moved', () => {
  const clock = new FakeClock(1000);
  const called: string[] = [];
  const note = (who: string): void => void called.push(`${who} at ${clock.nowMs()}`);
  clock.every(40, () => note('every 40'));
  clock.after(80, () => note('after 80'));
  clock.after(30, () => {
    note('after 30');
    clock.after(10, () => note('asked for later'));
  });
  clock.advance(100);
  assert.deepEqual(called, ['after 30 at 1100', 'every 40 at 1100', 'every 40 at 1100', 'after 80 at 1100']);
  clock.set(0);
  clock.advance(9);
  assert.equal(called.length, 4);
  clock.advance(1);
  assert.equal(called.at(-1), 'asked for later at 10');
  clock.dropTimers();
  clock.advance(1000);
  assert.equal(called.length, 5);
  assert.equal(clock.pending, 0);
});
