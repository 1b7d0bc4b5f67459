/**
 * The texts of names that come again and again, such as those of methods, and their bytes. `TextDecoder` gives each
 * small array a buffer of its own in the C++ heap, which a helper thread has to collect afterwards: five times the cost
 * of a comparison.
 */

/** Slots, a power of two. A name that finds another one in its slot takes its place. */
const SLOTS = 256;
/** Longer names are decoded each time. */
const NAME_BYTES_MAX = 64;

interface Name {
  readonly bytes: Uint8Array;
  readonly text: string;
}

const encoder = new TextEncoder();
/** Bytes that are not UTF-8 become U+FFFD; a byte order mark is kept. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export class NameCache {
  readonly #byBytes: (Name | undefined)[] = new Array<undefined>(SLOTS).fill(undefined);
  readonly #byText: (Name | undefined)[] = new Array<undefined>(SLOTS).fill(undefined);

  /** Returns the text of `length` bytes of `source` from `from`, UTF-8; `source` may be shared memory. */
  textOf(source: Uint8Array, from: number, length: number): string {
    if (length > NAME_BYTES_MAX) return decoder.decode(source.slice(from, from + length));
    const first = source[from] ?? 0;
    const last = source[from + length - 1] ?? 0;
    const slot = slotOf(length, first, last);
    const known = this.#byBytes[slot];
    if (known !== undefined && isAt(known.bytes, source, from, length)) return known.text;
    const bytes = source.slice(from, from + length);
    const text = decoder.decode(bytes);
    this.#byBytes[slot] = { bytes, text };
    return text;
  }

  /** Returns the bytes of a text in UTF-8, which are not to be changed. */
  bytesOf(text: string): Uint8Array {
    const { length } = text;
    if (length > NAME_BYTES_MAX) return encoder.encode(text);
    const slot = slotOf(length, text.charCodeAt(0), text.charCodeAt(length - 1));
    const known = this.#byText[slot];
    if (known?.text === text) return known.bytes;
    const bytes = encoder.encode(text);
    this.#byText[slot] = { bytes, text };
    return bytes;
  }
}

function slotOf(length: number, first: number, last: number): number {
  return (length * 37 + first * 5 + last) & (SLOTS - 1);
}

function isAt(name: Uint8Array, source: Uint8Array, from: number, length: number): boolean {
  if (name.length !== length) return false;
  for (let at = 0; at < length; at++) if (name[at] !== source[from + at]) return false;
  return true;
}
