/**
 * A one-way ring of records between two threads: one producer, one consumer, in a SharedArrayBuffer.
 *
 * Why not postMessage: what costs is not the copy but the wake-up (up to 20 µs of CPU on each side when it crosses
 * cores). A ring lets a thread publish many records with one wake-up, and none at all while the other side is awake.
 *
 *   control words (Int32, a cache line apart so that the two sides do not fight over one)
 *     HEAD      bytes ever published, by the producer       TAIL     bytes ever consumed, by the consumer
 *     ASLEEP    1 while the consumer sleeps, waiting on it  BLOCKED  1 while the producer waits on TAIL
 *     STOPPING  set once by the main thread: start nothing new
 *   records, 8-aligned: [u32 payload length][u32 type][payload], padded to 8 bytes, never split;
 *   a record that does not fit before the end is preceded by a SKIP record.
 *
 * HEAD and TAIL wrap at 2^32, so only their differences are compared. `publish` stores HEAD before it looks at ASLEEP,
 * and the consumer sets ASLEEP before it looks at HEAD: one of the two always sees the other. The consumer waits on
 * ASLEEP and not on HEAD: a producer that has seen it asleep may be held up, and clear the word only when the consumer
 * has been awake since, has taken everything, and is about to sleep again. Then it must not sleep.
 */
import { giveBackIdleMemory, IDLE_MS } from './idle-memory.ts';

const HEAD = 0;
export const TAIL = 16;
export const ASLEEP = 32;
const BLOCKED = 48;
const STOPPING = 64;
const CONTROL_BYTES = 512;
const RECORD_HEADER_BYTES = 8;
/** Reading the clock costs as much as a few looks at the ring. */
const LOOKS_PER_CLOCK = 32;
const SKIP = 0xffff_ffff;

/** A ring of `capacityBytes` (a power of two). */
export function createRing(capacityBytes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(CONTROL_BYTES + capacityBytes);
}

const paddedBytes = (payloadBytes: number): number => (payloadBytes + RECORD_HEADER_BYTES + 7) & ~7;

/** One end's view of the shared memory: payload fields are read and written through these views. */
class RingEnd {
  readonly words: Int32Array;
  readonly floats: Float64Array;
  readonly longs: BigUint64Array;
  readonly bytes: Uint8Array;
  protected readonly capacityBytes: number;

  constructor(shared: SharedArrayBuffer) {
    this.words = new Int32Array(shared);
    this.floats = new Float64Array(shared);
    this.longs = new BigUint64Array(shared);
    this.bytes = new Uint8Array(shared);
    this.capacityBytes = shared.byteLength - CONTROL_BYTES;
  }

  protected word(index: number): number {
    return this.words[index] ?? 0;
  }

  /** Tells the other thread to start nothing new. */
  setStopping(): void {
    Atomics.store(this.words, STOPPING, 1);
  }

  get isStopping(): boolean {
    return Atomics.load(this.words, STOPPING) === 1;
  }
}

export class RingProducer extends RingEnd {
  #head: number;
  #published: number;

  constructor(shared: SharedArrayBuffer) {
    super(shared);
    this.#head = Atomics.load(this.words, HEAD);
    this.#published = this.#head;
  }

