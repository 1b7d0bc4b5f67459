/** Texts of a heap: blobs of UTF-8, and ropes of them. Worker thread. */
import { type HeapReader, TAG, UnreadableHeap } from './heap-reader.ts';

/** Returns the number of bytes of a text. */
export function textLength(heap: HeapReader, value: bigint): number {
  const text = heap.object(value, TAG.TEXT, TAG.ROPE);
  if (text.tag === TAG.TEXT) return heap.byteLengthOf(text);
  const length = heap.part(text, 0);
  // Parts of a rope may lie in several ropes, so only the number itself is bounded.
  if (length > BigInt(Number.MAX_SAFE_INTEGER)) throw new UnreadableHeap(`the text at ${text.at} has ${length} bytes`);
  return Number(length);
}

/** Returns a copy of the bytes of a text from one offset to another. `pass` is told of each part, and may throw. */
export function textBytes(heap: HeapReader, value: bigint, from: number, to: number, pass: () => void): Uint8Array {
  const bytes = new Uint8Array(Math.max(0, to - from));
  const waiting = [value];
  let at = 0;
  for (let next = waiting.pop(); next !== undefined && at < to; next = waiting.pop()) {
    pass();
    const text = heap.object(next, TAG.TEXT, TAG.ROPE);
    if (text.tag === TAG.ROPE) {
      const length = textLength(heap, next);
      if (at + length <= from) at += length;
      else waiting.push(heap.part(text, 2), heap.part(text, 1));
      continue;
    }
    const length = heap.byteLengthOf(text);
    if (at + length > from) {
      const part = heap.bytesOf(text, Math.max(0, from - at), to - at);
      bytes.set(part, Math.max(0, at - from));
    }
    at += length;
  }
  if (at < to) throw new UnreadableHeap(`a text ends after ${at} bytes instead of ${to}`);
  return bytes;
}

/** Returns the beginning of the character that the byte at `at` belongs to. */
export function utf8Start(bytes: Uint8Array, at: number): number {
  let start = Math.min(at, bytes.length);
  while (start > 0 && start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start--;
  return start;
}
