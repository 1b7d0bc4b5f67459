/**
 * Bytes of a piece. A long ASCII text is built as pieces of bytes: each addition is encoded at once, so that no step
 * takes long.
 */
const PIECE_BYTES = 64 * 1024;

export class TextPieces {
  readonly #pieces: Uint8Array[] = [];
  #open = Buffer.alloc(0);
  #at = 0;

  add(text: string): void {
    if (this.#at + text.length > this.#open.length) {
      this.#end();
      this.#open = Buffer.allocUnsafe(Math.max(PIECE_BYTES, text.length));
    }
    this.#at += this.#open.write(text, this.#at, 'latin1');
  }

  /** Returns all pieces; nothing may be added afterwards. */
  end(): readonly Uint8Array[] {
    this.#end();
    return this.#pieces;
  }

  #end(): void {
    if (this.#at > 0) this.#pieces.push(this.#open.subarray(0, this.#at));
    this.#at = 0;
  }
}
