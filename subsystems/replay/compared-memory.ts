/** Compares memories page by page. Main thread: large ones in slices. */
import { TimeSlices } from '../../kernel/index.ts';
import { PAGE_BYTES } from '../bytes/index.ts';
import type { CanisterImage } from '../execution/index.ts';
import type { StateBehind } from '../timeline/index.ts';
import type { ReplayDifference } from './index.ts';
import { PageReader } from './page-reader.ts';

/** Bytes that are shown where memories begin to differ. */
const SHOWN_BYTES = 16;
/** Pages that are compared before anybody looks at the time: some 30 µs. */
const PAGES_A_LOOK = 64;

type Memory = 'heap' | 'stable';
type Image = Pick<CanisterImage, Memory>;

interface ComparedMemory {
  /** Bytes that are others than before. */
  readonly changedBytes: number;
  /** The first place at which the memory is not the recorded one. */
  readonly difference: ReplayDifference | undefined;
}

/** Compares a memory with that before the message, and with the recorded one behind it. */
export async function compareMemory(
  memory: Memory,
  before: Image,
  { changed, isNew }: Pick<StateBehind, 'changed' | 'isNew'>,
  played: Image,
): Promise<ComparedMemory> {
  const earlier = PageReader.ofPieces(piecesOf(memory, before));
  const is = PageReader.ofPieces(piecesOf(memory, played));
  const recorded = PageReader.ofPages(changed[memory]);
  const slices = new TimeSlices();
  let changedBytes = 0;
  let difference: ReplayDifference | undefined;
  const nextFrom = (number: number): number =>
    Math.min(earlier.nextFrom(number), recorded.nextFrom(number), is.nextFrom(number));
  for (let number = nextFrom(0), looked = 0; number < Infinity; number = nextFrom(number + 1)) {
    const isRecorded = recorded.seek(number);
    earlier.seek(number);
    is.seek(number);
    const isAsBefore = is.equals(earlier);
    if (!isAsBefore) changedBytes += is.differing(earlier);
    // Pages that are not there hold zeros.
    const was = isRecorded || isNew ? recorded : earlier;
    const isAsRecorded = was === earlier ? isAsBefore : is.equals(was);
    if (!isAsRecorded) difference ??= differenceAt(memory, number, was.page, is.page);
    if (++looked % PAGES_A_LOOK === 0 && slices.isOver) await slices.next();
  }
  return { changedBytes, difference };
}

/** Returns a memory as pieces of it. */
export function piecesOf(memory: Memory, { heap, stable }: Image): CanisterImage['stable'] {
  return memory === 'heap' ? [{ offset: 0, bytes: heap }] : stable;
}

function differenceAt(memory: string, number: number, was: Buffer, is: Buffer): ReplayDifference {
  const at = was.findIndex((byte, place) => byte !== is[place]);
  const shown = (page: Buffer): string => page.subarray(at, at + SHOWN_BYTES).toString('hex');
  return { what: `${memory} at byte ${number * PAGE_BYTES + at}`, was: shown(was), is: shown(is) };
}
