import { ServerError } from '../../kernel/index.ts';

/** The longest principal, in bytes. */
export const PRINCIPAL_BYTES_MAX = 29;
/**
 * Longest text of a principal: 33 bytes with the checksum are 53 base32 characters in 11 groups, with 10 dashes between
 * them.
 */
export const PRINCIPAL_CHARACTERS_MAX = 63;

/** The principal of whoever does not say who it is. */
export const ANONYMOUS: Uint8Array = Uint8Array.of(4);

/**
 * The caller of a message of the anonymous principal that is nobody's controller, whatever an actor's controllers are:
 * that of a stranger at `/api`. A principal of the reserved class, so that nobody can have it. It goes with the message
 * wherever a caller goes, also into the state; actors and people see the anonymous principal (`shownCaller`).
 */
export const STRANGER: Uint8Array = Uint8Array.of(...Buffer.from('svc stranger'), 0x7f);

/**
 * As `STRANGER`, of a server that lets the anonymous principal create canisters: the controller of those that it
 * creates at `/api`, and of no others. Whoever sets the controllers of such a canister names it as the anonymous
 * principal.
 */
export const ANONYMOUS_CREATOR: Uint8Array = Uint8Array.of(...Buffer.from('svc creator'), 0x7f);

/** Returns true for the callers that stand for an anonymous sender at `/api`. */
export function isStranger(caller: Uint8Array): boolean {
  return isThat(caller, STRANGER) || isThat(caller, ANONYMOUS_CREATOR);
}

function isThat(caller: Uint8Array, other: Uint8Array): boolean {
  return caller.length === other.length && Buffer.compare(caller, other) === 0;
}

/** Returns the principal that actors and people see of a message's caller, or of a controller. */
export function shownCaller(caller: Uint8Array): Uint8Array {
  return isStranger(caller) ? ANONYMOUS : caller;
}

const ALPHABET = Buffer.from('abcdefghijklmnopqrstuvwxyz234567');
const GROUP_LENGTH = 5;
const CHECKSUM_BYTES = 4;
const DASH = 0x2d;
const INVALID = 255;

const DIGIT_OF = new Uint8Array(256).fill(INVALID);
for (const [digit, letter] of ALPHABET.entries()) {
  DIGIT_OF[letter] = digit;
  DIGIT_OF[String.fromCharCode(letter).toUpperCase().charCodeAt(0)] = digit;
}

/**
 * `?? 0` in this file: used for every byte of every id; the loops end with the text, and indices are masked to the
 * tables.
 */

/** CRC-32 of IEEE 802.3, one byte at a time; for so few bytes a call into zlib would cost more. */
const CRC_TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (-(crc & 1) & 0xedb8_8320);
  return crc;
});

/** Writes the text of the principal `source[start, end)` at `target[at]`; returns the text's end. */
export function writePrincipalText(
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  at: number,
): number {
  let crc = -1;
  for (let index = start; index < end; index++)
    crc = (crc >>> 8) ^ (CRC_TABLE[(crc ^ (source[index] ?? 0)) & 255] ?? 0);
  crc = ~crc;
  let to = at;
  let inGroup = 0;
  let pending = 0;
  let pendingBits = 0;
  for (let index = start - CHECKSUM_BYTES; index < end; index++) {
    const byte = index < start ? (crc >>> (8 * (start - index - 1))) & 255 : (source[index] ?? 0);
    pending = ((pending << 8) | byte) & 0xffff;
    pendingBits += 8;
    while (pendingBits >= 5 || (index === end - 1 && pendingBits > 0)) {
      if (pendingBits < 5) {
        pending <<= 5 - pendingBits;
        pendingBits = 5;
      }
      pendingBits -= 5;
      if (inGroup === GROUP_LENGTH) {
        target[to++] = DASH;
        inGroup = 0;
      }
      target[to++] = ALPHABET[(pending >>> pendingBits) & 31] ?? 0;
      inGroup++;
    }
  }
  return to;
}

/** Returns the text of a principal: base32 of checksum and bytes, in groups of five joined by dashes. */
export function principalToText(bytes: Uint8Array): string {
  // 8 bits become 5-bit characters, and a dash follows every fifth of those.
  const text = Buffer.allocUnsafe(Math.ceil(((bytes.length + CHECKSUM_BYTES) * 8 * 6) / 25) + 1);
  return text.toString('latin1', 0, writePrincipalText(bytes, 0, bytes.length, text, 0));
}

const decoded = new Uint8Array(PRINCIPAL_BYTES_MAX + CHECKSUM_BYTES);
const rewritten = new Uint8Array(PRINCIPAL_CHARACTERS_MAX + 1);

/**
 * Returns the bytes of the principal with the text `text[start, end)`, or undefined if it is not exactly one; letters
 * may have either case. The result is valid until the next call.
 */
export function readPrincipalText(text: Uint8Array, start: number, end: number): Uint8Array | undefined {
  if (end - start > PRINCIPAL_CHARACTERS_MAX) return undefined;
  let length = 0;
  let pending = 0;
  let pendingBits = 0;
  for (let index = start; index < end; index++) {
    const character = text[index] ?? 0;
    if (character === DASH) continue; // wrong grouping is found below, where the text is written again
    const digit = DIGIT_OF[character] ?? INVALID;
    if (digit === INVALID) return undefined;
    pending = ((pending << 5) | digit) & 0xffff;
    pendingBits += 5;
    if (pendingBits >= 8) {
      pendingBits -= 8;
      if (length === decoded.length) return undefined;
      decoded[length++] = (pending >>> pendingBits) & 255;
    }
  }
  if (length < CHECKSUM_BYTES) return undefined;
  // Writing the text again checks the checksum, the grouping and the unused low bits at once.
  if (writePrincipalText(decoded, CHECKSUM_BYTES, length, rewritten, 0) !== end - start) return undefined;
  for (let index = 0; index < end - start; index++) {
    const letter = text[start + index] ?? 0;
    if ((letter >= 0x41 && letter <= 0x5a ? letter | 0x20 : letter) !== rewritten[index]) return undefined;
  }
  return decoded.subarray(CHECKSUM_BYTES, length);
}

/** Returns the bytes of a principal's text, or undefined if it is not exactly one; letters may have either case. */
export function parsePrincipal(text: string): Uint8Array | undefined {
  if (text.length > PRINCIPAL_CHARACTERS_MAX) return undefined;
  const characters = Buffer.from(text, 'utf8');
  return readPrincipalText(characters, 0, characters.length)?.slice();
}

/** Returns the bytes of a principal's text; throws a ServerError `invalid` that names the text. */
export function principalFromText(text: string): Uint8Array {
  const bytes = parsePrincipal(text);
  if (bytes === undefined) {
    const shown = text.length > PRINCIPAL_CHARACTERS_MAX ? `${text.slice(0, PRINCIPAL_CHARACTERS_MAX)}…` : text;
    throw new ServerError(
      'invalid',
      'bad-principal',
      `${JSON.stringify(shown)} is not a principal: expected groups of five base32 characters with a matching checksum, such as aaaaa-aa`,
    );
  }
  return bytes;
}
