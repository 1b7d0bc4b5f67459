/**
 * Sizes of payloads: mostly a few bytes, sometimes about a threshold of the code: below it, at it and above it. The
 * thresholds are the code's own.
 *
 * A seed takes its large ones in order from a list of all classes, and each seed begins at another place: so a range of
 * seeds draws every class, however rare large ones are.
 */
import { BUFFER_BYTES_MAX } from '../../../subsystems/canisters/debug-buffer.ts';
import { LARGE_BODY_BYTES } from '../../../subsystems/codec/faults.ts';
import { payloadBytesMax, PIECE_SIZES } from '../../../subsystems/execution/persistence/piece-sizes.ts';
import { CHUNK_BYTES } from '../../../subsystems/bytes/page-patch.ts';
import { DEBUG_BYTES_MAX, DEBUG_LINE_BYTES_MAX } from '../../../subsystems/execution/engine/system-api/debug-output.ts';
import { QUERY_REPLY_BYTES_MAX, REPLY_BYTES_MAX } from '../../../subsystems/execution/engine/system-api/responding.ts';
import { INLINE_BYTES_MAX, RING_BYTES } from '../../../subsystems/execution/wire/ring-bytes.ts';
import { ROW_BYTES } from '../../../subsystems/scheduler/idempotency/answer-rows.ts';
import { SLICE_CHANGES } from '../../../subsystems/storage/overlay.ts';
import { PAGE_BYTES } from '../../../subsystems/bytes/index.ts';
import type { Seeded } from '../../support/seeded.ts';
import * as storageWire from '../../../subsystems/storage/storage-wire.ts';

/** Uses of payloads: `shown` is the reply of a query, `answer` and `reject` are responses between actors. */
const USES = ['argument', 'reply', 'shown', 'call', 'answer', 'reject', 'heap', 'stable', 'debug'] as const;
export type Use = (typeof USES)[number];

/** Bound of payloads, up to a few bytes. */
export const PAYLOAD_BYTES_MAX = Math.max(storageWire.RING_BYTES, QUERY_REPLY_BYTES_MAX);
/** Number of pages that one actor changes, more than a checkpoint writes at once. */
export const SPREAD_PAGES = PIECE_SIZES.atOncePages + PIECE_SIZES.slicePages;

type Threshold = readonly [name: string, bytes: number];

const INLINE: Threshold = ["the executors' ring, inline", INLINE_BYTES_MAX];
const UNIT: Threshold = ["the storage thread's ring, inline", storageWire.INLINE_BYTES_MAX];
const OFFLOADED: Threshold = ['another thread for the codec', LARGE_BODY_BYTES];
const EXECUTORS_RING: Threshold = ["the executors' ring", RING_BYTES];
const STORAGE_RING: Threshold = ["the storage thread's ring", storageWire.RING_BYTES];
const REPLY: Threshold = ['a reply', REPLY_BYTES_MAX];
const QUERY_REPLY: Threshold = ["a query's reply", QUERY_REPLY_BYTES_MAX];
const ROW: Threshold = ['a row of kept answers', ROW_BYTES];
const CHUNK: Threshold = ['page entries at once', CHUNK_BYTES];
const PIECE: Threshold = ['a piece of a checkpoint', PIECE_SIZES.slicePages * PAGE_BYTES];
const SLICE: Threshold = ['a slice for the tables', SLICE_CHANGES * PAGE_BYTES];
/** Threshold whose bytes depend on the seed. */
const SEGMENT: Threshold = ['a segment of the step log', 0];

const PAYLOAD: Threshold = ['payloads that are stored ahead', payloadBytesMax(PIECE_SIZES)];

const MESSAGE = [SEGMENT, INLINE, UNIT, EXECUTORS_RING];

