/**
 * Snapshots: a canister's whole state at one moment, taken from it or uploaded piece by piece.
 *
 * Both are read the same way (`SnapshotContent`). A taken one holds the image that the execution captured, with stable
 * memory in the pieces that hold anything; an uploaded one holds a heap of its declared size and stable pages as they
 * are written. What is not there reads as zeros in both.
 */
import { bytesOfChunks, type Chunks, ChunkStore } from './chunk-store.ts';
import type { CanisterHost, GlobalValue, LowMemoryHook, RestoredState } from './host.ts';
import type { StoredBytes } from './stored-bytes.ts';

export const WASM_PAGE_BYTES = 65_536;

/** What of a snapshot can be read; immutable for a taken one. */
export interface SnapshotContent {
  readonly source: 'taken' | 'uploaded';
  readonly wasm: Uint8Array;
  readonly heap: Uint8Array;
  readonly stableBytes: number;
  readStable(offset: number, size: number): Uint8Array;
  readonly globals: readonly GlobalValue[];
  readonly certifiedData: Uint8Array;
  readonly chunks: Chunks;
  readonly version: number;
  /** Ns, 0 for off; undefined: an upload that did not say. */
  readonly timerNs: bigint | undefined;
  readonly lowMemoryHook: LowMemoryHook | undefined;
  /** What it costs to keep, and `total_size`. */
  readonly bytes: number;
  /** What a canister becomes when it is loaded. */
  prepare(host: CanisterHost): Promise<RestoredState>;
}

export interface Snapshot {
  readonly id: Uint8Array;
  readonly takenAtNs: bigint;
  readonly content: SnapshotContent;
}

type Piece = RestoredState['image']['stable'][number];

export interface Captured {
  readonly state: RestoredState;
  readonly globals: readonly GlobalValue[];
  readonly chunks: Chunks;
  readonly version: number;
  readonly timerNs: bigint;
  readonly lowMemoryHook: LowMemoryHook;
}

const NO_BYTES = new Uint8Array(0);

export class TakenSnapshot implements SnapshotContent {
  readonly source = 'taken';
  readonly globals: readonly GlobalValue[];
  readonly chunks: Chunks;
  readonly version: number;
  readonly timerNs: bigint;
  readonly lowMemoryHook: LowMemoryHook;
  readonly bytes: number;
  readonly #state: RestoredState;
  readonly #pieces: readonly Piece[];

  constructor({ state, globals, chunks, version, timerNs, lowMemoryHook }: Captured) {
    this.#state = state;
    this.#pieces = state.image.stable.toSorted((a, b) => a.offset - b.offset);
    this.globals = globals;
    this.chunks = chunks;
    this.version = version;
    this.timerNs = timerNs;
    this.lowMemoryHook = lowMemoryHook;
    const stored = this.#pieces.reduce((sum, { bytes }) => sum + bytes.length, 0);
    this.bytes = this.wasm.length + this.heap.length + stored + bytesOfChunks(chunks);
  }

  get wasm(): Uint8Array {
    return this.#state.wasm ?? NO_BYTES;
  }
  get heap(): Uint8Array {
    return this.#state.image.heap;
  }
  get stableBytes(): number {
    return this.#state.image.stablePages * WASM_PAGE_BYTES;
  }
  get certifiedData(): Uint8Array {
    return this.#state.image.certifiedData;
  }

  readStable(offset: number, size: number): Uint8Array {
    const result = new Uint8Array(size);
    for (let at = this.#firstPiece(offset); at < this.#pieces.length; at++) {
      const piece = this.#pieces[at];
      if (piece === undefined || piece.offset >= offset + size) break;
      const from = Math.max(offset, piece.offset);
      const to = Math.min(offset + size, piece.offset + piece.bytes.length);
      if (from < to) result.set(piece.bytes.subarray(from - piece.offset, to - piece.offset), from - offset);
    }
    return result;
  }

