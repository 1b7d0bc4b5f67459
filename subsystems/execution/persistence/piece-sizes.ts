/**
 * Executor thread: amounts of a canister's memory that go into one unit, in pages of 4 KiB. Tests have smaller ones.
 */
import { PAGE_BYTES } from '../../bytes/index.ts';

export interface PieceSizes {
  /** The most pages of a checkpoint, or of a change of code, that are written at once, in place. */
  readonly atOncePages: number;
  /** Pages of one piece if there are more; each piece may hold up one message. */
  readonly slicePages: number;
}

/**
 * 256 pages are copied in about a tenth of a millisecond; 2,048 are 8 MiB, for which others' commits wait some tens of
 * milliseconds.
 */
export const PIECE_SIZES: PieceSizes = { atOncePages: 2048, slicePages: 256 };

/** Share of a piece that payloads of one message may have together without being stored ahead: 128 KiB. */
const PAYLOAD_SHARE = 8;

export function payloadBytesMax({ slicePages }: PieceSizes): number {
  return (slicePages * PAGE_BYTES) / PAYLOAD_SHARE;
}

/** A heap this many times as large as `atOncePages` is stored ahead, whatever has to be copied with it. */
const IN_PLACE_FACTOR = 4;

export function inPlacePagesMax({ atOncePages }: PieceSizes): number {
  return IN_PLACE_FACTOR * atOncePages;
}

/**
 * A message that has changed this many times as many pages as `atOncePages` is stored by what it depended on, whatever
 * its canister's size. Twice, since its unit has only the bytes that changed: a collection of garbage in a heap of some
 * megabytes is stored by these as a rule.
 */
const CHANGED_FACTOR = 2;

export function changedPagesMax({ atOncePages }: PieceSizes): number {
  return CHANGED_FACTOR * atOncePages;
}
