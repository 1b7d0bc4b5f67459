import { deepEqual, equal, throws } from 'node:assert/strict';
import { test } from 'node:test';
import { assert, at, numberAt, ServerError } from '../../kernel/index.ts';

test('what does not hold is a bug: an error without a code', () => {
  const given: { readonly port: number | undefined } = { port: Number('7000') };
  assert(given.port !== undefined, 'there is no port');
  // The compiler knows the narrowed type now.
  const port: number = given.port;
  throws(
    () => assert(port > 7000, 'the port is another'),
    (error) => {
      equal(String(error), 'Error: the port is another');
      return !(error instanceof ServerError);
    },
  );
});

test('an element is there, or the message names what is not', () => {
  const lanes = ['a', undefined, 'c'];
  deepEqual([at(lanes, 0, 'lane'), at(lanes, 2, 'lane')], ['a', 'c']);
  for (const index of [1, 3, -1, 0.5]) throws(() => at(lanes, index, 'lane'), { message: `no lane ${index}` });
  deepEqual(
    [0, '', false, null].map((_, index, all) => at(all, index, 'value')),
    [0, '', false, null],
  );
});

test('a number is there, or the message names what is not', () => {
  for (const numbers of [[4, 0], Uint8Array.of(4, 0), Float64Array.of(4, 0)]) {
    deepEqual([numberAt(numbers, 0, 'place'), numberAt(numbers, 1, 'place')], [4, 0]);
    for (const index of [2, -1, 0.5, Number.NaN])
      throws(() => numberAt(numbers, index, 'place'), { message: `no place ${index}` });
  }
});
