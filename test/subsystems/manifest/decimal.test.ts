import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '../../support/properties.ts';
import { readDecimalString, readWholeNumber } from '../../../subsystems/manifest/decimal.ts';

test('a whole number is read exactly, however it is written', () => {
  for (const [text, value] of [
    ['0', 0n],
    ['-0', 0n],
    ['0.000', 0n],
    ['0e999999999', 0n],
    ['5e12', 5_000_000_000_000n],
    ['1.5e3', 1500n],
    ['5.0', 5n],
    ['1200e-2', 12n],
    ['123456789012345678901234567890', 123_456_789_012_345_678_901_234_567_890n],
    ['1E+2', 100n],
  ] as const) {
    assert.equal(readWholeNumber(text), value, text);
  }
  for (const text of ['-1', '1.5', '1e-1', '15e-2', '1e40', '1e999999999', '1e-999999999', '9'.repeat(2000)]) {
    assert.equal(readWholeNumber(text), undefined, text);
  }
});

test('every safe integer is read from how JavaScript writes it', () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), (value) => assert.equal(readWholeNumber(JSON.stringify(value)), BigInt(value))),
  );
  fc.assert(
    fc.property(fc.maxSafeNat(), (value) => assert.equal(readWholeNumber(value.toExponential()), BigInt(value))),
  );
});

test('a decimal string has digits only', () => {
  assert.equal(readDecimalString('340282366920938463463374607431768211455'), 2n ** 128n - 1n);
  for (const text of ['', '01', '-1', '+1', '1.0', '1e3', ' 1', '1_000', '١', '1'.repeat(40)]) {
    assert.equal(readDecimalString(text), undefined, text);
  }
});
