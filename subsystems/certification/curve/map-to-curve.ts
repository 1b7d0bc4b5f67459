/**
 * Points of G1 of BLS12-381 that messages are hashed to (RFC 9380, suite BLS12381G1_XMD:SHA-256_SSWU_RO_): numbers of
 * the field from the message, points of a curve beside it from them (simplified SWU), and an isogeny to G1's curve.
 */
import { hash } from 'node:crypto';
import {
  add,
  type Address,
  constant,
  copy,
  digitsOf,
  multiply,
  numberAt,
  power,
  put,
  room,
  rooms,
  subtract,
} from './field.ts';
import { NUMBER_BYTES, P } from './field-module.ts';
import { ISOGENY } from './isogeny.ts';
import { addPoints, clearCofactor, pointRoom } from './points.ts';

const DOMAIN = Buffer.from('BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_');
const BLOCK_BYTES = 64;
/** Bytes that a number of the field is made of, and of a digest. */
const EXPANDED_BYTES = 64;
const DIGEST_BYTES = 32;
const EXPANDED = 2 * EXPANDED_BYTES;
const Y = NUMBER_BYTES;
const Z = 2 * NUMBER_BYTES;

/** The curve beside, y² = x³ + a x + b, and a number that is no square. */
const a = constant(0x144698a3b8e9433d693a02c96d4982b0ea985383ee66a8d8e8981aefd881ac98936f8da0e0f97f5cf428082d584c1dn);
const b = constant(0x12e2908d11688030018b12e8753eee3b2016c1f0f24f4070a0b9c14fcef35ef55a23215a316ceaa5d1cc48e98e172be0n);
const nonSquare = constant(11n);
const nothing = constant(0n);
const unit = constant(1n);
/** A root of what is left of the number that is no square when its sign is changed. */
const otherRoot = room();
/** The root of a square u / v is (u v³)^((p - 3) / 4) u v. */
const ROOT = digitsOf((P - 3n) / 4n);

const isogeny = {
  xNumerator: ISOGENY.xNumerator.map(constant),
  xDenominator: ISOGENY.xDenominator.map(constant),
  yNumerator: ISOGENY.yNumerator.map(constant),
  yDenominator: ISOGENY.yDenominator.map(constant),
};

const [u, v, root, square, product] = [room(), room(), room(), room(), room()];
/** A point of the curve beside: x is `numerator` / `denominator`. */
const [numerator, denominator, y] = [room(), room(), room()];
const [tv1, tv2, tv3, tv4, tv5, tv6] = [room(), room(), room(), room(), room(), room()];
const evaluated = { xNumerator: room(), xDenominator: room(), yNumerator: room(), yDenominator: room() };
const DEGREE_MAX = 15;
/** Powers of the denominator, from the first on. */
const powers = rooms(DEGREE_MAX);
const second = pointRoom();

subtract(tv1, nothing, nonSquare);
power(otherRoot, tv1, digitsOf((P + 1n) / 4n));

/** Puts the point that a message is hashed to at `result`. */
export function putHash(result: Address, message: Uint8Array): void {
  putSum(result, ...numbersOf(message));
}

/** Puts the sum of the points that two numbers of the field are mapped to at `result`. */
export function putSum(result: Address, first: bigint, last: bigint): void {
  putPoint(result, first);
  putPoint(second, last);
  addPoints(result, result, second);
  clearCofactor(result);
}

