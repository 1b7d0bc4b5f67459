/** Reads JSON that somebody has sent: a member is there, of its type and within its bounds, or the reason is thrown. */
import { messageOf, type ServerError } from '../../../kernel/index.ts';

/** Returns the error for what is wrong. */
type Refuse = (reason: string) => ServerError;

const NO_HEX = /[^0-9a-f]/;
const NATURAL = /^(?:0|[1-9]\d*)$/;
/** Digits of the largest number of 128 bits. */
const DIGITS_MAX = 39;

/** Returns the members of a JSON object in UTF-8. Throws what `refuse` returns. */
export function membersOf(utf8: Uint8Array, refuse: Refuse): JsonMembers {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(utf8));
  } catch (error) {
    throw refuse(`it is no JSON: ${messageOf(error)}`);
  }
  return new JsonMembers(value, '', refuse);
}

/** Members of an object. All methods throw what the function `refuse` returns. */
export class JsonMembers {
  readonly #object: Readonly<Record<string, unknown>>;
  readonly #path: string;
  readonly #refuse: Refuse;

  /** `path`: where the object stands, with a dot behind it. */
  constructor(value: unknown, path: string, refuse: Refuse) {
    this.#path = path;
    this.#refuse = refuse;
    if (!isObject(value)) throw refuse(`${path === '' ? 'it' : path.slice(0, -1)} is no object`);
    this.#object = value;
  }

  #value(name: string): unknown {
    return Object.hasOwn(this.#object, name) ? this.#object[name] : undefined;
  }

  #bad(name: string, expected: string): ServerError {
    return this.#refuse(`${this.#path}${name} is not ${expected}`);
  }

  /** True if the member is null, or is not there. */
  isNone(name: string): boolean {
    const value = this.#value(name);
    return value === undefined || value === null;
  }

  flag(name: string): boolean {
    const value = this.#value(name);
    if (typeof value !== 'boolean') throw this.#bad(name, 'true or false');
    return value;
  }

  /** Returns a number from 0 on, which may be a fraction. */
  number(name: string, max = Number.MAX_SAFE_INTEGER): number {
    const value = this.#value(name);
    if (typeof value !== 'number' || !(value >= 0 && value <= max)) throw this.#bad(name, `a number from 0 to ${max}`);
    return value;
  }

  whole(name: string, max = Number.MAX_SAFE_INTEGER): number {
    const value = this.#value(name);
    if (!Number.isInteger(value)) throw this.#bad(name, 'a whole number');
    return this.number(name, max);
  }

  /** Returns a number of bytes that is a multiple of another. */
  multiple(name: string, of: number, max: number): number {
    const value = this.whole(name, max);
    if (value % of !== 0) throw this.#bad(name, `a multiple of ${of}`);
    return value;
  }

  /** Returns a number that stands in a text, of at most so many bits. */
  natural(name: string, bits: 64 | 128): bigint {
    return this.#naturalOf(name, this.#value(name), bits);
  }

  naturals(name: string, bits: 64 | 128, countMax: number): readonly bigint[] {
    return this.list(name, countMax).map((value) => this.#naturalOf(name, value, bits));
  }

  #naturalOf(name: string, value: unknown, bits: 64 | 128): bigint {
    if (typeof value === 'string' && value.length <= DIGITS_MAX && NATURAL.test(value)) {
      const number = BigInt(value);
      if (number < 1n << BigInt(bits)) return number;
    }
    throw this.#bad(name, `a number of ${bits} bits in a text`);
  }

  text(name: string, charactersMax = Infinity): string {
    return this.#textOf(name, this.#value(name), charactersMax);
  }

  #textOf(name: string, value: unknown, charactersMax = Infinity): string {
    if (typeof value !== 'string' || value.length > charactersMax)
      throw this.#bad(name, charactersMax === Infinity ? 'a text' : `a text of at most ${charactersMax} characters`);
    return value;
  }

  among<Text extends string>(name: string, texts: readonly Text[]): Text {
    const value = this.#value(name);
    const found = texts.find((text) => text === value);
    if (found === undefined) throw this.#bad(name, `one of ${texts.join(', ')}`);
    return found;
  }

  /** Returns bytes that stand in a text, in hex. */
  bytes(name: string, lengthMax = Infinity, lengthMin = 0): Uint8Array {
    return this.#bytesOf(name, this.#value(name), lengthMax, lengthMin);
  }

  bytesList(name: string, countMax: number, lengthMax: number): readonly Uint8Array[] {
    return this.list(name, countMax).map((value) => this.#bytesOf(name, value, lengthMax, 0));
  }

  #bytesOf(name: string, value: unknown, lengthMax: number, lengthMin: number): Uint8Array {
    const length = typeof value === 'string' && !NO_HEX.test(value) ? value.length / 2 : NaN;
    if (typeof value !== 'string' || !Number.isInteger(length) || length < lengthMin || length > lengthMax)
      throw this.#bad(name, `${lengthMin} to ${lengthMax} bytes in hex`);
    return new Uint8Array(Buffer.from(value, 'hex'));
  }

  list(name: string, countMax: number): readonly unknown[] {
    const value = this.#value(name);
    if (!Array.isArray(value) || value.length > countMax) throw this.#bad(name, `a list of at most ${countMax}`);
    return value;
  }

  object(name: string): JsonMembers {
    return new JsonMembers(this.#value(name), `${this.#path}${name}.`, this.#refuse);
  }

  /** Returns the members of an object whose values are texts. */
  texts(name: string, countMax: number, charactersMax = Infinity): ReadonlyMap<string, string> {
    const value = this.#value(name);
    if (!isObject(value)) throw this.#bad(name, 'an object');
    const entries = Object.entries(value);
    if (entries.length > countMax) throw this.#bad(name, `an object of at most ${countMax} members`);
    return new Map(entries.map(([key, text]) => [key, this.#textOf(`${name}.${key}`, text, charactersMax)]));
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
