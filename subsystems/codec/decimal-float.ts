/** Smallest float32 with all its significant bits. */
const FLOAT32_NORMAL_MIN = 2 ** -126;
/** Exponent of the finest tie: half of the smallest float32. Every tie is a multiple of it. */
const FINEST_TIE = -150;
/** Bits of a double that a float32 does not have, and the value of them that is a tie. */
const LOST_BITS = (1 << 29) - 1;
const TIE = 1 << 28;

const BITS = new DataView(new ArrayBuffer(8));

/**
 * Converts a decimal number (digits, with or without sign, fraction and exponent) to the nearest float of `bytes`
 * bytes, of two equally near ones to the even one; infinite where it is too large. Rounds once: through a double,
 * `1.000000059604644775390625000001` would become 1 as a float32.
 */
export function decimalFloat(written: string, bytes: 4 | 8): number {
  const double = Number(written);
  if (bytes === 8) return double;
  const rounded = Math.fround(double);
  // Ties are doubles, so any other double lies on the same side of all ties as the number itself.
  if (rounded === double || !isTie(double)) return rounded;
  const order = compareSizes(written, double);
  if (order === 0) return rounded;
  BITS.setFloat64(0, double);
  // The neighbouring double, away from 0 or towards it, is no tie.
  BITS.setBigUint64(0, BITS.getBigUint64(0) + BigInt(order));
  return Math.fround(BITS.getFloat64(0));
}

/** Tells whether a double lies in the middle of two float32s, or of the largest one and what would follow it. */
function isTie(double: number): boolean {
  if (Math.abs(double) < FLOAT32_NORMAL_MIN) return Math.abs((double / 2 ** FINEST_TIE) % 2) === 1;
  BITS.setFloat64(0, double);
  return (BITS.getUint32(4) & LOST_BITS) === TIE;
}

/** Compares the size of a decimal number with that of a tie: -1, 0 or 1. Takes time linear in the text's length. */
function compareSizes(written: string, tie: number): -1 | 0 | 1 {
  const [mantissa = '', power = '0'] = written.replace(/^[+-]/, '').split(/[eE]/);
  const [whole = '', fraction = ''] = mantissa.split('.');
  const all = `${whole}${fraction}`;
  const zeros = all.search(/[1-9]|$/);
  // The decimal point stands so many digits behind the first one.
  const point = Number(power) + whole.length - zeros;
  const digits = all.slice(zeros);
  const places = -FINEST_TIE;
  const exact = (BigInt(Math.abs(tie) * 2 ** places) * 5n ** BigInt(places)).toString();
  const exactPoint = exact.length - places;
  if (point !== exactPoint) return point > exactPoint ? 1 : -1;
  const length = Math.max(digits.length, exact.length);
  const left = digits.padEnd(length, '0');
  const right = exact.padEnd(length, '0');
  return left === right ? 0 : left > right ? 1 : -1;
}
