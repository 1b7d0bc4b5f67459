import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SilenceWatch } from '../../kernel/lifecycle.ts';

test('a process that was stopped for minutes was not silent for minutes', async () => {
  let nowMs = 0;
  let timers: { readonly dueMs: number; readonly fire: () => void }[] = [];
  const clock = {
    after: (ms: number, fire: () => void): Disposable => {
      const timer = { dueMs: nowMs + ms, fire };
      timers.push(timer);
      return { [Symbol.dispose]: () => void (timers = timers.filter((each) => each !== timer)) };
    },
  };
  /** Lets time pass; each due timer fires once, as after SIGCONT. */
  const pass = async (ms: number): Promise<void> => {
    nowMs += ms;
    for (const timer of timers.filter(({ dueMs }) => dueMs <= nowMs)) {
      timers = timers.filter((each) => each !== timer);
      timer.fire();
    }
    await nextTurn();
  };
  using watch = new SilenceWatch(clock, 60_000);
  watch.heard();
  let ended = '';
  watch.unlessSilent(new Promise<never>(() => undefined)).catch((error: unknown) => (ended = String(error)));
  await pass(300_000);
  assert.equal(ended, '');
  for (let part = 1; part < 9; part++) await pass(6_000);
  assert.equal(ended, '');
  await pass(6_000);
  assert.match(ended, /nothing was heard of it for 60000 ms/);
});
