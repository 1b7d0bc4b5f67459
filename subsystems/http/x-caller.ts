import { crc32 } from 'node:zlib';
import { ServerError } from '../../kernel/index.ts';

/** The principal of a request that claims none. */
export const ANONYMOUS: Uint8Array = Uint8Array.of(4);

/** Principals kept parsed. A host is called by few programs; each entry is below 200 bytes. */
const REMEMBERED_MAX = 4096;
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const CHECKSUM_BYTES = 4;
const PRINCIPAL_BYTES_MAX = 29;
const TEXT_LENGTH_MAX = 63;
const GROUP_LENGTH = 5;

/** Reads `x-caller` headers: a claim, not authenticated, but it must be a principal. */
export class CallerClaims {
  readonly #remembered = new Map<string, Uint8Array>();

  /** The caller that a header claims; anonymous without one. Throws ServerError `invalid`. */
  callerOf(header: string | string[] | undefined): Uint8Array {
    if (header === undefined) return ANONYMOUS;
    const text = String(header);
    const known = this.#remembered.get(text);
    if (known !== undefined) return known;
    const principal = parsePrincipal(text);
    if (principal === undefined) {
      throw new ServerError(
        'invalid',
        'bad-caller',
        `header x-caller: ${JSON.stringify(text.slice(0, TEXT_LENGTH_MAX + 1))} is not a principal; expected one like 2vxsx-fae`,
      );
    }
    if (this.#remembered.size >= REMEMBERED_MAX) this.#remembered.clear();
    this.#remembered.set(text, principal);
    return principal;
  }
}

/** Bytes of a textual principal; undefined unless it is exactly the text that those bytes have. */
function parsePrincipal(text: string): Uint8Array | undefined {
  if (text.length > TEXT_LENGTH_MAX) return undefined;
  const bytes: number[] = [];
  let bits = 0;
  let pending = 0;
  for (let at = 0; at < text.length; at++) {
    const isDash = text[at] === '-';
    if (isDash !== (at % (GROUP_LENGTH + 1) === GROUP_LENGTH)) return undefined;
    if (isDash) continue;
    const value = ALPHABET.indexOf(text[at] ?? '?');
    if (value < 0) return undefined;
    pending = (pending << 5) | value;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push((pending >> bits) & 0xff);
    pending &= (1 << bits) - 1;
  }
  // What is left over must be padding: fewer bits than a digit, all zero; and no dash may end the text.
  if (bits >= 5 || pending !== 0 || text.endsWith('-')) return undefined;
  if (bytes.length < CHECKSUM_BYTES || bytes.length > CHECKSUM_BYTES + PRINCIPAL_BYTES_MAX) return undefined;
  const principal = Uint8Array.from(bytes.slice(CHECKSUM_BYTES));
  const checksum = crc32(principal);
  const isIntact = bytes
    .slice(0, CHECKSUM_BYTES)
    .every((byte, index) => byte === ((checksum >>> (24 - 8 * index)) & 0xff));
  return isIntact ? principal : undefined;
}
