/**
 * Points of G1 of BLS12-381, y² = x³ + 4, in homogeneous coordinates, each at an address with its x, y and z side by
 * side. Formulas are the complete ones of Renes, Costello and Batina (2015, algorithms 7 and 9): no case apart,
 * whatever the points are.
 */
import { add, type Address, copy, digitsOf, multiply, numberAt, power, put, room, rooms, subtract } from './field.ts';
import { NUMBER_BYTES, P } from './field-module.ts';

const WINDOW = 16;
const WINDOW_BITS = 4;
/** Digits of a secret of 32 bytes. */
const DIGITS = 64;
const Y = NUMBER_BYTES;
const Z = 2 * NUMBER_BYTES;
const INVERTING = digitsOf(P - 2n);
/** Multiplier that takes a point of the curve into its subgroup (RFC 9380, 8.8.1). */
const COFACTOR = 0xd201000000010001n;
const COMPRESSED = 0x80;
const GREATER_Y = 0x20;
const COORDINATE_BYTES = 48;

const [t0, t1, t2, t3, t4, x3, y3, z3] = [room(), room(), room(), room(), room(), room(), room(), room()];

/** Returns room for a point, for good. */
export function pointRoom(): Address {
  const [x = 0] = rooms(3);
  return x;
}

/** Puts twelve times a number at `result`: thrice the curve's constant. */
function twelve(result: Address, number: Address): void {
  add(result, number, number);
  add(result, result, result);
  add(scratch, result, result);
  add(result, result, scratch);
}

/** Puts the sum of two points at `result`, which may be one of them. */
export function addPoints(result: Address, p: Address, q: Address): void {
  multiply(t0, p, q);
  multiply(t1, p + Y, q + Y);
  multiply(t2, p + Z, q + Z);
  add(t3, p, p + Y);
  add(t4, q, q + Y);
  multiply(t3, t3, t4);
  add(t4, t0, t1);
  subtract(t3, t3, t4);
  add(t4, p + Y, p + Z);
  add(x3, q + Y, q + Z);
  multiply(t4, t4, x3);
  add(x3, t1, t2);
  subtract(t4, t4, x3);
  add(x3, p, p + Z);
  add(y3, q, q + Z);
  multiply(x3, x3, y3);
  add(y3, t0, t2);
  subtract(y3, x3, y3);
  add(x3, t0, t0);
  add(t0, x3, t0);
  twelve(t2, t2);
  add(z3, t1, t2);
  subtract(t1, t1, t2);
  twelve(y3, y3);
  multiply(x3, t4, y3);
  multiply(t2, t3, t1);
  subtract(result, t2, x3);
  multiply(y3, y3, t0);
  multiply(t1, t1, z3);
  add(result + Y, t1, y3);
  multiply(t0, t0, t3);
  multiply(z3, z3, t4);
  add(result + Z, z3, t0);
}

/** Doubles a point. */
function double(p: Address): void {
  multiply(t0, p + Y, p + Y);
  add(z3, t0, t0);
  add(z3, z3, z3);
  add(z3, z3, z3);
  multiply(t1, p + Y, p + Z);
  multiply(t2, p + Z, p + Z);
  twelve(t2, t2);
  multiply(x3, t2, z3);
  add(y3, t0, t2);
  multiply(t4, p, p + Y);
  multiply(p + Z, t1, z3);
  add(t1, t2, t2);
  add(t2, t1, t2);
  subtract(t0, t0, t2);
  multiply(y3, t0, y3);
  add(p + Y, x3, y3);
  multiply(p, t0, t4);
  add(p, p, p);
}

/** Takes a point of the curve into its subgroup. */
export function clearCofactor(p: Address): void {
  copyPoint(base, p);
  for (const bit of COFACTOR.toString(2).slice(1)) {
    double(p);
    if (bit === '1') addPoints(p, p, base);
  }
}

/** Multiplies a point by a secret of 32 bytes. Which steps are done does not depend on the secret. */
export function multiplyPoint(p: Address, secret: Uint8Array): void {
  copyPoint(table[0] ?? 0, neutral);
  for (let at = 1; at < WINDOW; at++) addPoints(table[at] ?? 0, table[at - 1] ?? 0, p);
  copyPoint(p, neutral);
  for (let digit = 0; digit < DIGITS; digit++) {
    for (let bit = 0; bit < WINDOW_BITS; bit++) double(p);
    const byte = secret[digit >> 1] ?? 0;
    addPoints(p, p, table[digit % 2 === 0 ? byte >> WINDOW_BITS : byte % WINDOW] ?? 0);
  }
}

/** Returns a point that is not the neutral one, compressed: x, and which y it has. */
export function compressed(p: Address): Uint8Array {
  power(t0, p + Z, INVERTING);
  multiply(t1, p, t0);
  multiply(t2, p + Y, t0);
  const bytes = Buffer.from(
    numberAt(t1)
      .toString(16)
      .padStart(2 * COORDINATE_BYTES, '0'),
    'hex',
  );
  bytes[0] = (bytes[0] ?? 0) | COMPRESSED | (2n * numberAt(t2) > P ? GREATER_Y : 0);
  return new Uint8Array(bytes);
}

function copyPoint(to: Address, from: Address): void {
  for (const offset of [0, Y, Z]) copy(to + offset, from + offset);
}

const scratch = room();
const base = pointRoom();
const neutral = pointRoom();
put(neutral, 0n);
put(neutral + Y, 1n);
put(neutral + Z, 0n);
/** Multiples of a point, from none to fifteen times. */
const table = Array.from({ length: WINDOW }, pointRoom);
