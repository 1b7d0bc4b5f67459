/** Significant bits, and the exponent of the smallest nonzero number. */
const FORMATS = { 4: [24, -149], 8: [53, -1074] } as const;
/** Limit on exponents: beyond it every number is 0 or infinite. */
const EXPONENT_MAX = 2 ** 40;

/**
 * Converts a hexadecimal number of Candid text, without sign and `_`, to the nearest float of `bytes` bytes, of two
 * equally near ones to the even one. `0x1.8p3` is 1.5 times 2 to the third. Rounds once: through a double, some numbers
 * would become another float.
 */
export function hexFloat(written: string, bytes: 4 | 8): number {
  const [digits = '', power = '0'] = written.slice(2).split(/[pP]/);
  const [whole = '', fraction = ''] = digits.split('.');
  const mantissa = BigInt(`0x${whole}${fraction}`);
  if (mantissa === 0n) return 0;
  const exponent = Math.max(-EXPONENT_MAX, Math.min(EXPONENT_MAX, Number(power))) - 4 * fraction.length;
  const [significant, least] = FORMATS[bytes];
  const bits = bitLength(mantissa);
  if (exponent + bits > 1100) return Number.POSITIVE_INFINITY;
  if (exponent + bits < least) return 0;
  // Exponent of the last bit that is kept.
  const last = Math.max(exponent + bits - significant, least);
  const kept = last <= exponent ? mantissa << BigInt(exponent - last) : roundedShift(mantissa, BigInt(last - exponent));
  return Number(kept) * 2 ** last;
}

function bitLength(number: bigint): number {
  const hex = number.toString(16);
  return 4 * (hex.length - 1) + Number.parseInt(hex.charAt(0), 16).toString(2).length;
}

/** Divides by 2 to the power of `by`, which is at least 1, and rounds. */
function roundedShift(number: bigint, by: bigint): bigint {
  const half = 1n << (by - 1n);
  const rest = number & ((half << 1n) - 1n);
  const kept = number >> by;
  return rest > half || (rest === half && (kept & 1n) === 1n) ? kept + 1n : kept;
}
