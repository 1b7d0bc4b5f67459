/** An actor's rows as frames of its timeline leave them, and the image that they come to. */
import { createHash } from 'node:crypto';
import { PAGE_BYTES, sharedBytes } from '../bytes/index.ts';
import { readIdentity, readNumbers, type StoredIdentity, type StoredNumbers } from '../canisters/stored/index.ts';
import { factsAmong, NO_FACTS, timerMsOf, timerNsOf, WASM_PAGE_BYTES } from '../ic/index.ts';
import { ServerError } from '../../kernel/index.ts';
import { applyWriteBatch, type Family, ID_BYTES, META, type WriteBatchVisitor } from '../storage/index.ts';
import type { Note, PastPages, PastState, Place, StateBehind } from './index.ts';

type PageFamily = 'heap' | 'stable';
const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);
const NONE = new Uint8Array(0);
/** Rows that messages do not change: settings, and which copy of a memory counts. */
const REPLACING: ReadonlySet<string> = new Set([META.identity, META.copy]);
/** Identity of an actor whose row is not there. */
const NOBODY: Omit<StoredIdentity, 'name' | 'moduleHash'> = {
  controllers: [],
  environment: new Map(),
  settings: {},
  givenCandid: undefined,
};

export class PastRows implements WriteBatchVisitor {
  readonly #meta = new Map<string, Uint8Array>();
  /** Pages by number, of both copies of both memories. */
  readonly #pages: Readonly<Record<PageFamily, readonly Map<number, Buffer>[]>> = {
    heap: [new Map(), new Map()],
    stable: [new Map(), new Map()],
  };
  /** Numbers of notes are newer than the stored ones within a unit. */
  #numbers: StoredNumbers | undefined;
  #haveNumbersCome = false;
  #openCalls = 0;
  /** The timer as the last note that has one says it; undefined: none has. */
  #timerNs: bigint | undefined;
  /** True if the last operations had more than what a message changes: settings, or a memory as a whole. */
  isReplaced = false;
  /** Numbers of pages that the last operations changed. */
  readonly #changed: Readonly<Record<PageFamily, Set<number>>> = { heap: new Set(), stable: new Set() };

  /** Applies the operations of a frame. `note`: of the message that it tells of. */
  apply(operations: Uint8Array, note?: Note): void {
    this.#haveNumbersCome = false;
    this.isReplaced = false;
    this.#changed.heap.clear();
    this.#changed.stable.clear();
    applyWriteBatch(operations, this);
    if (note === undefined) return;
    this.#openCalls = note.openCalls;
    // The timer is off before its hook begins.
    const timerNs = note.timerNs ?? (note.kind === 'timer' ? 0n : undefined);
    this.#timerNs = timerNs ?? this.#timerNs;
    const before = this.#numbers;
    if (this.#haveNumbersCome || before === undefined) return;
    const { balance = before.balance - BigInt(Math.round(note.charge)) } = note;
    this.#numbers = {
      ...before,
      balance,
      timerMs: timerNs === undefined ? before.timerMs : timerMsOf(timerNs),
      ofMessages: { ...before.ofMessages, version: Math.max(note.version, before.ofMessages.version) },
      heapBytes: note.heapBytes,
      stableBytes: note.stableBytes,
      instantMs: note.instantMs,
    };
  }

  put(family: Family, key: Uint8Array, value: Uint8Array): void {
    const letter = String.fromCharCode(key[0] ?? 0);
    if (family !== 'meta') this.#pageOf(family, key, pageNumberOf(key))?.set(value);
    // A view of the file would take the whole file along to other threads.
    else this.#meta.set(letter, new Uint8Array(value));
    if (family === 'meta' && REPLACING.has(letter)) this.isReplaced = true;
    if (family !== 'meta' || letter !== META.numbers) return;
    this.#numbers = readNumbers(value, key);
    this.#haveNumbersCome = true;
  }

  delete(family: Family, key: Uint8Array): void {
    if (family === 'meta') this.#meta.delete(String.fromCharCode(key[0] ?? 0));
    else if (isPages(family)) {
      this.#pages[family][copyOf(key)]?.delete(pageNumberOf(key));
      this.#changed[family].add(pageNumberOf(key));
    }
  }

  clear(family: Family, prefix: Uint8Array): void {
    this.isReplaced = true;
    if (isPages(family)) this.#pages[family][copyOf(prefix)]?.clear();
  }

  patch(family: Family, id: Uint8Array, page: number, offset: number, bytes: Uint8Array): void {
    this.#pageOf(family, id, page)?.set(bytes, offset);
  }

  #pageOf(family: Family, key: Uint8Array, number: number): Buffer | undefined {
    const pages = isPages(family) ? this.#pages[family][copyOf(key)] : undefined;
    if (pages === undefined || !isPages(family)) return undefined;
    this.#changed[family].add(number);
    let page = pages.get(number);
    if (page === undefined) pages.set(number, (page = Buffer.alloc(PAGE_BYTES)));
    return page;
  }

  /** SHA-256 of the module, hex; undefined: the actor is empty. */
  get moduleHash(): string | undefined {
    return this.#identity?.moduleHash;
  }

  /**
   * Returns the state at a place. Throws ServerError `timeline-logged` for a heap that is kept by its log, and
   * `timeline-damaged` where rows are missing.
   */
  state(place: Place): Omit<PastState, 'wasm' | 'sha256'> {
    const facts = this.#facts(place);
    const { heapBytes, stableBytes } = facts;
    const heap = sharedBytes(heapBytes);
    for (const [number, page] of this.#pagesWithin('heap', heapBytes)) heap.set(page, number * PAGE_BYTES);
    const stable = piecesOf(this.#pagesWithin('stable', stableBytes));
    return { ...facts, image: { heap, stable, stablePages: stableBytes / WASM_PAGE_BYTES, ...this.#values } };
  }

  /** Returns the state at a place, as what the last operations have made of it. Throws as `state` does. */
  stateBehind(place: Place): Omit<StateBehind, 'wasm'> {
    const facts = this.#facts(place);
    const { heapBytes, stableBytes } = facts;
    const changed = { heap: this.#changedOf('heap', heapBytes), stable: this.#changedOf('stable', stableBytes) };
    return { ...facts, image: this.#values, changed, isNew: this.isReplaced };
  }

  #facts(place: Place): Omit<PastState, 'image' | 'wasm' | 'sha256'> {
    const numbers = this.#numbers;
    if (this.#meta.has(META.checkpoint)) throw keptByLog();
    if (numbers === undefined)
      throw new ServerError('unavailable', 'timeline-damaged', 'the timeline lacks the numbers of the actor');
    const { heapBytes, stableBytes, balance, status, timerMs, ofMessages } = numbers;
    const sizes = { heapBytes, stableBytes, balance, status, timerMs, version: ofMessages.version };
    const { moduleHash } = this;
    const others = { timersNs: this.#timersNs(timerMs), openCalls: this.#openCalls, settings: this.#settings };
    return { ...place, ...sizes, ...others, moduleHash };
  }

  get #values(): StateBehind['image'] {
    return {
      globals: this.#meta.get(META.globals) ?? NONE,
      certifiedData: this.#meta.get(META.certifiedData) ?? NONE,
    };
  }

  /** Returns the hashes of the memories, as `PastState` has them. */
  hashes({ image: { heap, stable }, stableBytes }: Pick<PastState, 'image' | 'stableBytes'>): PastState['sha256'] {
    return { heap: createHash('sha256').update(heap).digest('hex'), stable: hashOf(stable, stableBytes) };
  }

  /** Returns the pages of a memory of that size, in order. */
  #pagesWithin(family: PageFamily, bytes: number): (readonly [number, Buffer])[] {
    const copy = this.#meta.get(META.copy)?.[0] ?? 0;
    return [...(this.#pages[family][copy] ?? [])]
      .filter(([number]) => (number + 1) * PAGE_BYTES <= bytes)
      .toSorted(([a], [b]) => a - b);
  }

  #changedOf(family: PageFamily, size: number): PastPages {
    const pages = new Map(this.#pagesWithin(family, size));
    const numbers = Uint32Array.from(this.isReplaced ? pages.keys() : this.#changed[family]).toSorted();
    const bytes = sharedBytes(numbers.length * PAGE_BYTES);
    for (const [at, number] of numbers.entries()) bytes.set(pages.get(number) ?? ZERO_PAGE, at * PAGE_BYTES);
    return { numbers, bytes };
  }

  #timersNs(timerMs: number): readonly bigint[] {
    const [told, stored] = [this.#timerNs, timerNsOf(timerMs)];
    return told === undefined || told === stored ? [stored] : [told, stored];
  }

  get #settings(): PastState['settings'] {
    const { controllers, environment, settings, givenCandid, ...facts } = this.#identity ?? NOBODY;
    const heapBytesMax = settings.wasmMemoryLimit || Number.POSITIVE_INFINITY;
    return { controllers, environment, facts: factsAmong(facts) ?? NO_FACTS, heapBytesMax, givenCandid };
  }

  get #identity(): StoredIdentity | undefined {
    const identity = this.#meta.get(META.identity);
    return identity && readIdentity(identity, Buffer.from(META.identity));
  }
}

function keptByLog(): ServerError {
  return new ServerError(
    'invalid',
    'timeline-logged',
    'at that point the heap was kept by its log, and such heaps are not in timelines yet: it is above ' +
      '--snapshot-below (start the server with a larger one), or a message changed more than 16 MiB of it',
  );
}

/** Pages that follow each other become one piece of shared bytes. */
function piecesOf(pages: readonly (readonly [number, Buffer])[]): PastState['image']['stable'] {
  const all = sharedBytes(pages.length * PAGE_BYTES);
  const pieces: { readonly offset: number; readonly bytes: Uint8Array }[] = [];
  let begun = 0;
  for (const [at, [number, page]] of pages.entries()) {
    all.set(page, at * PAGE_BYTES);
    const isLast = pages[at + 1]?.[0] !== number + 1;
    if (!isLast) continue;
    const bytes = all.subarray(begun * PAGE_BYTES, (at + 1) * PAGE_BYTES);
    pieces.push({ offset: (number + 1) * PAGE_BYTES - bytes.length, bytes });
    begun = at + 1;
  }
  return pieces;
}

function hashOf(pieces: PastState['image']['stable'], size: number): string {
  const hash = createHash('sha256');
  let hashed = 0;
  const zerosTo = (offset: number): void => {
    for (; hashed < offset; hashed += PAGE_BYTES) hash.update(ZERO_PAGE);
  };
  for (const { offset, bytes } of pieces) {
    zerosTo(offset);
    hash.update(bytes);
    hashed += bytes.length;
  }
  zerosTo(size);
  return hash.digest('hex');
}

function isPages(family: Family): family is PageFamily {
  return family === 'heap' || family === 'stable';
}

/** The second copy of a memory is under an id whose last byte has another highest bit. */
function copyOf(key: Uint8Array): 0 | 1 {
  return (key[ID_BYTES - 1] ?? 0) >= 0x80 ? 1 : 0;
}

function pageNumberOf(key: Uint8Array): number {
  return key.length < ID_BYTES + 4 ? 0 : Buffer.from(key.buffer, key.byteOffset).readUInt32BE(ID_BYTES);
}
