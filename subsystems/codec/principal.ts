import { crc32 } from 'node:zlib';
import { ServerError } from '../../kernel/index.ts';

/** The longest principal, in bytes; its text has 63 characters. */
export const PRINCIPAL_BYTES_MAX = 29;

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const GROUP_LENGTH = 5;
const CHECKSUM_BYTES = 4;
/** 33 bytes are 53 base32 characters in 11 groups. */
const TEXT_LENGTH_MAX = 63;

const DIGIT_OF = new Uint8Array(256).fill(255);
for (const [digit, letter] of Array.from(ALPHABET).entries()) {
  DIGIT_OF[letter.charCodeAt(0)] = digit;
  DIGIT_OF[letter.toUpperCase().charCodeAt(0)] = digit;
}

/** The text of a principal: base32 of checksum and bytes, in groups of five joined by dashes. */
export function principalToText(bytes: Uint8Array): string {
  const checksum = crc32(bytes);
  let text = '';
  let characters = 0;
  let pending = 0;
  let pendingBits = 0;
  for (let index = -CHECKSUM_BYTES; index < bytes.length; index++) {
    const byte = index < 0 ? (checksum >>> (-8 * index - 8)) & 255 : (bytes[index] ?? 0);
    pending = ((pending << 8) | byte) & 0xffff;
    pendingBits += 8;
    while (pendingBits >= 5) {
      pendingBits -= 5;
      if (characters > 0 && characters % GROUP_LENGTH === 0) text += '-';
      text += ALPHABET.charAt((pending >>> pendingBits) & 31);
      characters++;
    }
  }
  if (pendingBits > 0) {
    if (characters % GROUP_LENGTH === 0) text += '-';
    text += ALPHABET.charAt((pending << (5 - pendingBits)) & 31);
  }
  return text;
}

/** The bytes of a principal's text, or undefined when it is not exactly one; letters may be of either case. */
export function parsePrincipal(text: string): Uint8Array | undefined {
  if (text.length > TEXT_LENGTH_MAX) return undefined;
  const decoded: number[] = [];
  let pending = 0;
  let pendingBits = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === 0x2d) continue; // odd grouping is found below, where the text is written again
    const digit = code < 256 ? (DIGIT_OF[code] ?? 255) : 255;
    if (digit === 255) return undefined;
    pending = ((pending << 5) | digit) & 0xffff;
    pendingBits += 5;
    if (pendingBits >= 8) {
      pendingBits -= 8;
      decoded.push((pending >>> pendingBits) & 255);
    }
  }
  if (decoded.length < CHECKSUM_BYTES || decoded.length > PRINCIPAL_BYTES_MAX + CHECKSUM_BYTES) return undefined;
  const bytes = Uint8Array.from(decoded.slice(CHECKSUM_BYTES));
  // Writing it again checks the checksum, the grouping and the unused low bits in one go.
  return principalToText(bytes) === text.toLowerCase() ? bytes : undefined;
}

/** The bytes of a principal's text; throws a ServerError `invalid` that names the text. */
export function principalFromText(text: string): Uint8Array {
  const bytes = parsePrincipal(text);
  if (bytes === undefined) {
    const shown = text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text;
    throw new ServerError(
      'invalid',
      'bad-principal',
      `${JSON.stringify(shown)} is not a principal: expected groups of five base32 characters with a matching checksum, such as aaaaa-aa`,
    );
  }
  return bytes;
}
