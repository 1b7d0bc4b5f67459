/**
 * CBOR from outside, as clients of the Internet Computer send it: unsigned integers, bytes, text, arrays, maps with
 * text as keys, the self-describing tag and big numbers; all lengths definite. Everything else is refused with the
 * byte at which it stands. The work is bounded by the quotas, whatever the bytes claim.
 */
import { isUtf8 } from 'node:buffer';
import { ServerError } from '../../kernel/index.ts';

/** A decoded value. Byte strings are views of what was decoded. */
export type CborValue = bigint | string | Uint8Array | readonly CborValue[] | CborMap;
export type CborMap = ReadonlyMap<string, CborValue>;

/** Quotas of one decoding. */
interface CborQuotas {
  /** Values, keys included. */
  readonly itemsMax: number;
  /** Arrays, maps and tags inside each other. */
  readonly depthMax: number;
}

const QUOTAS: CborQuotas = { itemsMax: 25_000, depthMax: 16 };
/** Bytes of all texts together, keys included: no request has so many. */
const TEXT_BYTES_MAX = 256 * 1024;
/** Keys of all maps together: 20 delegations have some 150. */
const KEYS_MAX = 1000;
const BIG_NUMBER_BYTES_MAX = 32;
const SELF_DESCRIBED = 55_799;
const BIG_NUMBER = 2;
const ONE_BYTE = 24;
const EIGHT_BYTES = 27;

/** Decodes one value, which must be all there is. Throws ServerError `cbor-bad`. */
export function decodeCbor(bytes: Uint8Array, quotas: CborQuotas = QUOTAS): CborValue {
  return new Reader(bytes, quotas).whole();
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;
  #itemsLeft: number;
  #depthLeft: number;
  #textBytesLeft = TEXT_BYTES_MAX;
  #keysLeft = KEYS_MAX;

  constructor(bytes: Uint8Array, { itemsMax, depthMax }: CborQuotas) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#itemsLeft = itemsMax;
    this.#depthLeft = depthMax;
  }

  whole(): CborValue {
    const value = this.#value();
    if (this.#at < this.#bytes.length) throw this.#bad(`${this.#bytes.length - this.#at} bytes follow the value`);
    return value;
  }

  #value(): CborValue {
    if (this.#itemsLeft-- === 0) throw this.#bad('there are too many values');
    const initial = this.#byte();
    const major = initial >>> 5;
    const argument = this.#argument(initial & 31);
    switch (major) {
      case 0:
        return BigInt(argument);
      case 2:
        return this.#take(argument);
      case 3:
        return this.#text(argument);
      case 4:
      case 5:
      case 6:
        return this.#nested(major, argument);
      default:
        throw this.#bad(major === 1 ? 'negative numbers are not taken' : 'floats and simple values are not taken');
    }
  }

  #nested(major: 4 | 5 | 6, argument: number | bigint): CborValue {
    if (this.#depthLeft-- === 0) throw this.#bad('the values are nested too deeply');
    const value =
      major === 4 ? this.#array(argument) : major === 5 ? this.#map(argument) : this.#tagged(BigInt(argument));
    this.#depthLeft++;
    return value;
  }

  #array(count: number | bigint): readonly CborValue[] {
    const length = this.#count(count);
    const values: CborValue[] = [];
    for (let index = 0; index < length; index++) values.push(this.#value());
    return values;
  }

  #map(count: number | bigint): CborMap {
    const length = this.#count(count);
    if (length > this.#keysLeft) throw this.#bad(`the maps have more than ${KEYS_MAX} keys`);
    this.#keysLeft -= length;
    const map = new Map<string, CborValue>();
    for (let index = 0; index < length; index++) {
      const key = this.#value();
      if (typeof key !== 'string') throw this.#bad('a key of a map is not text');
      if (map.has(key)) throw this.#bad(`the key ${JSON.stringify(key.slice(0, 40))} is there twice`);
      map.set(key, this.#value());
    }
    return map;
  }

  #tagged(tag: bigint): CborValue {
    if (tag === BigInt(SELF_DESCRIBED)) return this.#value();
    if (tag !== BigInt(BIG_NUMBER)) throw this.#bad(`the tag ${tag} is not taken`);
    const bytes = this.#value();
    if (!(bytes instanceof Uint8Array)) throw this.#bad('a big number is not made of bytes');
    if (bytes.length > BIG_NUMBER_BYTES_MAX)
      throw this.#bad(`a number has ${bytes.length} of at most ${BIG_NUMBER_BYTES_MAX} bytes`);
    return bytes.length === 0 ? 0n : BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
  }

  #text(length: number | bigint): string {
    const bytes = this.#take(length);
    if (bytes.length > this.#textBytesLeft) throw this.#bad(`the texts have more than ${TEXT_BYTES_MAX} bytes`);
    this.#textBytesLeft -= bytes.length;
    if (!isUtf8(bytes)) throw this.#bad('a text is not UTF-8');
    return bytes.toString('utf8');
  }

  /** Each of so many values has at least one byte. */
  #count(count: number | bigint): number {
    const left = this.#bytes.length - this.#at;
    if (count > left) throw this.#bad(`${count} values are announced, and ${left} bytes are there`);
    return Number(count);
  }

  #take(length: number | bigint): Buffer {
    const left = this.#bytes.length - this.#at;
    if (length > left) throw this.#bad(`${length} bytes are announced, and ${left} are there`);
    const start = this.#at;
    this.#at += Number(length);
    return this.#bytes.subarray(start, this.#at);
  }

  #byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw this.#bad('the bytes end inside a value');
    this.#at++;
    return byte;
  }

  /** The number behind an initial byte: in it, or in the 1, 2, 4 or 8 bytes that follow. */
  #argument(information: number): number | bigint {
    if (information < ONE_BYTE) return information;
    if (information > EIGHT_BYTES) throw this.#bad('indefinite lengths are not taken');
    const bytes = this.#take(1 << (information - ONE_BYTE));
    return bytes.length === 8 ? bytes.readBigUInt64BE() : bytes.readUIntBE(0, bytes.length);
  }

  #bad(what: string): ServerError {
    return new ServerError('invalid', 'cbor-bad', `the body is not the CBOR of a request: at byte ${this.#at} ${what}`);
  }
}
