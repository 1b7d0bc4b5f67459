/** Compares memories page by page. Main thread: large ones in slices. */
import { TimeSlices } from '../../kernel/index.ts';
import { PAGE_BYTES } from '../bytes/index.ts';
import type { CanisterImage } from '../execution/index.ts';
import type { ReplayDifference } from './index.ts';

/** Bytes that are shown where memories begin to differ. */
const SHOWN_BYTES = 16;
const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);

type Image = Pick<CanisterImage, 'heap' | 'stable'>;
/** Pages by number; pages that are not there hold zeros. */
type Pages = ReadonlyMap<number, Buffer>;

interface ComparedMemory {
  /** Bytes that are others than before. */
  readonly changedBytes: number;
  /** The first place at which the memory is not the recorded one. */
  readonly difference: ReplayDifference | undefined;
}

/** Compares a memory with that before the message, and with the recorded one behind it. */
export async function compareMemory(
  memory: 'heap' | 'stable',
  before: Image,
  recorded: Image,
  played: Image,
): Promise<ComparedMemory> {
  const [earlier, was, is] = [pagesOf(memory, before), pagesOf(memory, recorded), pagesOf(memory, played)];
  const numbers = [...new Set([...earlier.keys(), ...was.keys(), ...is.keys()])].toSorted((a, b) => a - b);
  const slices = new TimeSlices();
  let changedBytes = 0;
  let difference: ReplayDifference | undefined;
  for (const number of numbers) {
    const page = is.get(number) ?? ZERO_PAGE;
    const recordedPage = was.get(number) ?? ZERO_PAGE;
    if (difference === undefined && !page.equals(recordedPage))
      difference = differenceAt(memory, number, recordedPage, page);
    const earlierPage = earlier.get(number) ?? ZERO_PAGE;
    if (!page.equals(earlierPage)) changedBytes += differing(earlierPage, page);
    if (slices.isOver) await slices.next();
  }
  return { changedBytes, difference };
}

function pagesOf(memory: 'heap' | 'stable', { heap, stable }: Image): Pages {
  const pages = new Map<number, Buffer>();
  for (const { offset, bytes } of memory === 'heap' ? [{ offset: 0, bytes: heap }] : stable)
    for (let at = 0; at < bytes.length; at += PAGE_BYTES)
      pages.set((offset + at) / PAGE_BYTES, Buffer.from(bytes.buffer, bytes.byteOffset + at, PAGE_BYTES));
  return pages;
}

function differenceAt(memory: string, number: number, was: Buffer, is: Buffer): ReplayDifference {
  const at = was.findIndex((byte, place) => byte !== is[place]);
  const shown = (page: Buffer): string => page.subarray(at, at + SHOWN_BYTES).toString('hex');
  return { what: `${memory} at byte ${number * PAGE_BYTES + at}`, was: shown(was), is: shown(is) };
}

function differing(a: Buffer, b: Buffer): number {
  let count = 0;
  for (let at = 0; at < PAGE_BYTES; at++) if (a[at] !== b[at]) count++;
  return count;
}
