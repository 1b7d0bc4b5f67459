/**
 * Keys of WebAuthn authenticators: COSE keys in DER, OID 1.3.6.1.4.1.56387.1.1. A map of small integers to integers and
 * bytes, read by a parser that takes nothing else: definite lengths, no key twice, nothing behind it.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';

/** Signature algorithms of authenticators, by their COSE numbers. */
const ES256 = -7;
const EDDSA = -8;
const RS256 = -257;
const LABEL = { kind: 1, algorithm: 3 } as const;
const OID = Buffer.from('060a2b0601040183b8430101', 'hex');
const SEQUENCE = 0x30;
const BIT_STRING = 0x03;
const DER_BYTES_MAX = 2048;
const ENTRIES_MAX = 8;
/** An RSA modulus of 2,048 to 4,096 bits. */
const MODULUS_BYTES = { min: 256, max: 512 } as const;
const COORDINATE_BYTES = 32;
const EXPONENT_BYTES_MAX = 4;

interface CoseKey {
  readonly key: KeyObject;
  /** Hash that the algorithm begins with; null: none. */
  readonly hash: 'sha256' | null;
}

type CoseMap = ReadonlyMap<number, number | Buffer>;

/** Returns the COSE key that the DER wraps; undefined: it wraps none that an authenticator signs with. */
export function coseKeyOf(der: Uint8Array): CoseKey | undefined {
  const wrapped = der.length > DER_BYTES_MAX ? undefined : bitsOf(der, OID);
  const map = wrapped === undefined ? undefined : new CoseReader(wrapped).map();
  const jwk = map === undefined ? undefined : jwkOf(map);
  if (map === undefined || jwk === undefined) return undefined;
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' });
    return { key, hash: map.get(LABEL.algorithm) === EDDSA ? null : 'sha256' };
  } catch {
    // A point that is not on the curve.
    return undefined;
  }
}

/** Returns the bits of a SubjectPublicKeyInfo of that OID, itself DER; undefined: the bytes are none. */
export function bitsOf(bytes: Uint8Array, oid: Buffer): Buffer | undefined {
  const der = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const info = contentOf(der, 0, SEQUENCE);
  if (info === undefined || info.end !== der.length) return undefined;
  const algorithm = contentOf(der, info.start, SEQUENCE);
  if (algorithm === undefined || !der.subarray(algorithm.start, algorithm.end).equals(oid)) return undefined;
  const bits = contentOf(der, algorithm.end, BIT_STRING);
  if (bits === undefined || bits.end !== der.length || der[bits.start] !== 0) return undefined;
  return der.subarray(bits.start + 1, bits.end);
}

/** Returns where the content of a DER value begins and ends; undefined: no such value is there in its shortest form. */
function contentOf(der: Buffer, at: number, tag: number): { readonly start: number; readonly end: number } | undefined {
  const first = der[at + 1];
  if (der[at] !== tag || first === undefined) return undefined;
  const lengthBytes = first < 0x80 ? 0 : first - 0x80;
  if (lengthBytes > 2 || first === 0x80 || at + 2 + lengthBytes > der.length) return undefined;
  const length = lengthBytes === 0 ? first : der.readUIntBE(at + 2, lengthBytes);
  const isShortest = lengthBytes === 0 || length >= (lengthBytes === 1 ? 0x80 : 0x100);
  const start = at + 2 + lengthBytes;
  return isShortest && start + length <= der.length ? { start, end: start + length } : undefined;
}

function jwkOf(map: CoseMap): Readonly<Record<string, string>> | undefined {
  const bytes = (label: number, min: number, max = min): string | undefined => {
    const value = map.get(label);
    return Buffer.isBuffer(value) && value.length >= min && value.length <= max
      ? value.toString('base64url')
      : undefined;
  };
  const kind = map.get(LABEL.kind);
  switch (map.get(LABEL.algorithm)) {
    case ES256: {
      const [x, y] = [bytes(-2, COORDINATE_BYTES), bytes(-3, COORDINATE_BYTES)];
      return kind === 2 && map.get(-1) === 1 && x !== undefined && y !== undefined
        ? { kty: 'EC', crv: 'P-256', x, y }
        : undefined;
    }
    case EDDSA: {
      const x = bytes(-2, COORDINATE_BYTES);
      return kind === 1 && map.get(-1) === 6 && x !== undefined ? { kty: 'OKP', crv: 'Ed25519', x } : undefined;
    }
    case RS256: {
      const [n, e] = [bytes(-1, MODULUS_BYTES.min, MODULUS_BYTES.max), bytes(-2, 1, EXPONENT_BYTES_MAX)];
      return kind === 3 && n !== undefined && e !== undefined ? { kty: 'RSA', n, e } : undefined;
    }
    default:
      return undefined;
  }
}

/** Reads one map; what is no such map ends in undefined. */
class CoseReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  map(): CoseMap | undefined {
    const head = this.#head();
    if (head?.major !== 5 || head.value > ENTRIES_MAX) return undefined;
    const map = new Map<number, number | Buffer>();
    for (let index = 0; index < head.value; index++) {
      const [label, value] = [this.#value(), this.#value()];
      if (typeof label !== 'number' || value === undefined || map.has(label)) return undefined;
      map.set(label, value);
    }
    return this.#at === this.#bytes.length ? map : undefined;
  }

  #value(): number | Buffer | undefined {
    const head = this.#head();
    if (head?.major === 0) return head.value;
    if (head?.major === 1) return -1 - head.value;
    if (head?.major !== 2 || this.#at + head.value > this.#bytes.length) return undefined;
    const start = this.#at;
    this.#at += head.value;
    return this.#bytes.subarray(start, this.#at);
  }

  #head(): { readonly major: number; readonly value: number } | undefined {
    const initial = this.#bytes[this.#at];
    if (initial === undefined) return undefined;
    const [major, information] = [initial >>> 5, initial & 31];
    const more = information < 24 ? 0 : information - 23;
    if (more > 2 || this.#at + 1 + more > this.#bytes.length) return undefined;
    const value = more === 0 ? information : this.#bytes.readUIntBE(this.#at + 1, more);
    this.#at += 1 + more;
    return { major, value };
  }
}
