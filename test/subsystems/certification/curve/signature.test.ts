/** Signatures of the root key by our own arithmetic, against those of another library, byte by byte. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, it } from 'node:test';
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { add, constant, multiply, numberAt, room, subtract } from '../../../../subsystems/certification/curve/field.ts';
import { P } from '../../../../subsystems/certification/curve/field-module.ts';
import { signatureOf } from '../../../../subsystems/certification/curve/index.ts';
import { putSum } from '../../../../subsystems/certification/curve/map-to-curve.ts';
import { compressed, pointRoom } from '../../../../subsystems/certification/curve/points.ts';

const DOMAIN = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_';
const ORDER = 0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001n;
const RANDOM_SIGNATURES = 150;
const { shortSignatures, G1 } = bls12_381;
/** Takes a number, where the types have a list. */
const mapped = G1.mapToCurve as unknown as (number: bigint) => InstanceType<typeof G1.Point>;

function expectSame(message: Uint8Array, secret: Uint8Array): void {
  const expected = shortSignatures.sign(shortSignatures.hash(message, DOMAIN), secret).toBytes(true);
  const text = `${Buffer.from(message).toString('hex')} by ${Buffer.from(secret).toString('hex')}`;
  assert.deepEqual(Buffer.from(signatureOf(message, secret)), Buffer.from(expected), text);
}

function secretOf(value: bigint): Uint8Array {
  return Buffer.from(value.toString(16).padStart(64, '0'), 'hex');
}

describe('a signature of the root key', () => {
  it('is what the other library signs, for random messages and secrets', () => {
    for (let at = 0; at < RANDOM_SIGNATURES; at++) expectSame(randomBytes(at), bls12_381.utils.randomSecretKey());
  });

  it('is right for the smallest and the greatest secret, and for digits that are all alike', () => {
    const message = Buffer.from('edge');
    for (const secret of [1n, 2n, 15n, 16n, ORDER - 1n, ORDER - 2n]) expectSame(message, secretOf(secret));
    for (const digit of ['1', '5']) expectSame(message, Buffer.from(digit.repeat(64), 'hex'));
    expectSame(message, secretOf(1n << 252n));
  });
});

describe('a number that is mapped to the curve', () => {
  it('may be zero, and the same twice', () => {
    const point = pointRoom();
    for (const [first, last] of [
      [0n, 1n],
      [1n, 0n],
      [7n, 7n],
      [P - 1n, 3n],
    ] as const) {
      putSum(point, first, last);
      const expected = mapped(first).add(mapped(last)).toBytes(true);
      assert.deepEqual(Buffer.from(compressed(point)), Buffer.from(expected), `${first} and ${last}`);
    }
  });
});

describe('the field', () => {
  it('multiplies, adds and subtracts as its prime says, at the bounds of what it takes', () => {
    const values = [0n, 1n, 2n, P - 1n, P - 2n, (P - 1n) / 2n, (1n << 380n) - 1n, BigInt(`0x${'5'.repeat(94)}`)];
    const result = room();
    for (const left of values)
      for (const right of values) {
        const [l, r] = [constant(left), constant(right)];
        multiply(result, l, r);
        assert.equal(numberAt(result), (left * right) % P);
        add(result, l, r);
        assert.equal(numberAt(result), (left + right) % P);
        subtract(result, l, r);
        assert.equal(numberAt(result), (left - right + P) % P);
        // A difference is some 256 p greater than it need be; twelve times it is what points multiply by another one.
        subtract(l, l, r);
        for (let twice = 0; twice < 3; twice++) add(l, l, l);
        multiply(result, l, l);
        assert.equal(numberAt(result), (64n * (left - right) ** 2n) % P);
      }
  });
});
