/**
 * Snapshots: a canister's whole state at one moment, taken from it or uploaded piece by piece.
 *
 * Both are read the same way (`SnapshotContent`). A taken one holds the image that the execution captured, and pieces
 * of stable memory without the empty parts; an uploaded one holds a heap of its declared size, and stable pages as they
 * are written. Missing bytes read as zeros in both. Heap and stable memory are memory shared between threads, so that
 * loading a snapshot of gigabytes copies nothing in the main thread. After a restart only the description is in memory,
 * until the content is needed.
 */
import { SharedSlabs, sharedBytes } from '../bytes/index.ts';
import { WASM_PAGE_BYTES, type LowMemoryHook } from '../ic/index.ts';
import { bytesOfChunks, type Chunks, ChunkStore } from './chunk-store.ts';
import type { ManagementBackend, GlobalValue, RestoredState } from './backend.ts';
import type { StoredBytes } from './stored-bytes.ts';

/** Description of a snapshot, without its content. */
export interface SnapshotDescription {
  readonly source: 'taken' | 'uploaded';
  readonly wasmBytes: number;
  readonly heapBytes: number;
  readonly stableBytes: number;
  readonly certifiedData: Uint8Array;
  /** SHA-256 of the chunks, in hex. */
  readonly chunkHashes: readonly string[];
  readonly version: number;
  /** Timer in ns, 0 for off; undefined for an upload that did not say. */
  readonly timerNs: bigint | undefined;
  readonly lowMemoryHook: LowMemoryHook | undefined;
  /** Bytes that the snapshot occupies, also its `total_size`. */
  readonly bytes: number;
}

/** The readable content of a snapshot; immutable for a taken one. */
export interface SnapshotContent extends SnapshotDescription {
  readonly wasm: Uint8Array;
  readonly heap: Uint8Array;
  readStable(offset: number, size: number): Uint8Array;
  readonly globals: readonly GlobalValue[];
  readonly chunks: Chunks;
  /** Returns the state of a canister that loads the snapshot. */
  prepare(host: ManagementBackend): Promise<RestoredState>;
}

/** A contiguous piece of stable memory. */
export type StablePiece = RestoredState['image']['stable'][number];

/** State captured from a canister. */
interface Captured {
  readonly wasm: Uint8Array;
  readonly heap: Uint8Array;
  /** Disjoint pieces, in any order. */
  readonly stable: readonly StablePiece[];
  readonly stableBytes: number;
  readonly globals: readonly GlobalValue[];
  readonly certifiedData: Uint8Array;
  readonly chunks: Chunks;
  readonly version: number;
  readonly timerNs: bigint;
  readonly lowMemoryHook: LowMemoryHook;
}

export class TakenSnapshot implements SnapshotContent {
  readonly source = 'taken';
  readonly wasm: Uint8Array;
  readonly heap: Uint8Array;
  readonly stableBytes: number;
  readonly globals: readonly GlobalValue[];
  readonly certifiedData: Uint8Array;
  readonly chunks: Chunks;
  readonly version: number;
  readonly timerNs: bigint;
  readonly lowMemoryHook: LowMemoryHook;
  readonly bytes: number;
  /** Pieces in order. */
  readonly stable: readonly StablePiece[];
  #state: RestoredState | undefined;

  /** `state` is the result of `prepare`, if it is known already. */
  constructor(captured: Captured, state?: RestoredState) {
    this.wasm = captured.wasm;
    this.heap = captured.heap;
    this.stable = captured.stable.toSorted((a, b) => a.offset - b.offset);
    this.stableBytes = captured.stableBytes;
    this.globals = captured.globals;
    this.certifiedData = captured.certifiedData;
    this.chunks = captured.chunks;
    this.version = captured.version;
    this.timerNs = captured.timerNs;
    this.lowMemoryHook = captured.lowMemoryHook;
    this.#state = state;
    const stored = this.stable.reduce((sum, { bytes }) => sum + bytes.length, 0);
    this.bytes = this.wasm.length + this.heap.length + stored + bytesOfChunks(this.chunks);
  }

  get wasmBytes(): number {
    return this.wasm.length;
  }
  get heapBytes(): number {
    return this.heap.length;
  }
  get chunkHashes(): readonly string[] {
    return [...this.chunks.keys()];
  }

  readStable(offset: number, size: number): Uint8Array {
    const result = new Uint8Array(size);
    for (let at = this.#firstPiece(offset); at < this.stable.length; at++) {
      const piece = this.stable[at];
      if (piece === undefined || piece.offset >= offset + size) break;
      const from = Math.max(offset, piece.offset);
      const to = Math.min(offset + size, piece.offset + piece.bytes.length);
      if (from < to) result.set(piece.bytes.subarray(from - piece.offset, to - piece.offset), from - offset);
    }
    return result;
  }

