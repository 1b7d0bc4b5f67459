/** Checks principals as text, before anything is sent. */

const LETTERS = 'abcdefghijklmnopqrstuvwxyz234567';
const PRINCIPAL_BYTES_MAX = 29;
const CHECKSUM_BYTES = 4;
const WRONG_SUM = 'the checksum of this principal is wrong: is a letter missing, or another?';

/** Returns what is wrong with the text of a principal; undefined: nothing. */
export function principalProblem(text: string): string | undefined {
  const letters = text.replaceAll('-', '');
  if (!/^[a-z2-7]+$/.test(letters)) return 'expected a principal: a to z, 2 to 7 and dashes';
  const bytes = bytesOf(letters);
  if (bytes === undefined) return WRONG_SUM;
  const [checksum, rest] = [bytes.slice(0, CHECKSUM_BYTES), bytes.slice(CHECKSUM_BYTES)];
  if (bytes.length < CHECKSUM_BYTES || rest.length > PRINCIPAL_BYTES_MAX)
    return 'expected a principal: it has 0 to 29 bytes';
  const sum = crc32(rest);
  if (checksum.some((byte, index) => byte !== ((sum >>> (24 - 8 * index)) & 0xff))) {
    return WRONG_SUM;
  }
  if (text !== (letters.match(/.{1,5}/g) ?? []).join('-')) return 'expected a dash behind every fifth letter';
  return undefined;
}

/** Returns undefined if bits are left over that are not zero. */
function bytesOf(letters: string): readonly number[] | undefined {
  const bytes: number[] = [];
  let [bits, value] = [0, 0];
  for (const letter of letters) {
    value = ((value << 5) | LETTERS.indexOf(letter)) & 0xfff;
    bits += 5;
    if (bits >= 8) bytes.push((value >>> (bits -= 8)) & 0xff);
  }
  return (value & ((1 << bits) - 1)) === 0 ? bytes : undefined;
}

function crc32(bytes: readonly number[]): number {
  let sum = 0xffff_ffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb8_8320 : 0);
  }
  return ~sum >>> 0;
}
