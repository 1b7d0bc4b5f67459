import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Chained, HashChains } from '../../../../subsystems/scheduler/idempotency/hash-chains.ts';
import fc, { cases } from '../../../support/properties.ts';

class Element implements Chained<Element> {
  readonly hash: number;
  next: Element | undefined = undefined;

  constructor(hash: number) {
    this.hash = hash;
  }
}

test('chains have what was added and not deleted, each once, however many there are', () => {
  // Some of them share a bucket, some are the same; the highest bit is set in half of them.
  const hash = fc.integer({ min: 0, max: 60 }).map((n) => (n * 0x9e37_79b1) >>> 0);
  const operation = fc.oneof(
    { weight: 3, arbitrary: hash.map((added) => ({ added })) },
    { weight: 2, arbitrary: fc.nat({ max: 300 }).map((deleted) => ({ deleted })) },
  );
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 400, size: 'max' }), (operations) => {
      const chains = new HashChains<Element>();
      const model: Element[] = [];
      const gone: Element[] = [];
      for (const each of operations) {
        if ('added' in each) {
          const element = new Element(each.added);
          chains.add(element);
          model.push(element);
        } else if (model.length > 0) {
          const [element] = model.splice(each.deleted % model.length, 1);
          assert.ok(element !== undefined && chains.delete(element));
          assert.equal(element.next, undefined);
          gone.push(element);
        }
        assert.equal(chains.count, model.length);
      }
      for (const element of gone) assert.equal(chains.delete(element), false);
      for (const asked of new Set([...model, ...gone].map((element) => element.hash))) {
        const found = withHash(chains, asked);
        const expected = model.filter((element) => element.hash === asked);
        assert.deepEqual([found.length, expected.every((element) => found.includes(element))], [expected.length, true]);
      }
      chains.clear();
      assert.deepEqual(
        [chains.count, ...model.map((element) => withHash(chains, element.hash).length)],
        [0, ...model.map(() => 0)],
      );
    }),
    { numRuns: cases(300) },
  );
});

/** Returns the elements with that hash, in the order in which they are found. */
function withHash(chains: HashChains<Element>, hash: number): Element[] {
  const found: Element[] = [];
  for (let element = chains.bucketOf(hash); element !== undefined; element = element.next) {
    if (element.hash === hash) found.push(element);
  }
  return found;
}
