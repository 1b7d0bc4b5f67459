/**
 * Reads the line before a chunk, byte by byte, because it may come so and has no bound but that of all bytes:
 *
 *     <hex digits> *( <blanks> ; <blanks> name [ <blanks> = <blanks> ( token | "quoted" ) ] ) <blanks> CR LF
 *
 * (RFC 9112, 7.1.1; blanks at its end are what older servers pad their lengths with). Only the length is kept.
 */
import { malformed } from './outcall-failures.ts';

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]$/;
/** Inside of quotes, without the quote and the backslash. */
const QUOTED = /^[\t\u0020-\u007e\u0080-\u00ff]$/;

/** Place in a line; `behind…`: blanks may follow. */
type Place =
  | 'length'
  | 'behindLength'
  | 'name'
  | 'inName'
  | 'behindName'
  | 'value'
  | 'inValue'
  | 'behindValue'
  | 'quoted'
  | 'escaped'
  | 'lineFeed';

const CR = 0x0d;
const LF = 0x0a;
/** Places at which a line may end. */
const MAY_END: ReadonlySet<Place> = new Set<Place>([
  'length',
  'behindLength',
  'inName',
  'behindName',
  'inValue',
  'behindValue',
]);

const LENGTH_WRONG = 'the length of a chunk is malformed';
const EXTENSION_WRONG = 'an extension of a chunk is malformed';
export const LINE_WRONG = 'a line does not end with CR LF';

export class ChunkLine {
  #place: Place = 'length';
  #digits = 0;
  #length = 0;
  isWhole = false;

  /** Reads a byte. Returns false for a blank or a part of an extension. Throws an Error where it may not stand. */
  add(byte: number): boolean {
    const digit = this.#place === 'length' ? digitOf(byte) : undefined;
    if (digit !== undefined) {
      this.#digits++;
      const length = this.#length * 16 + digit;
      this.#length = Number.isSafeInteger(length) ? length : Infinity;
      return true;
    }
    if (this.#place === 'lineFeed') {
      if (byte !== LF) throw malformed(LINE_WRONG);
      this.isWhole = true;
      return true;
    }
    if (this.#place === 'length' && this.#digits === 0) throw malformed(LENGTH_WRONG);
    const next = byte === CR && MAY_END.has(this.#place) ? 'lineFeed' : placeBehind(this.#place, byte);
    if (next === undefined) throw malformed(byte === LF ? LINE_WRONG : problemOf(this.#place));
    this.#place = next;
    return next === 'lineFeed';
  }

  /** Returns the length of the chunk, Infinity for what no number holds, and begins another line. */
  take(): number {
    const length = this.#length;
    this.#place = 'length';
    this.#digits = 0;
    this.#length = 0;
    this.isWhole = false;
    return length;
  }
}

/** Returns the value of a hex digit. */
function digitOf(byte: number): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const small = byte | 0x20;
  return small >= 0x61 && small <= 0x66 ? small - 0x61 + 10 : undefined;
}

/** Returns the place behind a character that ends no line; undefined: the character may not stand there. */
function placeBehind(place: Place, byte: number): Place | undefined {
  const character = String.fromCharCode(byte);
  const isBlank = character === ' ' || character === '\t';
  switch (place) {
    case 'quoted':
      if (character === '"') return 'behindValue';
      if (character === '\\') return 'escaped';
      return QUOTED.test(character) ? place : undefined;
    case 'escaped':
      return QUOTED.test(character) ? 'quoted' : undefined;
    case 'name':
      return isBlank ? place : TOKEN.test(character) ? 'inName' : undefined;
    case 'value':
      if (character === '"') return 'quoted';
      return isBlank ? place : TOKEN.test(character) ? 'inValue' : undefined;
    case 'inName':
    case 'behindName':
      if (character === '=') return 'value';
      if (place === 'inName' && TOKEN.test(character)) return place;
      return isBlank ? 'behindName' : nextOf(character);
    case 'inValue':
    case 'behindValue':
      if (place === 'inValue' && TOKEN.test(character)) return place;
      return isBlank ? 'behindValue' : nextOf(character);
    case 'length':
    case 'behindLength':
      return isBlank ? 'behindLength' : nextOf(character);
    case 'lineFeed':
      return undefined;
  }
}

/** Returns the place of another extension. */
function nextOf(character: string): Place | undefined {
  return character === ';' ? 'name' : undefined;
}

function problemOf(place: Place): string {
  return place === 'length' || place === 'behindLength' ? LENGTH_WRONG : EXTENSION_WRONG;
}