const THRESHOLDS: Readonly<Record<Use, readonly Threshold[]>> = {
  argument: [...MESSAGE, PAYLOAD, OFFLOADED, REPLY, STORAGE_RING],
  reply: [...MESSAGE, OFFLOADED, REPLY, ROW],
  shown: [INLINE, OFFLOADED, EXECUTORS_RING, REPLY, QUERY_REPLY],
  call: [...MESSAGE, PAYLOAD, REPLY],
  answer: [...MESSAGE, PAYLOAD, REPLY],
  reject: [...MESSAGE, PAYLOAD, REPLY],
  heap: [SEGMENT, CHUNK, PIECE, SLICE, STORAGE_RING],
  stable: [SEGMENT, CHUNK, PIECE, SLICE, STORAGE_RING],
  debug: [
    ['a line', DEBUG_LINE_BYTES_MAX],
    ["a message's lines", DEBUG_BYTES_MAX],
    ["an actor's lines", BUFFER_BYTES_MAX],
  ],
};

/**
 * Bytes around a payload: a payload of the threshold's size exceeds it with them, one that is smaller by this does not.
 */
const FRAME_BYTES_MAX = 512;
const SIDES = ['below', 'at', 'above'] as const;
const SMALL_BYTES_MAX = 300;

interface LargeClass {
  readonly use: Use;
  readonly threshold: Threshold;
  readonly side: (typeof SIDES)[number];
}

const LARGE: readonly LargeClass[] = SIDES.flatMap((side) =>
  USES.flatMap((use) => THRESHOLDS[use].map((threshold) => ({ use, threshold, side }))),
);
/** Number of classes that a seed takes before all others; the next seed begins that much further in the list. */
const SHARE = 3;
/** After that, one payload in this many is large. */
const LARGE_ONE_IN = 6;

const nameOf = ({ use, threshold: [name], side }: LargeClass): string => `${use} ${side} ${name}`;

/**
 * Uses with small payloads. Memory is not among them: writing it behind everything else would make every heap large.
 */
const SMALL_USES = [
  'argument',
  'reply',
  'shown',
  'call',
  'answer',
  'reject',
  'debug',
] as const satisfies readonly Use[];

/** Names of all classes. */
export const SIZE_CLASSES: readonly string[] = [
  ...SMALL_USES.flatMap((use) => [`${use} empty`, `${use} small`]),
  ...LARGE.map(nameOf),
];

/** Number of draws of each class. */
export type SizeCounts = Readonly<Record<string, number>>;

export interface LargePayload {
  readonly use: Use;
  readonly bytes: number;
}

export class PayloadSizes {
  readonly #seeded: Seeded;
  readonly #segmentBytes: number;
  readonly #counts = new Map<string, number>();
  #next: number;
  #taken = 0;

  constructor(seed: number, seeded: Seeded, { segmentBytes }: { readonly segmentBytes: number }) {
    this.#seeded = seeded;
    this.#segmentBytes = segmentBytes;
    this.#next = (seed * SHARE) % LARGE.length;
  }

  /** Returns true if the next message is to have a large payload. */
  isLargeDue(): boolean {
    return this.#taken < SHARE || this.#seeded.oneIn(LARGE_ONE_IN);
  }

  /** Returns the next large payload; the same one again until it is taken. */
  large(): LargePayload {
    const { use, threshold, side } = this.#wanted;
    const [, bytes] = threshold;
    return { use, bytes: (threshold === SEGMENT ? this.#segmentBytes : bytes) + this.#offset(side) };
  }

  /** Takes the payload that `large` returned last: a message carries it. */
  taken(): void {
    this.#count(nameOf(this.#wanted));
    this.#next = (this.#next + 1) % LARGE.length;
    this.#taken++;
  }

  get #wanted(): LargeClass {
    const wanted = LARGE[this.#next];
    if (wanted === undefined) throw new RangeError(`there is no class ${this.#next}`);
    return wanted;
  }

  #offset(side: LargeClass['side']): number {
    const offset = this.#seeded.below(FRAME_BYTES_MAX);
    if (side === 'at') return -offset;
    return side === 'below' ? -FRAME_BYTES_MAX - offset : 1 + offset;
  }

  /** Draws a size of a few bytes, or 0. */
  small(use: (typeof SMALL_USES)[number]): number {
    const bytes = this.#seeded.oneIn(2) ? 0 : this.#seeded.below(SMALL_BYTES_MAX);
    this.#count(`${use} ${bytes === 0 ? 'empty' : 'small'}`);
    return bytes;
  }

  #count(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  get counts(): SizeCounts {
    return Object.fromEntries(this.#counts);
  }
}
