/** Largest possible balance: the system API passes cycles as 128-bit numbers. */
export const CYCLES_MAX = 2n ** 128n - 1n;

const DECIMAL = /^(?:0|[1-9][0-9]*)$/u;
const NUMBER = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/u;
const DIGITS_MAX = 39;

/** Parses a non-negative decimal string (`"5000000000000"`). */
export function readDecimalString(text: string): bigint | undefined {
  return text.length <= DIGITS_MAX && DECIMAL.test(text) ? BigInt(text) : undefined;
}

/**
 * Parses a JSON number that is exactly a whole number in any notation (`5e12`, `5.0`); returns undefined for any other.
 */
export function readWholeNumber(text: string): bigint | undefined {
  const [, sign = '', whole = '', fraction = '', exponentText = '0'] = NUMBER.exec(text) ?? [];
  const digits = whole + fraction.replace(/0+$/u, '');
  if (digits === '' || digits.length > 1000) return undefined;
  if (/^0*$/u.test(digits)) return 0n;
  const shift = Number(exponentText) - fraction.replace(/0+$/u, '').length;
  if (sign === '-' || shift > DIGITS_MAX) return undefined;
  if (shift >= 0) return BigInt(digits) * 10n ** BigInt(shift);
  const kept = digits.slice(0, shift);
  return /^0*$/u.test(digits.slice(shift)) && kept !== '' ? BigInt(kept) : undefined;
}
