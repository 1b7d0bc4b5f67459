import { OUTCALL_FAILURES } from './outcall-failures.ts';
import { NO_BYTES } from '../bytes/index.ts';

/** Smallest buffer, allocated when a second piece comes. */
const ROOM_BYTES_MIN = 64 * 1024;

/**
 * A response's body as it arrives, up to its limit. Pieces are copied together at once: a server that sends two million
 * bytes one by one would otherwise fill memory with two million buffers.
 */
export class BoundedBody {
  readonly #bytesMax: number;
  #room: Uint8Array = NO_BYTES;
  #length = 0;

  /** `bytesMax` is `responseBytesMax` of the request. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Throws ServerError `outcall-too-large` if a body of this many bytes is too large. Used for `content-length`, too,
   * which is trusted for nothing else.
   */
  expect(bytes: number): void {
    if (bytes > this.#bytesMax)
      throw OUTCALL_FAILURES['outcall-too-large'](
        `the response has more than the ${this.#bytesMax} bytes of max_response_bytes`,
      );
  }

  /** Adds the next piece, which must not be written to any more. Throws like `expect`. */
  add(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    this.expect(length);
    if (this.#length === 0) this.#room = piece;
    else {
      // The first piece is the socket's own buffer, without room behind it.
      if (length > this.#room.length) this.#grow(length);
      this.#room.set(piece, this.#length);
    }
    this.#length = length;
  }

  get length(): number {
    return this.#length;
  }

  /** Returns the bytes so far; a view of the buffer once all have arrived. */
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
