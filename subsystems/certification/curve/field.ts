/**
 * The prime field of BLS12-381 with numbers in a memory of its own, each at an address. See `field-module.ts` for the
 * bounds of what is added and subtracted.
 */
import { fieldModule, LIMB_BITS, LIMBS, limbsOf, NUMBER_BYTES, P } from './field-module.ts';

/** Address of a number. */
export type Address = number;
type Operation = (result: Address, left: Address, right: Address) => void;

interface FieldExports {
  readonly memory: WebAssembly.Memory;
  readonly multiply: Operation;
  readonly add: Operation;
  readonly subtract: Operation;
}

const RADIX = 1n << BigInt(LIMB_BITS * LIMBS);
const WINDOW_BITS = 4;
const WINDOW = 1 << WINDOW_BITS;

const exports = new WebAssembly.Instance(new WebAssembly.Module(fieldModule())).exports as unknown as FieldExports;
export const { multiply, add, subtract } = exports;
const words = new Int32Array(exports.memory.buffer);
let used = 0;

/** Returns room for a number, for good. */
export function room(): Address {
  const address = used;
  used += NUMBER_BYTES;
  if (used > words.byteLength) throw new Error('the memory of the field is full');
  return address;
}

export function rooms(count: number): readonly Address[] {
  return Array.from({ length: count }, room);
}

/** Returns the address of a number that stays. */
export function constant(value: bigint): Address {
  const address = room();
  put(address, value);
  return address;
}

/** Writes a number. */
export function put(address: Address, value: bigint): void {
  words.set(limbsOf((value * RADIX) % P), address >> 2);
}

/** Returns the number at the address, below the prime. */
export function numberAt(address: Address): bigint {
  multiply(plain, address, one);
  let value = 0n;
  for (let at = LIMBS - 1; at >= 0; at--) value = (value << BigInt(LIMB_BITS)) | BigInt(words[(plain >> 2) + at] ?? 0);
  return value % P;
}

export function copy(to: Address, from: Address): void {
  words.copyWithin(to >> 2, from >> 2, (from + NUMBER_BYTES) >> 2);
}

/** Puts a power of the base, whose exponent is public, at `result`, which is another address. */
export function power(result: Address, base: Address, exponent: readonly number[]): void {
  for (const [at, each] of powers.entries()) multiply(each, powers[at - 1] ?? unit, base);
  copy(result, unit);
  for (const digit of exponent) {
    for (let bit = 0; bit < WINDOW_BITS; bit++) multiply(result, result, result);
    if (digit > 0) multiply(result, result, powers[digit - 1] ?? 0);
  }
}

/** Returns the digits of an exponent, four bits each, the highest first. */
export function digitsOf(exponent: bigint): readonly number[] {
  return Array.from(exponent.toString(WINDOW), (digit) => Number.parseInt(digit, WINDOW));
}

const plain = room();
/** The number 1 as its limbs are, by which a multiplication takes a number out of Montgomery form. */
const one = room();
words[one >> 2] = 1;
const unit = constant(1n);
/** The first to the fifteenth power of a base. */
const powers = rooms(WINDOW - 1);
