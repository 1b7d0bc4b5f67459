import {
  areNumbersAt,
  areNumbersReached,
  areSameNumbers,
  factsAmong,
  factsToStore,
  LATER_NUMBERS,
  laterNumbers,
  MESSAGE_NUMBERS,
  type MessageNumbers,
  NO_FACTS,
  NO_NUMBERS,
  numbersAt,
  numbersOf,
  placeOf,
  putNumbers,
  storedNumbers,
  takeNumbers,
  withFacts,
} from '../../../subsystems/ic/index.ts';
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

const NAMES = Object.keys(NO_NUMBERS) as (keyof MessageNumbers)[];
/** Every number another one. */
const NUMBERS = Object.fromEntries(NAMES.map((name, at) => [name, at + 7])) as unknown as MessageNumbers;

suite('facts that operators give', () => {
  const given = { hasCertificate: true };

  test('the ones that are named take the place of the old ones, and nothing else is taken', () => {
    const options = { ...given, argument: 'something else' };
    const facts = withFacts(NO_FACTS, options);
    assert.deepEqual(facts, { ...NO_FACTS, ...given });
    assert.deepEqual(withFacts(facts, { hasCertificate: false }), NO_FACTS);
  });

  test('where none is another the same object is returned: so canisters without facts share one', () => {
    assert.equal(withFacts(NO_FACTS, {}), NO_FACTS);
    assert.equal(withFacts(NO_FACTS, NO_FACTS), NO_FACTS);
    assert.equal(factsAmong({}), NO_FACTS);
  });

  test('only those that are not the default are stored, and they are read again', () => {
    assert.deepEqual(factsToStore(NO_FACTS), {});
    const stored = factsToStore({ ...NO_FACTS, ...given });
    assert.deepEqual(stored, given);
    const identity = { ...stored, name: 'counter' };
    assert.deepEqual(factsAmong(identity), { ...NO_FACTS, ...given });
  });

  test('a stored one of another type is noticed', () => {
    for (const name of Object.keys(NO_FACTS)) assert.equal(factsAmong({ [name]: 5n }), undefined);
  });
});

suite('numbers that messages change', () => {
  test('each has a place of its own in a row, and comes back from there', () => {
    const row = new Float64Array(MESSAGE_NUMBERS + 2).fill(-1);
    putNumbers(row, 1, NUMBERS);
    assert.deepEqual([row[0], row.at(-1)], [-1, -1]);
    for (const name of NAMES) assert.equal(row[1 + placeOf(name)], NUMBERS[name]);
    assert.deepEqual(numbersAt(row, 1), NUMBERS);
  });

  test('another one is noticed, whichever it is', () => {
    const row = new Float64Array(MESSAGE_NUMBERS);
    putNumbers(row, 0, NUMBERS);
    assert.ok(areNumbersAt(row, 0, NUMBERS) && areSameNumbers(NUMBERS, { ...NUMBERS }));
    for (const name of NAMES) {
      const other = { ...NUMBERS, [name]: 1 };
      assert.ok(!areNumbersAt(row, 0, other) && !areSameNumbers(NUMBERS, other), name);
    }
  });

  test('they are copied without what is beside them', () => {
    const canister = { ...NO_NUMBERS, id: 'a' };
    const step = { ...NUMBERS, heapBytes: 5 };
    takeNumbers(canister, step);
    assert.deepEqual(canister, { ...NUMBERS, id: 'a' });
    assert.deepEqual(numbersOf(canister), NUMBERS);
  });

  test('a log that is run again comes to the same ones; only changes of settings since may have raised the version', () => {
    assert.ok(areNumbersReached(NUMBERS, NUMBERS));
    assert.ok(areNumbersReached(NUMBERS, { ...NUMBERS, version: NUMBERS.version + 1 }));
    for (const name of NAMES) assert.ok(!areNumbersReached({ ...NUMBERS, [name]: 100 }, NUMBERS), name);
  });

  test('the version has a place in the first stored form; later ones are stored behind it if one is not 0', () => {
    assert.equal(placeOf('version'), 0);
    assert.deepEqual(laterNumbers({ ...NO_NUMBERS, version: 5 }), []);
    const later = laterNumbers(NUMBERS);
    assert.equal(later.length, LATER_NUMBERS);
    assert.deepEqual(storedNumbers(NUMBERS.version, later), NUMBERS);
    assert.deepEqual(storedNumbers(5, []), { ...NO_NUMBERS, version: 5 });
  });
});
