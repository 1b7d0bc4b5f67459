import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type MessageNumbers, NO_NUMBERS } from '../../../subsystems/ic/index.ts';
import {
  identityBytes,
  numbersBytes,
  readIdentity,
  readNumbers,
  type StoredIdentity,
  type StoredNumbers,
} from '../../../subsystems/canisters/stored-values.ts';

const KEY = Uint8Array.of(1, 2);
const NUMBERS: StoredNumbers = {
  balance: 2n ** 100n + 5n,
  ofMessages: { ...NO_NUMBERS, version: 11 },
  timerMs: Number.POSITIVE_INFINITY,
  heapBytes: 1,
  stableBytes: 2,
  messages: 3,
  traps: 4,
  lastMessageMs: 5.5,
  instantMs: 6.5,
  cyclesCharged: 7,
  status: 'stopping',
  lowMemoryHook: 'ready',
};
const CORRUPT = { code: 'state-corrupt' };

suite("a canister's stored numbers", () => {
  test('are read as they were written, with every number that messages change', () => {
    assert.deepEqual(readNumbers(numbersBytes(NUMBERS), KEY), NUMBERS);
    for (const name of Object.keys(NO_NUMBERS) as (keyof MessageNumbers)[]) {
      const numbers = { ...NUMBERS, ofMessages: { ...NO_NUMBERS, [name]: 2 ** 53 - 1 } };
      assert.deepEqual(readNumbers(numbersBytes(numbers).slice(), KEY), numbers, name);
    }
  });

  test('take as many bytes as in the first version while only the version counts', () => {
    assert.equal(numbersBytes(NUMBERS).length, 96);
  });

  test('of another length are damaged: no number is guessed', () => {
    const bytes = numbersBytes({ ...NUMBERS, ofMessages: NO_NUMBERS }).slice();
    const longest = Object.keys(NO_NUMBERS).length - 1;
    for (const length of [0, 88, 95, 97, 104 + 8 * longest]) {
      const other = new Uint8Array(length);
      other.set(bytes.subarray(0, length));
      assert.throws(() => readNumbers(other, KEY), CORRUPT, `${length} bytes`);
    }
  });
});

suite("a canister's stored identity", () => {
  const identity: StoredIdentity = {
    name: 'counter',
    controllers: [KEY],
    environment: new Map([['a', 'b']]),
    settings: {},
    givenCandid: undefined,
    moduleHash: undefined,
  };

  test('is read as it was written, with the facts that were given, and without any', () => {
    for (const facts of [{}, { hasCertificate: true }]) {
      const stored = { ...identity, ...facts };
      assert.deepEqual(readIdentity(identityBytes(stored), KEY), stored);
    }
  });

  test('with open methods comes back, and with anything else in their place is damaged', () => {
    const stored = { ...identity, openMethods: { names: ['get', 'ü'], isOfManifest: true } };
    assert.deepEqual(readIdentity(identityBytes(stored), KEY), stored);
    for (const openMethods of [
      null,
      1,
      [],
      { names: 'get', isOfManifest: true },
      { names: [1], isOfManifest: true },
      { names: [] },
    ]) {
      const damaged = { ...identity, openMethods } as unknown as StoredIdentity;
      assert.throws(() => readIdentity(identityBytes(damaged), KEY), CORRUPT, JSON.stringify(openMethods));
    }
  });

  test('with a fact of another type is damaged', () => {
    const damaged = { ...identity, hasCertificate: 1 } as unknown as StoredIdentity;
    assert.throws(() => readIdentity(identityBytes(damaged), KEY), CORRUPT);
  });
});
