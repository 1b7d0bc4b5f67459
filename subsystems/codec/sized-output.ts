/**
 * The output of a message whose size is known before it is written: one buffer of that size, written once from
 * beginning to end. ByteWriter is for output of unknown size; here nothing grows and nothing is copied.
 */
import { copyBytes } from './byte-writer.ts';

/**
 * Texts up to this length are written by a loop, which is faster than a call of the engine's function and notices
 * characters that are not ASCII on the way.
 */
export const LOOP_CHARACTERS_MAX = 32;

export class SizedOutput {
  readonly bytes: Buffer;
  position: number;

  /** `bytes` has exactly the size of `head` and of the value after it. */
  constructor(bytes: Buffer, head: Uint8Array) {
    this.bytes = bytes;
    copyBytes(head, 0, head.length, bytes, 0);
    this.position = head.length;
  }

  writeLeb(value: number): void {
    let rest = value;
    while (rest > 127) {
      this.bytes[this.position++] = (rest & 127) | 128;
      rest = rest > 0xffff_ffff ? Math.floor(rest / 128) : rest >>> 7;
    }
    this.bytes[this.position++] = rest;
  }

  writeBytes(source: Uint8Array): void {
    copyBytes(source, 0, source.length, this.bytes, this.position);
    this.position += source.length;
  }
}

/** Returns the number of bytes of a LEB128. */
export function lebSize(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size++;
  return size;
}
