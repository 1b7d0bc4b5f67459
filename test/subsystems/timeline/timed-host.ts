/**
 * Actors whose units are made at random, beside a model that applies each operation in the simplest way: the hash of an
 * actor's rows after each of its messages says what the past was.
 */
import { createHash } from 'node:crypto';
import { serialize } from 'node:v8';
import { frameHeader } from '../../../subsystems/archive/index.ts';
import { numbersBytes, type StoredNumbers } from '../../../subsystems/canisters/stored/index.ts';
import { NO_NUMBERS } from '../../../subsystems/ic/index.ts';
import { META, metaKey, type StoredImage, WriteBatch } from '../../../subsystems/storage/index.ts';
import type { Note } from '../../../subsystems/timeline/index.ts';
import { encodeNote, NOTE_KEY } from '../../../subsystems/timeline/note.ts';
import type { TimelineStore } from '../../../subsystems/timeline/timeline-store.ts';
import type { Seeded } from '../../support/seeded.ts';

const PAGE = 4096;
const PAGES = 16;
const NOTHING = new Uint8Array(0);

/** One actor of the model. */
interface Actor {
  readonly id: Uint8Array;
  readonly heap: Buffer;
  readonly stable: Buffer;
  globals: Uint8Array;
  balance: bigint;
  version: number;
  seq: number;
  status: 'running' | 'stopped';
}

/** Hash of an actor after one of its messages. */
export interface Noted {
  readonly id: Uint8Array;
  readonly seq: number;
  readonly unit: number;
  readonly heap: string;
  readonly stable: string;
  readonly balance: bigint;
  readonly version: number;
  readonly globals: string;
  /** Undefined for messages that others of their unit follow: the status is stored at its end. */
  readonly status: string | undefined;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function idOf(number: number): Uint8Array {
  return Buffer.from(`8000000000${number.toString(16).padStart(6, '0')}0101`, 'hex');
}

/** Units of some actors. */
export class TimedHost {
  readonly #random: Seeded;
  readonly #isNoting: boolean;
  readonly #argument: Uint8Array;
  readonly actors: Actor[];
  readonly noted: Noted[] = [];
  /** All units so far: a start hands over again what it finds. */
  readonly frames: Buffer[] = [];
  unit = 0;
  timeMs = 1_800_000_000_000;

  /** Without `isNoting`, what the past was is not kept: hashing it takes most of the time. */
  constructor(random: Seeded, count: number, { isNoting = true, argument = Buffer.from('DIDL') } = {}) {
    this.#argument = argument;
    this.#random = random;
    this.#isNoting = isNoting;
    this.actors = Array.from({ length: count }, (_, number) => ({
      id: idOf(number + 1),
      heap: Buffer.alloc(PAGES * PAGE),
      stable: Buffer.alloc(PAGES * PAGE),
      globals: NOTHING,
      balance: 10n ** 18n,
      version: 0,
      seq: 0,
      status: 'running',
    }));
  }