  /** Byte offset of a fresh payload of `payloadBytes`, 8-aligned, or -1 when the ring is full now. */
  reserve(type: number, payloadBytes: number): number {
    const size = paddedBytes(payloadBytes);
    let at = this.#head & (this.capacityBytes - 1);
    const toEnd = this.capacityBytes - at;
    const skipped = toEnd < size ? toEnd : 0;
    const used = (this.#head - Atomics.load(this.words, TAIL)) | 0;
    if (used + skipped + size > this.capacityBytes) return -1;
    if (skipped > 0) {
      this.words[(CONTROL_BYTES + at + 4) >> 2] = SKIP | 0;
      this.words[(CONTROL_BYTES + at) >> 2] = skipped - RECORD_HEADER_BYTES;
      this.#head = (this.#head + skipped) | 0;
      at = 0;
    }
    const record = (CONTROL_BYTES + at) >> 2;
    this.words[record] = payloadBytes;
    this.words[record + 1] = type;
    this.#head = (this.#head + size) | 0;
    return CONTROL_BYTES + at + RECORD_HEADER_BYTES;
  }

  /** The consumer is awake: to publish to it costs a store, and it may go on with that at once. */
  get isHeard(): boolean {
    return Atomics.load(this.words, ASLEEP) === 0;
  }

  /** Makes everything reserved so far visible, and wakes the consumer if it sleeps. Once for a burst. */
  publish(): void {
    if (this.#published === this.#head) return;
    this.#published = this.#head;
    Atomics.store(this.words, HEAD, this.#head);
    this.rouse();
  }

  /** Wakes the consumer if it sleeps, also where nothing is published yet. Whether it slept. */
  rouse(): boolean {
    if (Atomics.load(this.words, ASLEEP) === 0 || Atomics.exchange(this.words, ASLEEP, 0) === 0) return false;
    Atomics.notify(this.words, ASLEEP, 1);
    return true;
  }

  /** Blocks until the consumer has taken something (or 10 ms have passed). Only for threads that may block. */
  waitForRoom(): void {
    this.publish();
    const tail = Atomics.load(this.words, TAIL);
    Atomics.store(this.words, BLOCKED, 1);
    Atomics.wait(this.words, TAIL, tail, 10);
  }
}

/** Callback for each record: its type, and where its payload starts. Valid only during the call. */
type TakeRecord = (type: number, at: number, payloadBytes: number) => void;

/** A thread that so much has come to keeps the memory that it has worked with: the next burst wants it. */
const TAKEN_MAX = 256;

export class RingConsumer extends RingEnd {
  #tail: number;
  /** Records that it has taken. */
  #taken = 0;
  #hasGivenBack = false;

  constructor(shared: SharedArrayBuffer) {
    super(shared);
    this.#tail = Atomics.load(this.words, TAIL);
  }

  /** Something published waits to be taken. */
  get hasMore(): boolean {
    return Atomics.load(this.words, HEAD) !== this.#tail;
  }

  /**
   * Hands every published record to `take`, in order; gives the room back after each. Returns how many there were.
   * Once `isEnough` says so, after a record, it takes no further ones.
   */
  drain(take: TakeRecord, isEnough?: () => boolean): number {
    let count = 0;
    while (this.hasMore) {
      const at = CONTROL_BYTES + (this.#tail & (this.capacityBytes - 1));
      const payloadBytes = this.word(at >> 2);
      const type = this.word((at >> 2) + 1);
      this.#tail = (this.#tail + paddedBytes(payloadBytes)) | 0;
      if (type !== (SKIP | 0)) {
        take(type, at + RECORD_HEADER_BYTES, payloadBytes);
        count++;
      }
      this.#release();
      if (isEnough?.() === true) break;
    }
    this.#taken += count;
    return count;
  }

  #release(): void {
    Atomics.store(this.words, TAIL, this.#tail);
    if (Atomics.load(this.words, BLOCKED) === 1) {
      Atomics.store(this.words, BLOCKED, 0);
      Atomics.notify(this.words, TAIL);
    }
  }

  /**
   * Looks for something published, for about `microseconds` at most. Worth it only when an answer is on its way: being
   * woken costs more than that.
   */
  spin(microseconds: number): boolean {
    const until = performance.now() + microseconds / 1000;
    do {
      for (let look = 0; look < LOOKS_PER_CLOCK; look++) {
        if (Atomics.load(this.words, HEAD) !== this.#tail) return true;
      }
    } while (performance.now() < until);
    return false;
  }

  /**
   * Blocks the thread until something is published, or it is roused. If that takes long, memory is given back meanwhile
   * (idle-memory.ts).
   */
  wait(): void {
    Atomics.store(this.words, ASLEEP, 1);
    if (!this.hasMore) this.#sleep();
    Atomics.store(this.words, ASLEEP, 0);
  }

  /** Blocks the thread until something is published, or it is roused, or so many milliseconds have passed. */
  waitFor(ms: number): void {
    Atomics.store(this.words, ASLEEP, 1);
    if (!this.hasMore) Atomics.wait(this.words, ASLEEP, 1, ms);
    Atomics.store(this.words, ASLEEP, 0);
  }

  #sleep(): void {
    if (!this.#hasGivenBack && this.#taken <= TAKEN_MAX) {
      if (Atomics.wait(this.words, ASLEEP, 1, IDLE_MS) !== 'timed-out') return;
      this.#hasGivenBack = true;
      giveBackIdleMemory();
    }
    Atomics.wait(this.words, ASLEEP, 1);
  }
}
