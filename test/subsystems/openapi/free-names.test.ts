import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FreeNames } from '../../../subsystems/openapi/free-names.ts';

test('a name that is taken gets a number, and numbers that are taken are passed over', () => {
  const names = new FreeNames();
  assert.deepEqual(
    ['a', 'a', 'a_3', 'a', 'a_2', 'b', 'a'].map((wanted) => names.take(wanted)),
    ['a', 'a_2', 'a_3', 'a_4', 'a_2_2', 'b', 'a_5'],
  );
});

test('thousands that want the same name are numbered at once', () => {
  const names = new FreeNames();
  const startedMs = performance.now();
  for (let count = 1; count < 30_000; count++) names.take('_');
  assert.equal(names.take('_'), '__30000');
  // This takes 15 ms, or 37 s if each name began to count from 2.
  assert.ok(performance.now() - startedMs < 5000);
});
