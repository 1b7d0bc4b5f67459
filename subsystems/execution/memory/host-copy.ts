/**
 * Work of a system call that copies bytes: what is left when the call returns is done in pieces (`CONTROL.REST`).
 * Executor thread, within a message.
 */
import { BULK_PIECE_BYTES, ROOM } from '../../instrument/abi/index.ts';

export interface HostCopy {
  readonly size: number;
  /** Copies `length` bytes. */
  readonly copy: (from: number, length: number) => void;
  /** Looks for the memory that such a piece needs; false: yield, and ask again. Throws HostTrap. */
  readonly hasRoom: (from: number, length: number) => boolean;
  from: number;
}

/** Copies the next piece; returns ROOM's GRANTED behind the last one, else LATER. */
export function copyPiece(copying: HostCopy): number {
  const { copy, hasRoom, size, from } = copying;
  const length = Math.min(BULK_PIECE_BYTES, size - from);
  if (!hasRoom(from, length)) return ROOM.LATER;
  copy(from, length);
  copying.from += length;
  return copying.from === size ? ROOM.GRANTED : ROOM.LATER;
}