  /**
   * Makes a unit in which some actors have executed one to three messages each; returns its frame. `among`: the actors.
   */
  next(among?: readonly number[]): Buffer {
    const set = new WriteBatch();
    this.unit++;
    this.timeMs += this.#random.below(3_000);
    const chosen = this.actors.filter((_, at) => among?.includes(at) ?? this.#random.oneIn(2));
    for (const actor of chosen)
      for (let messages = 1 + this.#random.below(3); messages > 0; messages--)
        this.#message(set, actor, messages === 1);
    set.put('queue', Buffer.from('row'), Buffer.alloc(8));
    if (chosen.length > 0) set.delete('meta', NOTE_KEY);
    const bytes = set.take();
    const frame = Buffer.concat([frameHeader(this.unit, this.timeMs, [bytes]), bytes]);
    this.frames.push(frame);
    return frame;
  }

  #message(set: WriteBatch, actor: Actor, isLast: boolean): void {
    const random = this.#random;
    for (let writes = random.below(4); writes > 0; writes--) {
      const family = random.pick(['heap', 'stable'] as const);
      const page = random.below(PAGES);
      const bytes = Buffer.alloc(8 * (1 + random.below(20)), 1 + random.below(255));
      const offset = 8 * random.below((PAGE - bytes.length) / 8);
      actor[family].set(bytes, page * PAGE + offset);
      const entry = Buffer.alloc(10 + bytes.length);
      entry.writeUInt32LE(page, 0);
      entry.writeUInt16LE(1, 4);
      entry.writeUInt16LE(offset, 6);
      entry.writeUInt16LE(bytes.length, 8);
      entry.set(bytes, 10);
      set.patch(family, actor.id, 1, entry);
    }
    if (random.oneIn(3)) {
      actor.globals = Buffer.alloc(16, random.below(256));
      set.put('meta', metaKey(META.globals, actor.id), actor.globals);
    }
    const charge = random.below(1_000);
    actor.balance -= BigInt(charge);
    actor.version++;
    actor.seq++;
    set.put('meta', NOTE_KEY, encodeNote(actor.id, noteOf(actor, charge, this.#argument)));
    actor.status = isLast && random.oneIn(2) ? 'stopped' : 'running';
    // Numbers are stored once a unit, at its end.
    if (isLast) set.put('meta', metaKey(META.numbers, actor.id), numbersBytes(numbersOf(actor)));
    if (actor.seq === 1) set.put('meta', metaKey(META.identity, actor.id), identity());
    if (this.#isNoting) this.noted.push(this.#hashes(actor, isLast));
  }

  #hashes({ id, heap, stable, globals, balance, version, seq, status }: Actor, isLast: boolean): Noted {
    const [hashed, { unit }] = [{ heap: sha256(heap), stable: sha256(stable), globals: sha256(globals) }, this];
    return { id, seq, unit, balance, version, ...hashed, status: isLast ? status : undefined };
  }

  /** Returns what the storage would read of an actor now. */
  imageOf(id: Uint8Array): StoredImage {
    const actor = this.actors.find((each) => Buffer.compare(each.id, id) === 0);
    if (actor === undefined) throw new Error('no such actor');
    return {
      from: this.unit,
      until: this.unit,
      identity: identity(),
      numbers: numbersBytes(numbersOf(actor)).slice(),
      copy: 0,
      globals: actor.globals,
      certifiedData: undefined,
      checkpoint: undefined,
      records: { bytes: NOTHING, ends: new Uint32Array(0) },
      memory: { heap: pagesOf(actor.heap), stable: pagesOf(actor.stable) },
    };
  }

  /** Hands units to a store, as the main thread does: bases that are wanted come before the next units. */
  give(store: TimelineStore, frames: readonly Buffer[], lateMax = 3): void {
    const late: Buffer[] = [];
    for (const id of store.take(Buffer.concat(frames), this.timeMs).bases) {
      // Commits go on while a base is read: it has what the timeline does not have yet.
      if (late.length < lateMax && this.#random.oneIn(3)) late.push(this.next());
      store.base(id, this.imageOf(id), this.timeMs);
    }
    if (late.length > 0) this.give(store, late, 0);
  }
}

function noteOf({ version, balance }: Actor, charge: number, argument: Uint8Array): Note {
  const caller = Buffer.from([4]);
  const sizes = { heapBytes: PAGES * PAGE, stableBytes: PAGES * PAGE };
  const numbers = { instantMs: 1, instructions: 10, charge, version, openCalls: 0, balance, timerNs: undefined };
  return {
    kind: 'update',
    outcome: 'reply',
    ...sizes,
    ...numbers,
    caller,
    method: 'set',
    argument,
    call: undefined,
  };
}

function numbersOf({ balance, version, status }: Actor): StoredNumbers {
  return {
    balance,
    ofMessages: { ...NO_NUMBERS, version },
    timerMs: Infinity,
    heapBytes: PAGES * PAGE,
    stableBytes: 65_536,
    messages: 0,
    traps: 0,
    lastMessageMs: 0,
    instantMs: 0,
    cyclesCharged: 0,
    status,
    lowMemoryHook: 'condition_not_satisfied',
  };
}

function identity(): Uint8Array {
  const stored = { name: 'a', controllers: [], environment: new Map(), settings: {}, givenCandid: undefined };
  return serialize({ ...stored, moduleHash: undefined });
}

function pagesOf(memory: Buffer): StoredImage['memory']['heap'] {
  return { numbers: Uint32Array.from({ length: PAGES }, (_, page) => page), chunks: [Buffer.from(memory)] };
}