  /** Returns the index of the first piece that ends after `offset`. */
  #firstPiece(offset: number): number {
    let low = 0;
    let high = this.stable.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const piece = this.stable[middle];
      if (piece !== undefined && piece.offset + piece.bytes.length <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  async prepare(host: ManagementBackend): Promise<RestoredState> {
    this.#state ??= {
      image: await imageOf(host, this, this.wasm, this.stable),
      wasm: this.wasm,
      // The canister's own timer and hook state stay.
      timerNs: undefined,
      lowMemoryHook: undefined,
    };
    return this.#state;
  }
}

async function imageOf(
  host: ManagementBackend,
  { heap, globals, stableBytes, certifiedData }: SnapshotContent,
  wasm: Uint8Array,
  stable: readonly StablePiece[],
): Promise<RestoredState['image']> {
  const module = await host.prepare(wasm);
  const stablePages = stableBytes / WASM_PAGE_BYTES;
  return { module, heap, globals: host.writeGlobals(module, globals), stable, stablePages, certifiedData };
}

interface UploadedMetadata {
  readonly wasmBytes: number;
  readonly heapBytes: number;
  readonly stableBytes: number;
  readonly globals: readonly GlobalValue[];
  readonly certifiedData: Uint8Array;
  readonly timerNs: bigint | undefined;
  readonly lowMemoryHook: LowMemoryHook | undefined;
  readonly version: number;
}

/** Uploaded parts of a snapshot. */
interface UploadedParts {
  readonly wasm: Uint8Array;
  readonly heap: Uint8Array;
  /** Pages of stable memory by number. */
  readonly pages: Map<number, Uint8Array>;
  readonly chunks: Chunks;
}

export class UploadedSnapshot implements SnapshotContent {
  readonly source = 'uploaded';
  readonly wasm: Uint8Array;
  readonly heap: Uint8Array;
  readonly #metadata: UploadedMetadata;
  readonly #stored: StoredBytes;
  readonly #chunkStore: ChunkStore;
  readonly #pages: Map<number, Uint8Array>;
  readonly #slabs = new SharedSlabs();

  /**
   * The bytes of `parts`, at least `wasmBytes + heapBytes`, have been taken from `stored`; later ones are taken as they
   * are uploaded.
   */
  constructor(metadata: UploadedMetadata, stored: StoredBytes, parts?: UploadedParts) {
    this.#metadata = metadata;
    this.#stored = stored;
    this.#chunkStore = new ChunkStore(stored, undefined, parts?.chunks);
    this.wasm = parts?.wasm ?? new Uint8Array(metadata.wasmBytes);
    this.heap = parts?.heap ?? sharedBytes(metadata.heapBytes);
    this.#pages = parts?.pages ?? new Map<number, Uint8Array>();
  }

  get wasmBytes(): number {
    return this.#metadata.wasmBytes;
  }
  get heapBytes(): number {
    return this.#metadata.heapBytes;
  }
  get chunkHashes(): readonly string[] {
    return this.#chunkStore.hashes;
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

  /** Returns the page of stable memory with this number; undefined if nothing was written to it. */
  page(number: number): Uint8Array | undefined {
    return this.#pages.get(number);
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
      this.#ownPage(page).set(chunk.subarray(from - offset, to - offset), from - start);
    }
  }

  #ownPage(number: number): Uint8Array {
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = this.#slabs.take(WASM_PAGE_BYTES);
      this.#pages.set(number, page);
    }
    return page;
  }

  /** Adds a chunk; returns its SHA-256. */
  addChunk(chunk: Uint8Array): Uint8Array {
    return this.#chunkStore.add(chunk);
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

  /** Returns the pages in order; pages that are adjacent also in their buffer form one piece. */
  #stable(): readonly StablePiece[] {
    const pieces: StablePiece[] = [];
    for (const [page, bytes] of [...this.#pages].toSorted(([a], [b]) => a - b)) {
      const offset = page * WASM_PAGE_BYTES;
      const last = pieces.at(-1);
      if (last !== undefined && offset === last.offset + last.bytes.length && follows(bytes, last.bytes)) {
        const { buffer, byteOffset, length } = last.bytes;
        pieces[pieces.length - 1] = {
          offset: last.offset,
          bytes: new Uint8Array(buffer, byteOffset, length + bytes.length),
        };
      } else pieces.push({ offset, bytes });
    }
    return pieces;
  }

  async prepare(host: ManagementBackend): Promise<RestoredState> {
    // A copy, because more may be uploaded while the module is checked. The memories are not copied: a canister that
    // loads meanwhile sees everything uploaded by then.
    const wasm = this.wasm.slice();
    return {
      image: await imageOf(host, this, wasm, this.#stable()),
      wasm,
      timerNs: this.timerNs,
      lowMemoryHook: this.lowMemoryHook,
    };
  }
}

function follows(next: Uint8Array, bytes: Uint8Array): boolean {
  return next.buffer === bytes.buffer && next.byteOffset === bytes.byteOffset + bytes.length;
}
