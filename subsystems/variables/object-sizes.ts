/**
 * Bytes that the objects of a value take in a heap, with everything that they point to. An object that several values
 * share counts for each. The work is bounded: what it does not come to is left out, and the size says so.
 *
 * Worker thread.
 */
import { type HeapReader, TAG, UnreadableHeap, WORD_BYTES } from './heap-reader.ts';

/** Words and objects that are looked at for one value. */
const LOOKS_MAX = 200_000;
const HEADER_WORDS = 2;

interface ValueSize {
  readonly bytes: number;
  /** False: there is more; or an object cannot be read. */
  readonly isComplete: boolean;
}

/** Measures a value. `mayGoOn` is asked now and then. */
export function sizeOfValue(heap: HeapReader, value: bigint, mayGoOn: () => boolean): ValueSize {
  const seen = new Set<number>();
  const waiting = [value];
  let bytes = 0;
  let looks = 0;
  try {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (!heap.isPointer(next)) continue;
      const object = heap.object(next);
      if (seen.has(object.at)) continue;
      seen.add(object.at);
      looks++;
      const { pointersFrom, pointersTo, words } = partsOf(heap, object);
      bytes += words * WORD_BYTES;
      for (let k = pointersFrom; k < pointersTo; k++) {
        if (++looks % 4096 === 0 && !mayGoOn()) return { bytes, isComplete: false };
        if (looks > LOOKS_MAX) return { bytes, isComplete: false };
        const part = heap.part(object, k);
        if (heap.isPointer(part)) waiting.push(part);
      }
      if (looks > LOOKS_MAX) return { bytes, isComplete: false };
    }
  } catch (error) {
    if (!(error instanceof UnreadableHeap)) throw error;
    return { bytes, isComplete: false };
  }
  return { bytes, isComplete: true };
}

interface Parts {
  /** Words of the whole object. */
  readonly words: number;
  /** Words behind the header that are values. */
  readonly pointersFrom: number;
  readonly pointersTo: number;
}

function partsOf(heap: HeapReader, object: ReturnType<HeapReader['object']>): Parts {
  switch (object.tag) {
    case TAG.ARRAY:
    case TAG.MUTABLE_ARRAY:
    case TAG.TUPLE:
    case TAG.FUNCTION: {
      const length = heap.lengthOf(object);
      return { words: HEADER_WORDS + 1 + length, pointersFrom: 1, pointersTo: 1 + length };
    }
    case TAG.OBJECT: {
      // All objects with the same fields share their blob of hashes.
      const { count } = heap.hashesOf(object);
      return { words: HEADER_WORDS + 1 + count, pointersFrom: 1, pointersTo: 1 + count };
    }
    case TAG.NAT64:
    case TAG.INT64:
    case TAG.FLOAT:
      return { words: HEADER_WORDS + 1, pointersFrom: 0, pointersTo: 0 };
    case TAG.BOX:
    case TAG.SOME:
    case TAG.WEAK:
      return { words: HEADER_WORDS + 1, pointersFrom: 0, pointersTo: 1 };
    case TAG.VARIANT:
      return { words: HEADER_WORDS + 2, pointersFrom: 1, pointersTo: 2 };
    case TAG.BLOB:
    case TAG.TEXT:
    case TAG.PRINCIPAL:
    case TAG.ACTOR:
      return {
        words: HEADER_WORDS + 1 + Math.ceil(heap.byteLengthOf(object) / WORD_BYTES),
        pointersFrom: 0,
        pointersTo: 0,
      };
    case TAG.BIG:
      return { words: HEADER_WORDS + 3 + Number(heap.part(object, 0) >> 32n), pointersFrom: 0, pointersTo: 0 };
    case TAG.ROPE:
      return { words: HEADER_WORDS + 3, pointersFrom: 1, pointersTo: 3 };
    case TAG.REGION:
      return { words: HEADER_WORDS + 3, pointersFrom: 2, pointersTo: 3 };
    default:
      throw new UnreadableHeap(`an object of kind ${object.tag} at ${object.at}`);
  }
}
