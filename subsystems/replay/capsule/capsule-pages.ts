/**
 * Pages of a memory in bytes: u32 count · u32 number of each, growing · the pages, 4 KiB each. Pages that are not there
 * hold what they held before, and zeros at first.
 */
import type { ServerError } from '../../../kernel/index.ts';
import { TimeSlices } from '../../../kernel/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { PastMessage, PastPages } from '../../timeline/index.ts';
import { piecesOf } from '../compared-memory.ts';
import { PageReader } from '../page-reader.ts';

type Memory = 'heap' | 'stable';
/** Pages by number; the bytes are not copied. */
export type PageMap = Map<number, Uint8Array>;

/** Pages that are compared before anybody looks at the time. */
const PAGES_A_LOOK = 64;
/** Pages of a section: 8 MiB, which are put together in 2 ms. */
const PAGES_A_SECTION = 2_048;
const NO_PAGES: PastPages = { numbers: new Uint32Array(0), bytes: new Uint8Array(0) };

export function pagesBytes({ numbers, bytes }: PastPages): Buffer {
  const head = Buffer.alloc(4 + numbers.length * 4);
  head.writeUInt32LE(numbers.length);
  for (const [at, number] of numbers.entries()) head.writeUInt32LE(number, 4 + at * 4);
  return Buffer.concat([head, bytes]);
}

/** Returns the pages of a memory of that size. Throws what `refuse` returns. */
export function readPages(bytes: Buffer, memoryBytes: number, refuse: (reason: string) => ServerError): PastPages {
  const count = bytes.length < 4 ? 0 : bytes.readUInt32LE();
  const begin = 4 + count * 4;
  if (bytes.length !== begin + count * PAGE_BYTES)
    throw refuse(`it has ${bytes.length} bytes, and ${count} pages have others`);
  const numbers = new Uint32Array(count);
  let last = -1;
  for (let at = 0; at < count; at++) {
    const number = bytes.readUInt32LE(4 + at * 4);
    if (number <= last) throw refuse(`page ${number} stands behind page ${last}`);
    if ((number + 1) * PAGE_BYTES > memoryBytes) throw refuse(`page ${number} lies beyond ${memoryBytes} bytes`);
    numbers[at] = last = number;
  }
  return { numbers, bytes: bytes.subarray(begin) };
}

/** Yields the pages in parts that are sections. */
export function* partsOf({ numbers, bytes }: PastPages): Generator<PastPages> {
  for (let at = 0; at < numbers.length; at += PAGES_A_SECTION) {
    const part = numbers.subarray(at, at + PAGES_A_SECTION);
    yield { numbers: part, bytes: bytes.subarray(at * PAGE_BYTES, (at + part.length) * PAGE_BYTES) };
  }
}

/**
 * Yields the pages that a message found otherwise than the message before it had left them, in parts that are sections;
 * without one before it, all that hold anything but zeros.
 */
export async function* pagesFound(
  memory: Memory,
  earlier: PastMessage | undefined,
  { before }: PastMessage,
): AsyncGenerator<PastPages> {
  const found = PageReader.ofPieces(piecesOf(memory, before.image));
  const changed = PageReader.ofPages(earlier?.after.changed[memory] ?? NO_PAGES);
  const kept = earlier === undefined || earlier.after.isNew ? [] : piecesOf(memory, earlier.before.image);
  const old = PageReader.ofPieces(kept);
  const left = (earlier?.after[`${memory}Bytes`] ?? 0) / PAGE_BYTES;
  const slices = new TimeSlices();
  let part: { readonly number: number; readonly page: Buffer }[] = [];
  const nextFrom = (number: number): number =>
    Math.min(found.nextFrom(number), changed.nextFrom(number), old.nextFrom(number));
  for (let number = nextFrom(0), looked = 0; number < Infinity; number = nextFrom(number + 1)) {
    found.seek(number);
    old.seek(number);
    const was = changed.seek(number) || number >= left ? changed : old;
    // Pages beyond the memory are not there for whoever reads this.
    if (number * PAGE_BYTES < before[`${memory}Bytes`] && !found.equals(was)) part.push({ number, page: found.page });
    if (part.length === PAGES_A_SECTION) {
      yield pagesOf(part);
      part = [];
    }
    if (++looked % PAGES_A_LOOK === 0 && slices.isOver) await slices.next();
  }
  if (part.length > 0) yield pagesOf(part);
}

function pagesOf(part: readonly { readonly number: number; readonly page: Buffer }[]): PastPages {
  const numbers = Uint32Array.from(part, ({ number }) => number);
  return { numbers, bytes: Buffer.concat(part.map(({ page }) => page)) };
}

/** Puts pages into a map. Those beyond `memoryBytes` are dropped. */
export function putPages(map: PageMap, { numbers, bytes }: PastPages, memoryBytes: number): void {
  for (const number of map.keys()) if (number * PAGE_BYTES >= memoryBytes) map.delete(number);
  for (const [at, number] of numbers.entries()) map.set(number, bytes.subarray(at * PAGE_BYTES, (at + 1) * PAGE_BYTES));
}
