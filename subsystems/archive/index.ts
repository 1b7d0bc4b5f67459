import { defineCapability } from '../../kernel/index.ts';

export { forgetIdentity } from './identity.ts';
export { frameHeader, FRAME_BYTES, readFrame, SEGMENT_BYTES, segmentHeader } from './segment-format.ts';
export { ArchiveLine, type BaseEntry, findLine, readLines, readMarker } from './lines.ts';
export { pointText, type Point } from './point.ts';
export { type ArchivedUnit, UnitReader } from './unit-reader.ts';
export { momentText, type Moment } from './moment.ts';

/** Units that were taken from a storage, encoded as frames of a segment (`segment-format.ts`). */
export interface TakenUnits {
  /** Frames, one after the other; each piece owns its buffer. */
  readonly frames: readonly Uint8Array[];
  readonly bytes: number;
  readonly first: number;
  readonly last: number;
  /** Times of the first and the last unit, in milliseconds since 1970; 0 if it is not known. */
  readonly firstMs: number;
  readonly lastMs: number;
}

/** Answer to a request for units. */
export interface TakeAnswer {
  /** Undefined: there are none. */
  readonly units: TakenUnits | undefined;
  /** True once after units were dropped, because too many waited: those that come now are behind a gap. */
  readonly isBehindGap: boolean;
}

/** A backup on its way out, which begins a line or ends a gap in it. */
export interface BaseStream {
  /** The newest unit in it. */
  readonly unit: number;
  /** Time of that unit in milliseconds since 1970; 0 if it is not known. */
  readonly timeMs: number;
  readonly pieces: AsyncIterable<Uint8Array>;
}

/** Who takes units of a storage; each taker has units of its own, and goes at its own pace. */
export type UnitTaker = 'archive' | 'timeline';

/**
 * Durable units of a storage, for one taker: each is handed out once, in order, beginning with those that the start
 * found in the step log.
 */
export interface UnitSource {
  /** Format of the state that the units change. */
  readonly stateFormat: number;
  /** The newest durable unit. */
  readonly durable: number;
  /** Absolute path of the state directory. */
  readonly directory: string;
  /** Takes the oldest segment; units up to `archived` are in the archive, and the log may give them up. */
  take(archived: number): Promise<TakeAnswer>;
  /** Begins a backup of all units that are durable now, and perhaps some more. */
  base(): Promise<BaseStream>;
  /** Has `waiting` called when a whole segment waits to be taken. */
  onWaiting(waiting: () => void): void;
  /** Has `closing` called after the last unit, before the storage closes; it is awaited. */
  onClosing(closing: () => Promise<void>): void;
}
export const UnitSource = defineCapability<UnitSource>('unit-source');

/** The archive of a server (`--archive`). */
export interface Archive {
  /** Name of the line that is written. */
  readonly line: string;
}
export const Archive = defineCapability<Archive>('archive');
