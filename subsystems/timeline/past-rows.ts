/** An actor's rows as frames of its timeline leave them, and the image that they come to. */
import { createHash } from 'node:crypto';
import { PAGE_BYTES, sharedBytes } from '../bytes/index.ts';
import { readIdentity, readNumbers, type StoredIdentity, type StoredNumbers } from '../canisters/stored/index.ts';
import { factsAmong, NO_FACTS, timerMsOf, timerNsOf, WASM_PAGE_BYTES } from '../ic/index.ts';
import { ServerError } from '../../kernel/index.ts';
import { applyWriteBatch, type Family, ID_BYTES, META, type WriteBatchVisitor } from '../storage/index.ts';
import type { Note, PastState, Place } from './index.ts';

type PageFamily = 'heap' | 'stable';
const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);
const NONE = new Uint8Array(0);
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

  /** Applies the operations of a frame. `note`: of the message that it tells of. */
  apply(operations: Uint8Array, note?: Note): void {
    this.#haveNumbersCome = false;
    this.isReplaced = false;
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
    else this.#meta.set(letter, value.slice());
    if (family === 'meta' && letter === META.identity) this.isReplaced = true;
    if (family !== 'meta' || letter !== META.numbers) return;
    this.#numbers = readNumbers(value, key);
    this.#haveNumbersCome = true;
  }

  delete(family: Family, key: Uint8Array): void {
    if (family === 'meta') this.#meta.delete(String.fromCharCode(key[0] ?? 0));
    else if (isPages(family)) this.#pages[family][copyOf(key)]?.delete(pageNumberOf(key));
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
    if (pages === undefined) return undefined;
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
    const numbers = this.#numbers;
    if (this.#meta.has(META.checkpoint)) throw keptByLog();
    if (numbers === undefined)
      throw new ServerError('unavailable', 'timeline-damaged', 'the timeline lacks the numbers of the actor');
    const { heapBytes, stableBytes, balance, status, timerMs } = numbers;
    const copy = this.#meta.get(META.copy)?.[0] ?? 0;
    const heap = sharedBytes(heapBytes);
    for (const [number, page] of this.#pages.heap[copy] ?? [])
      if ((number + 1) * PAGE_BYTES <= heapBytes) heap.set(page, number * PAGE_BYTES);
    return {
      ...place,
      image: {
        heap,
        globals: this.#meta.get(META.globals) ?? NONE,
        stable: piecesOf(this.#stablePages(copy, stableBytes)),
        stablePages: stableBytes / WASM_PAGE_BYTES,
        certifiedData: this.#meta.get(META.certifiedData) ?? NONE,
      },
      moduleHash: this.moduleHash,
      balance,
      status,
      timerMs,
      heapBytes,
      stableBytes,
      version: numbers.ofMessages.version,
      timersNs: this.#timersNs(timerMs),
      openCalls: this.#openCalls,
      settings: this.#settings,
    };
  }

  /** Returns the hashes of the memories, as `PastState` has them. */
  hashes({ image: { heap, stable }, stableBytes }: Pick<PastState, 'image' | 'stableBytes'>): PastState['sha256'] {
    return { heap: createHash('sha256').update(heap).digest('hex'), stable: hashOf(stable, stableBytes) };
  }

  #stablePages(copy: number, stableBytes: number): (readonly [number, Buffer])[] {
    return [...(this.#pages.stable[copy] ?? [])]
      .filter(([number]) => (number + 1) * PAGE_BYTES <= stableBytes)
      .toSorted(([a], [b]) => a - b);
  }

  #timersNs(timerMs: number): readonly bigint[] {
    const [told, stored] = [this.#timerNs, timerNsOf(timerMs)];
    const isTold = told !== undefined && told !== stored && timerMsOf(told) === timerMs;
    return isTold ? [told, stored] : [stored];
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
    'at that point the heap was kept by its log (--snapshot-below), and such heaps are not in timelines yet: ' +
      'start the server with a larger --snapshot-below to keep them by their changes',
  );
}

/** Pages that follow each other become one piece of shared bytes. */
function piecesOf(pages: readonly (readonly [number, Buffer])[]): { offset: number; bytes: Uint8Array }[] {
  const all = sharedBytes(pages.length * PAGE_BYTES);
  const pieces: { offset: number; bytes: Uint8Array }[] = [];
  for (const [at, [number, page]] of pages.entries()) {
    all.set(page, at * PAGE_BYTES);
    pieces.push({ offset: number * PAGE_BYTES, bytes: all.subarray(at * PAGE_BYTES, (at + 1) * PAGE_BYTES) });
  }
  return pieces;
}

function hashOf(pages: PastState['image']['stable'], bytes: number): string {
  const hash = createHash('sha256');
  const byNumber = new Map(pages.map((page) => [page.offset / PAGE_BYTES, page.bytes]));
  for (let number = 0; number * PAGE_BYTES < bytes; number++) hash.update(byNumber.get(number) ?? ZERO_PAGE);
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
