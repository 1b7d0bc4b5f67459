/** Compares memories piece by piece. Main thread: large ones in slices. */
import { TimeSlices } from '../../kernel/index.ts';
import { PAGE_BYTES } from '../bytes/index.ts';
import type { CanisterImage } from '../execution/index.ts';
import { WASM_PAGE_BYTES } from '../ic/index.ts';
import type { ReplayDifference } from './index.ts';

/** Bytes that are shown where memories begin to differ. */
const SHOWN_BYTES = 16;
/** Sizes of pieces: heaps are whole pages of WebAssembly, stable memory is kept by smaller ones. */
const PIECE_BYTES = { heap: WASM_PAGE_BYTES, stable: PAGE_BYTES } as const;

type Memory = keyof typeof PIECE_BYTES;
type Image = Pick<CanisterImage, 'heap' | 'stable'>;
/** Pieces by number; those that are not there hold zeros. */
type Pieces = ReadonlyMap<number, Buffer>;

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
  recorded: Image,
  played: Image,
): Promise<ComparedMemory> {
  const bytes = PIECE_BYTES[memory];
  const zeros = Buffer.alloc(bytes);
  const [earlier, was, is] = [piecesOf(memory, before), piecesOf(memory, recorded), piecesOf(memory, played)];
  const numbers = [...new Set([...earlier.keys(), ...was.keys(), ...is.keys()])].toSorted((a, b) => a - b);
  const slices = new TimeSlices();
  let changedBytes = 0;
  let difference: ReplayDifference | undefined;
  for (const number of numbers) {
    const piece = is.get(number) ?? zeros;
    const recordedPiece = was.get(number) ?? zeros;
    if (difference === undefined && !piece.equals(recordedPiece))
      difference = differenceIn(memory, number * bytes, recordedPiece, piece);
    const earlierPiece = earlier.get(number) ?? zeros;
    if (!piece.equals(earlierPiece)) changedBytes += differing(earlierPiece, piece);
    if (slices.isOver) await slices.next();
  }
  return { changedBytes, difference };
}

function piecesOf(memory: Memory, { heap, stable }: Image): Pieces {
  const size = PIECE_BYTES[memory];
  const pieces = new Map<number, Buffer>();
  for (const { offset, bytes } of memory === 'heap' ? [{ offset: 0, bytes: heap }] : stable)
    for (let at = 0; at < bytes.length; at += size)
      pieces.set((offset + at) / size, Buffer.from(bytes.buffer, bytes.byteOffset + at, size));
  return pieces;
}

function differenceIn(memory: Memory, offset: number, was: Buffer, is: Buffer): ReplayDifference {
  const at = was.findIndex((byte, place) => byte !== is[place]);
  const shown = (piece: Buffer): string => piece.subarray(at, at + SHOWN_BYTES).toString('hex');
  return { what: `${memory} at byte ${offset + at}`, was: shown(was), is: shown(is) };
}

function differing(a: Buffer, b: Buffer): number {
  let count = 0;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) count++;
  return count;
}
