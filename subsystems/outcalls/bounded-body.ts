import { OUTCALL_FAILURES } from './outcall-failures.ts';

/** A body's first room, when a second piece comes. */
const ROOM_BYTES_MIN = 64 * 1024;
const NOTHING: Uint8Array = new Uint8Array(0);

/**
 * A response's body as it comes, and never more of it than it may have. Pieces are copied together at once: a server that sends two
 * million bytes one by one would otherwise have two million buffers kept.
 */
export class BoundedBody {
  readonly #bytesMax: number;
  #room = NOTHING;
  #length = 0;

  /** `bytesMax`: `responseBytesMax` of the request. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Throws ServerError `outcall-too-large` where a body of so many bytes is too much: what `content-length` announces, too, which is believed for nothing else. */
  expect(bytes: number): void {
    if (bytes > this.#bytesMax)
      throw OUTCALL_FAILURES['outcall-too-large'](
        `the response has more than the ${this.#bytesMax} bytes of max_response_bytes`,
      );
  }

  /** Takes the next piece, which nobody writes to any more. Throws as `expect` does. */
  add(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    this.expect(length);
    if (this.#length === 0) this.#room = piece;
    else {
      // The first piece is the socket's own and has no room behind it.
      if (length > this.#room.length) this.#grow(length);
      this.#room.set(piece, this.#length);
    }
    this.#length = length;
  }

  /** What has come so far; a view of it, once all is there. */
  get bytes(): Uint8Array {
    return this.#length === this.#room.length ? this.#room : this.#room.subarray(0, this.#length);
  }

  #grow(length: number): void {
    const room = Math.min(this.#bytesMax, Math.max(ROOM_BYTES_MIN, 2 * length));
    const larger = new Uint8Array(Math.max(room, length));
    larger.set(this.#room.subarray(0, this.#length));
    this.#room = larger;
  }
}
