/** Decimal numbers and the floats that they become, in Candid text and in both JSON encodings. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { decimalFloat } from '../../../subsystems/codec/decimal-float.ts';
import { startCpuTimer } from '../../support/cpu-timer.ts';
import fc, { cases } from '../../support/properties.ts';
import { codecOf, hex, toCandid } from './support.ts';

const FLOAT32 = codecOf('float32');
const MAX = 2 ** 128 - 2 ** 104;
const MIN = 2 ** -149;

/** Returns the exact decimal text of a double that is a float32 or a tie between two. */
function exactText(double: number): string {
  const digits = (BigInt(double * 2 ** 150) * 5n ** 150n).toString().padStart(151, '0');
  return `${digits.slice(0, -150)}.${digits.slice(-150)}`;
}

/** Returns the exact decimal text of the tie above a float32 of at least 0. */
function tieAbove(float: number): string {
  return exactText(float === MAX ? 2 ** 128 - 2 ** 103 : (float + next(float)) / 2);
}

function next(float: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, float);
  view.setUint32(0, view.getUint32(0) + 1);
  return view.getFloat32(0);
}

/** Returns a number a little below, which has as many digits. */
function below(text: string): string {
  const digits = text.replace('.', '');
  const less = (BigInt(digits) - 1n).toString().padStart(digits.length, '0');
  return `${less.slice(0, -150)}.${less.slice(-150)}${'9'.repeat(30)}`;
}

/** Moves the decimal point by an exponent. */
function shifted(text: string, by: number): string {
  const [whole = '', fraction = ''] = text.split('.');
  if (by < 0) return `0.${whole}${fraction}e${whole.length}`;
  return by === 0 ? text : `${whole}${fraction}${'0'.repeat(by)}e-${fraction.length + by}`;
}

function floatOf(bytes: Uint8Array): number {
  return Buffer.from(bytes).readFloatLE(bytes.length - 4);
}

function inAllForms(written: string): number[] {
  return [
    decimalFloat(written, 4),
    floatOf(FLOAT32.encodeText(`(${written})`)),
    floatOf(toCandid(FLOAT32, `[${written}]`)),
    floatOf(toCandid(FLOAT32, `[{"$svc":"float32","value":"${written}"}]`, true)),
  ];
}

suite('a decimal float32 is rounded once', () => {
  for (const [written, float] of [
    ['1.00000005960464477539062500000001', 1.00000011920928955078125],
    ['1.000000059604644775390625', 1],
    ['1.00000005960464477539062499999999', 1],
    ['-1.00000005960464477539062500000001', -1.00000011920928955078125],
    ['1.000000178813934326171875', 1.0000002384185791015625],
    ['1.00000017881393432617187499999999', 1.00000011920928955078125],
    ['340282356779733661637539395458142568447.99999', MAX],
    ['16777217', 16777216],
    ['16777217.0000000000000000000001', 16777218],
    ['0e9', 0],
    ['-0', -0],
  ] as const) {
    test(written, () => {
      for (const value of inAllForms(written)) assert.equal(Object.is(value, float), true, `${written} is ${value}`);
    });
  }

  test('at every tie: itself to the even one, a little more to the larger, a little less to the smaller', () => {
    const float = fc.oneof(
      fc.float({ min: 0, noNaN: true, noDefaultInfinity: true }),
      fc.nat(2 ** 23).map((count) => count * MIN),
      fc.constantFrom(0, MIN, 2 ** -126, 2 ** -126 - MIN, 1, MAX),
    );
    fc.assert(
      fc.property(float.map(Math.abs), fc.integer({ min: -1, max: 400 }), fc.boolean(), (small, by, isNegative) => {
        const large = small === MAX ? Number.POSITIVE_INFINITY : next(small);
        const tie = tieAbove(small);
        const isEven = (Buffer.from(new Float32Array([small]).buffer)[0] ?? 0) % 2 === 0;
        const sign = isNegative ? -1 : 1;
        for (const [text, expected] of [
          [tie, isEven ? small : large],
          [`${tie}${'0'.repeat(99)}1`, large],
          [below(tie), small],
          [exactText(small), small],
        ] as const) {
          const plain = shifted(text.replace(/^0+(?=\d)/, ''), by);
          const written = `${isNegative ? '-' : ''}${plain}`;
          assert.equal(decimalFloat(written, 4), sign * expected, written);
        }
      }),
      { numRuns: cases(300) },
    );
  });

  test('what too large is: infinite as text, refused in JSON', () => {
    const first = '340282356779733661637539395458142568448';
    for (const [type, written] of [
      ['float32', first],
      ['float32', '1e39'],
      ['float32', '1e400'],
      ['float64', '1e400'],
    ] as const) {
      const one = codecOf(type);
      for (const sign of ['', '-']) {
        const number = `${sign}${written}`;
        assert.equal(hex(one.encodeText(`(${number})`)), hex(one.encodeText(`(${sign}inf : ${type})`)), number);
        const told = { message: new RegExp(`out of range for ${type}, which goes to .*; infinity is written "Inf`) };
        assert.throws(() => toCandid(one, `[${number}]`), told, number);
        const lossless = `[{"$svc":"${type}","value":"${number}"}]`;
        assert.throws(() => toCandid(one, lossless, true), told, number);
      }
    }
  });

  test('in time that is linear in the digits', () => {
    const elapsedMs = startCpuTimer();
    for (const written of [
      `1.000000059604644775390625${'0'.repeat(1_000_000)}1`,
      `0.${'0'.repeat(500_000)}1000000059604644775390625e500001`,
    ])
      decimalFloat(written, 4);
    assert.ok(elapsedMs() < 2_000);
  });
});