/** Returns two numbers of the field (RFC 9380, 5.2 and 5.3.1). */
function numbersOf(message: Uint8Array): readonly [bigint, bigint] {
  const domain = Buffer.concat([DOMAIN, Uint8Array.of(DOMAIN.length)]);
  const sized = Uint8Array.of(EXPANDED >> 8, EXPANDED & 0xff, 0);
  const first = hash('sha256', Buffer.concat([Buffer.alloc(BLOCK_BYTES), message, sized, domain]), 'buffer');
  const expanded = Buffer.alloc(EXPANDED);
  let mixed = Buffer.from(first);
  for (let at = 0; at < EXPANDED / DIGEST_BYTES; at++) {
    const digest = hash('sha256', Buffer.concat([mixed, Uint8Array.of(at + 1), domain]), 'buffer');
    digest.copy(expanded, at * DIGEST_BYTES);
    mixed = Buffer.from(first.map((byte, place) => byte ^ (digest[place] ?? 0)));
  }
  const numberOf = (from: number): bigint => BigInt(`0x${expanded.toString('hex', from, from + EXPANDED_BYTES)}`) % P;
  return [numberOf(0), numberOf(EXPANDED_BYTES)];
}

/** Puts the point of G1's curve that a number of the field is mapped to at `result`. */
function putPoint(result: Address, number: bigint): void {
  mapToCurveBeside(number);
  for (const [at, each] of powers.entries()) multiply(each, powers[at - 1] ?? unit, denominator);
  for (const name of ['xNumerator', 'xDenominator', 'yNumerator', 'yDenominator'] as const)
    evaluate(evaluated[name], isogeny[name]);
  // The denominator of x has a degree less than its numerator.
  multiply(evaluated.xDenominator, evaluated.xDenominator, denominator);
  multiply(evaluated.yNumerator, evaluated.yNumerator, y);
  multiply(result, evaluated.xNumerator, evaluated.yDenominator);
  multiply(result + Y, evaluated.yNumerator, evaluated.xDenominator);
  multiply(result + Z, evaluated.xDenominator, evaluated.yDenominator);
}

/** Puts a polynomial of numerator / denominator, times the denominator's power of its degree, at `result`. */
function evaluate(result: Address, coefficients: readonly Address[]): void {
  const degree = coefficients.length - 1;
  copy(result, coefficients[degree] ?? 0);
  for (let at = degree - 1; at >= 0; at--) {
    multiply(result, result, numerator);
    multiply(product, coefficients[at] ?? 0, powers[degree - 1 - at] ?? 0);
    add(result, result, product);
  }
}

/** Maps a number to a point: x as `numerator` / `denominator`, and `y` (RFC 9380, F.2). */
function mapToCurveBeside(number: bigint): void {
  put(u, number);
  multiply(tv1, u, u);
  multiply(tv1, nonSquare, tv1);
  multiply(tv2, tv1, tv1);
  add(tv2, tv2, tv1);
  add(tv3, tv2, unit);
  multiply(tv3, b, tv3);
  if (numberAt(tv2) === 0n) copy(tv4, nonSquare);
  else subtract(tv4, nothing, tv2);
  multiply(tv4, a, tv4);
  multiply(tv2, tv3, tv3);
  multiply(tv6, tv4, tv4);
  multiply(tv5, a, tv6);
  add(tv2, tv2, tv5);
  multiply(tv2, tv2, tv3);
  multiply(tv6, tv6, tv4);
  multiply(tv5, b, tv6);
  add(tv2, tv2, tv5);
  copy(denominator, tv4);
  if (putRoot(y, tv2, tv6)) copy(numerator, tv3);
  else {
    multiply(numerator, tv1, tv3);
    multiply(tv1, tv1, u);
    multiply(y, tv1, y);
  }
  if (numberAt(y) % 2n !== number % 2n) {
    subtract(y, nothing, y);
  }
}

/**
 * Puts the root of left / right at `result` and returns true; if that is no square, the root of it times the number
 * that is none, and returns false (RFC 9380, F.2.1.2).
 */
function putRoot(result: Address, left: Address, right: Address): boolean {
  multiply(square, right, right);
  multiply(v, left, right);
  multiply(square, square, v);
  power(root, square, ROOT);
  multiply(root, root, v);
  multiply(square, root, root);
  multiply(square, square, right);
  if (numberAt(square) === numberAt(left)) {
    copy(result, root);
    return true;
  }
  multiply(result, root, otherRoot);
  return false;
}
