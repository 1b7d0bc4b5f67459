/**
 * The least that the step log must have, kept where the log is not: in the tables. Without it a log that lost its
 * newest segments, or all of them, looks like one that ended earlier.
 *
 * A segment is named here after its header is durable, and before anything is written behind that header; it is given
 * up here before it is freed. So whatever a crash interrupts, the segment that is named exists. `durable` is updated
 * now and then (a newest segment that is an older copy of itself has less), never ahead of what is on disk.
 */
import { corrupt } from './step-log-format.ts';
import type { StoredSegment } from './step-log-reader.ts';

export interface LogFloor {
  /** The newest segment in use, or one that was. */
  readonly generation: number;
  /** A unit that was durable by then. */
  readonly durable: number;
}

const FLOOR_BYTES = 16;

/** u64 generation · u64 durable, big-endian */
export function encodeFloor({ generation, durable }: LogFloor): Uint8Array {
  const bytes = Buffer.alloc(FLOOR_BYTES);
  bytes.writeBigUInt64BE(BigInt(generation), 0);
  bytes.writeBigUInt64BE(BigInt(durable), 8);
  return bytes;
}

/** Throws ServerError `state-corrupt`. */
export function decodeFloor(value: Uint8Array): LogFloor {
  if (value.length !== FLOOR_BYTES) {
    throw corrupt(`what the tables know of it has ${value.length} bytes instead of ${FLOOR_BYTES}; restore a backup`);
  }
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.length);
  return { generation: Number(bytes.readBigUInt64BE(0)), durable: Number(bytes.readBigUInt64BE(8)) };
}

/** Throws ServerError `state-corrupt` if `newest`, the newest segment that is there, is too old. */
export function checkNewest({ generation }: LogFloor, newest: StoredSegment | undefined): void {
  if (newest !== undefined && newest.header.generation >= generation) return;
  const found =
    newest === undefined
      ? 'no segment that is in use is there'
      : `the newest one that is there is ${newest.slot.name}, segment ${newest.header.generation}`;
  throw corrupt(`segment ${generation} of the log is missing, ${found}; put the file back, or restore a backup`);
}

/** Throws ServerError `state-corrupt` if log and tables together end with a unit before one that was durable. */
export function checkLast({ durable }: LogFloor, last: number, newest: StoredSegment | undefined): void {
  if (last >= durable) return;
  const where =
    newest === undefined ? '' : `; ${newest.slot.name} is an older copy of itself, or its end was wiped out`;
  throw corrupt(`it ends with unit ${last}, and unit ${durable} had been written durably${where}; restore a backup`);
}
