import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { unlessAborted } from '../../kernel/index.ts';

test('work ends as it does, or with the reason of the signal, whichever comes first', async () => {
  const { signal } = new AbortController();
  assert.equal(await unlessAborted(signal, Promise.resolve(7)), 7);
  await assert.rejects(unlessAborted(signal, Promise.reject(new Error('it failed'))), /it failed/);

  const controller = new AbortController();
  const work = Promise.withResolvers<number>();
  const waiting = unlessAborted(controller.signal, work.promise);
  controller.abort(new Error('nobody wants it'));
  await assert.rejects(waiting, /nobody wants it/);
  await assert.rejects(unlessAborted(controller.signal, Promise.resolve(7)), /nobody wants it/, 'aborted before');
  // Nobody hears of it, and it is no unhandled rejection.
  work.reject(new Error('too late'));
  await nextTurn();
  assert.deepEqual(
    [signal, controller.signal].map((of) => getEventListeners(of, 'abort').length),
    [0, 0],
  );
});
