/**
 * Brings files that are no text to the compiler. The compiler's `saveFile` takes JavaScript strings, and encodes them
 * with the `TextEncoder` of its context; bytes that are not UTF-8 have no such string. So the context gets an encoder
 * that knows some strings, which stand for bytes.
 */
export class ExactEncoder extends TextEncoder {
  static readonly #bytes = new Map<string, Uint8Array>();
  static #count = 0;

  /** A text that is encoded as these bytes until `forgetAll`; no source is this text. */
  static textFor(bytes: Uint8Array): string {
    // The compiler encodes texts that are not ASCII alone.
    const text = `\u{10fffe}${ExactEncoder.#count++}`;
    ExactEncoder.#bytes.set(text, bytes);
    return text;
  }

  static forgetAll(): void {
    ExactEncoder.#bytes.clear();
  }

  override encode(text = ''): Uint8Array<ArrayBuffer> {
    const bytes = ExactEncoder.#bytes.get(text);
    return bytes === undefined ? super.encode(text) : new Uint8Array(bytes);
  }
}