  /** Index of the first piece that ends after `offset`. */
  #firstPiece(offset: number): number {
    let low = 0;
    let high = this.#pieces.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const piece = this.#pieces[middle];
      if (piece !== undefined && piece.offset + piece.bytes.length <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  prepare(): Promise<RestoredState> {
    return Promise.resolve(this.#state);
  }
}

export interface UploadedMetadata {
  readonly wasmBytes: number;
  readonly heapBytes: number;
  readonly stableBytes: number;
  readonly globals: readonly GlobalValue[];
  readonly certifiedData: Uint8Array;
  readonly timerNs: bigint | undefined;
  readonly lowMemoryHook: LowMemoryHook | undefined;
  readonly version: number;
}

export class UploadedSnapshot implements SnapshotContent {
  readonly source = 'uploaded';
  readonly wasm: Uint8Array;
  readonly heap: Uint8Array;
  readonly #metadata: UploadedMetadata;
  readonly #stored: StoredBytes;
  readonly #chunkStore: ChunkStore;
  /** By page number. */
  readonly #pages = new Map<number, Uint8Array>();

  /** `wasmBytes + heapBytes` have been taken from `stored`; the rest is taken as it comes. */
  constructor(metadata: UploadedMetadata, stored: StoredBytes) {
    this.#metadata = metadata;
    this.#stored = stored;
    this.#chunkStore = new ChunkStore(stored);
    this.wasm = new Uint8Array(metadata.wasmBytes);
    this.heap = new Uint8Array(metadata.heapBytes);
  }

  get stableBytes(): number {
    return this.#metadata.stableBytes;
  }
  get globals(): readonly GlobalValue[] {
    return this.#metadata.globals;
  }
  get certifiedData(): Uint8Array {
    return this.#metadata.certifiedData;
  }
  get chunks(): Chunks {
    return this.#chunkStore.chunks;
  }
  get version(): number {
    return this.#metadata.version;
  }
  get timerNs(): bigint | undefined {
    return this.#metadata.timerNs;
  }
  get lowMemoryHook(): LowMemoryHook | undefined {
    return this.#metadata.lowMemoryHook;
  }
  get bytes(): number {
    return this.wasm.length + this.heap.length + this.#pages.size * WASM_PAGE_BYTES + this.#chunkStore.bytes;
  }

  writeWasm(offset: number, chunk: Uint8Array): void {
    this.wasm.set(chunk, offset);
  }

  writeStable(offset: number, chunk: Uint8Array): void {
    const first = Math.floor(offset / WASM_PAGE_BYTES);
    const end = Math.ceil((offset + chunk.length) / WASM_PAGE_BYTES);
    let missing = 0;
    for (let page = first; page < end; page++) if (!this.#pages.has(page)) missing++;
    this.#stored.take(missing * WASM_PAGE_BYTES);
    for (let page = first; page < end; page++) {
      const start = page * WASM_PAGE_BYTES;
      const from = Math.max(offset, start);
      const to = Math.min(offset + chunk.length, start + WASM_PAGE_BYTES);
      this.#page(page).set(chunk.subarray(from - offset, to - offset), from - start);
    }
  }

  #page(number: number): Uint8Array {
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = new Uint8Array(WASM_PAGE_BYTES);
      this.#pages.set(number, page);
    }
    return page;
  }

  addChunk(chunk: Uint8Array): void {
    this.#chunkStore.add(chunk);
  }

  readStable(offset: number, size: number): Uint8Array {
    const result = new Uint8Array(size);
    for (let page = Math.floor(offset / WASM_PAGE_BYTES); page * WASM_PAGE_BYTES < offset + size; page++) {
      const bytes = this.#pages.get(page);
      if (bytes === undefined) continue;
      const start = page * WASM_PAGE_BYTES;
      const from = Math.max(offset, start);
      const to = Math.min(offset + size, start + WASM_PAGE_BYTES);
      result.set(bytes.subarray(from - start, to - start), from - offset);
    }
    return result;
  }

  async prepare(host: CanisterHost): Promise<RestoredState> {
    // A copy: more may be uploaded while it is looked at.
    const wasm = this.wasm.slice();
    const module = await host.prepare(wasm);
    const stable = [...this.#pages]
      .toSorted(([a], [b]) => a - b)
      .map(([page, bytes]) => ({ offset: page * WASM_PAGE_BYTES, bytes }));
    return {
      image: {
        module,
        heap: this.heap,
        globals: host.writeGlobals(module, this.globals),
        stable,
        stablePages: this.stableBytes / WASM_PAGE_BYTES,
        certifiedData: this.certifiedData,
      },
      wasm,
      timerNs: this.timerNs,
      lowMemoryHook: this.lowMemoryHook,
    };
  }
}
