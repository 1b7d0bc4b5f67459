/** Executor thread: how much of a canister's memory goes into one unit, in pages of 4 KiB. Tests have smaller ones. */
export interface PieceSizes {
  /** Up to so many pages a checkpoint, or what a change of code has made, is written at once, in place. */
  readonly atOncePages: number;
  /** More is written in pieces of so many, each of which one message may be held up by. */
  readonly slicePages: number;
}

/** 256 pages are copied in about a tenth of a millisecond; 2,048 are 8 MiB, for which others' commits wait some tens of milliseconds. */
export const PIECE_SIZES: PieceSizes = { atOncePages: 2048, slicePages: 256 };

/** A heap so many times as large as what is written at once goes ahead, whatever has to be copied with it. */
const IN_PLACE_FACTOR = 4;

export function inPlacePagesMax({ atOncePages }: PieceSizes): number {
  return IN_PLACE_FACTOR * atOncePages;
}
