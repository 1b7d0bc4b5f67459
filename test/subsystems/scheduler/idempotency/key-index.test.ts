import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { cases } from '../../../support/properties.ts';
import { keyHash } from '../../../../subsystems/scheduler/idempotency/key-hash.ts';
import { KeyIndex } from '../../../../subsystems/scheduler/idempotency/key-index.ts';

/** The reference implementation's vectors: the key is 00 01 … 07, the n-th input 00 01 … n-1. */
const VECTORS = ['a9359f5b', '27475ab8', 'fa62a603', '8afee704'];

test('keys are hashed as HalfSipHash-2-4 says', () => {
  const secret = { low: 0x03020100, high: 0x07060504 };
  for (const [length, expected] of VECTORS.entries()) {
    const hash = Buffer.alloc(4);
    hash.writeUInt32LE(keyHash(String.fromCharCode(...Array(length).keys()), secret));
    assert.equal(hash.toString('hex'), expected, `${length} bytes`);
  }
});

test('an index that grows and turns over finds each of thousands, and the oldest is the one that goes', () => {
  const index = new KeyIndex();
  const hashOf = (row: number): number => Math.imul(row ^ 0x5bd1_e995, 0x9e37_79b1) >>> 0;
  let [oldest, next] = [0, 0];
  const add = (count: number): void => {
    for (const end = next + count; next < end; next++) index.add(hashOf(next), next, next, 1, next);
  };
  const remove = (count: number): void => {
    for (const end = oldest + count; oldest < end; oldest++) index.removeOldest();
  };
  // The index is never empty in between, so that the ring has wrapped when it grows.
  for (const [added, removed] of [
    [3_000, 1_234],
    [5_000, 6_000],
    [700, 700],
    [20_000, 15_000],
  ] as const) {
    add(added);
    remove(removed);
    assert.deepEqual([index.count, index.oldestRow, index.oldestSeconds], [next - oldest, oldest, oldest]);
    for (let row = oldest; row < next; row++) {
      assert.deepEqual(
        index.withHash(hashOf(row)).map((entry) => entry.row),
        [row],
      );
    }
    assert.deepEqual(index.withHash(hashOf(oldest - 1)), []);
  }
});

test('an index finds what was added and not removed, the newest first, whatever hashes meet', () => {
  // The hashes are few: they share buckets, and some are the same.
  const hash = fc.integer({ min: 0, max: 40 }).map((n) => (n * 0x1234_5679) >>> 0);
  const operation = fc.oneof({ weight: 3, arbitrary: hash }, { weight: 2, arbitrary: fc.constant(undefined) });
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 400, size: 'max' }), (operations) => {
      const index = new KeyIndex();
      const model: { hash: number; row: number }[] = [];
      let row = 2 ** 32 - 50;
      for (const added of operations) {
        if (added !== undefined) {
          row = (row + 1) >>> 0;
          index.add(added, row, row >>> 3, 5, 7);
          model.push({ hash: added, row });
        } else if (model.length > 0) {
          index.removeOldest();
          model.shift();
        }
        assert.equal(index.count, model.length);
        assert.equal(index.oldestRow, model[0]?.row ?? -1);
        const looked = added ?? model[0]?.hash ?? 0;
        const expected = model.filter((each) => each.hash === looked).map((each) => each.row);
        const found = index.withHash(looked);
        assert.deepEqual(
          found.map((each) => each.row),
          expected.toReversed(),
        );
        assert.ok(found.every((each) => each.offset === each.row >>> 3 && each.bytes === 5 && each.seconds === 7));
      }
    }),
    { numRuns: cases(300) },
  );
});
