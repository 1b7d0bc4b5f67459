import type { GlobalValue } from '../backend.ts';
import {
  type SnapshotContent,
  type SnapshotDescription,
  type StablePiece,
  TakenSnapshot,
  UploadedSnapshot,
} from '../snapshot.ts';
import { SharedSlabs, sharedBytes } from '../../bytes/index.ts';
import { WASM_PAGE_BYTES } from '../../ic/index.ts';
import type { StoredBytes } from '../stored-bytes.ts';
import { expectHash } from './chunk-records.ts';
import { offsetOf, partOf, pieceKey, snapshotChunkKey, type SnapshotPart } from './record-keys.ts';
import { corrupt, readerOf, type RecordStore, valueOf } from './record-store.ts';
import { GLOBAL_TYPES, PIECE_BYTES } from './snapshot-pieces.ts';
import type { StoredSnapshot } from './snapshot-value.ts';

/** Bytes of a part that one request reads: the keys that share all but the last three bytes. */
const WINDOW_BYTES = 2 ** 24;
const WINDOW_KEY_BYTES = 3;

interface SnapshotPlace {
  /** Key of the snapshot's description, for messages. */
  readonly key: Uint8Array;
  /** Prefix of the keys of the snapshot's content. */
  readonly content: Uint8Array;
}

/**
 * Reads a snapshot's content, whose bytes have been taken from `stored` already. Rejects with ServerError
 * `state-corrupt` if content is missing, superfluous or misplaced.
 */
export async function readSnapshot(
  store: RecordStore,
  place: SnapshotPlace,
  { description, pieces }: StoredSnapshot,
  stored: StoredBytes,
): Promise<SnapshotContent> {
  const parts = new PartReader(store, place, PIECE_BYTES[description.source]);
  const globals = await parts.globals();
  const wasm = await parts.whole('w', description.wasmBytes);
  const heap = await parts.whole('h', description.heapBytes);
  const stable = await parts.stable(description.stableBytes);
  const chunks = await parts.chunks(description.chunkHashes);
  const content = contentOf(description, { globals, wasm, heap, stable, chunks }, stored, place);
  if (content.source === 'taken' && parts.pieces !== pieces)
    throw corrupt('blob', place.content, `the snapshot has ${parts.pieces} of ${pieces} pieces`);
  if (content.bytes !== description.bytes)
    throw corrupt('blob', place.content, `the snapshot has ${content.bytes} of ${description.bytes} bytes`);
  return content;
}

interface Parts {
  readonly globals: readonly GlobalValue[];
  readonly wasm: Uint8Array;
  readonly heap: Uint8Array;
  readonly stable: readonly StablePiece[];
  readonly chunks: ReadonlyMap<string, Uint8Array>;
}

function contentOf(
  description: SnapshotDescription,
  { globals, wasm, heap, stable, chunks }: Parts,
  stored: StoredBytes,
  place: SnapshotPlace,
): SnapshotContent {
  const { timerNs, lowMemoryHook } = description;
  if (description.source === 'uploaded') {
    const pages = new Map<number, Uint8Array>();
    for (const { offset, bytes } of stable) {
      if (offset % WASM_PAGE_BYTES !== 0 || bytes.length !== WASM_PAGE_BYTES)
        throw corrupt('blob', pieceKey(place.content, 't', offset), 'it is not a page');
      pages.set(offset / WASM_PAGE_BYTES, bytes);
    }
    return new UploadedSnapshot({ ...description, globals }, stored, { wasm, heap, pages, chunks });
  }
  if (timerNs === undefined || lowMemoryHook === undefined) throw corrupt('meta', place.key, 'no timer or no hook');
  return new TakenSnapshot({ ...description, globals, wasm, heap, stable, chunks, timerNs, lowMemoryHook });
}

class PartReader {
  readonly #store: RecordStore;
  readonly #place: SnapshotPlace;
  readonly #pieceBytes: number;
  /** Pieces and chunks read so far. */
  pieces = 0;

  /** `pieceBytes` is the length of the pieces of module and heap. */
  constructor(store: RecordStore, place: SnapshotPlace, pieceBytes: number) {
    this.#store = store;
    this.#place = place;
    this.#pieceBytes = pieceBytes;
  }

  async whole(part: SnapshotPart, size: number): Promise<Uint8Array> {
    const whole = this.#room(part, size);
    for await (const { offset, bytes } of this.#piecesOf(part, size)) {
      const wanted = Math.min(this.#pieceBytes, size - offset);
      if (offset % this.#pieceBytes !== 0 || bytes.length !== wanted)
        throw corrupt(
          'blob',
          pieceKey(this.#place.content, part, offset),
          `${bytes.length} bytes instead of ${wanted}`,
        );
      whole.set(bytes, offset);
    }
    return whole;
  }

  /** Returns zeroed bytes, which take no memory until they are written to. */
  #room(part: SnapshotPart, size: number): Uint8Array {
    try {
      return part === 'h' ? sharedBytes(size) : new Uint8Array(size);
    } catch {
      throw corrupt('meta', this.#place.key, `there is no room for ${size} bytes`);
    }
  }

  async stable(size: number): Promise<StablePiece[]> {
    const pieces: StablePiece[] = [];
    const slabs = new SharedSlabs();
    let end = 0;
    for await (const piece of this.#piecesOf('t', size)) {
      if (piece.offset < end) throw corrupt('blob', pieceKey(this.#place.content, 't', piece.offset), 'it overlaps');
      end = piece.offset + piece.bytes.length;
      const bytes = slabs.take(piece.bytes.length);
      bytes.set(piece.bytes);
      pieces.push({ offset: piece.offset, bytes });
    }
    return pieces;
  }

  /** Yields the pieces in order. */
  async *#piecesOf(part: SnapshotPart, size: number): AsyncGenerator<StablePiece> {
    for (let from = 0; from < size; from += WINDOW_BYTES) {
      const window = pieceKey(this.#place.content, part, from).subarray(0, -WINDOW_KEY_BYTES);
      for (const [key, bytes] of await this.#store.range('blob', window)) {
        const offset = offsetOf(key);
        if (key.length !== window.length + WINDOW_KEY_BYTES) throw corrupt('blob', key, 'no such piece');
        if (offset + bytes.length > size)
          throw corrupt('blob', key, `${bytes.length} bytes from ${offset} on, where there are ${size}`);
        this.pieces++;
        yield { offset, bytes };
      }
    }
  }

  async globals(): Promise<GlobalValue[]> {
    const prefix = partOf(this.#place.content, 'g');
    const pieces = await this.#store.range('blob', prefix);
    this.pieces += pieces.length;
    const reader = readerOf('blob', prefix, Buffer.concat(pieces.map(([, bytes]) => bytes)));
    const globals = reader.list(() => ({ type: reader.oneOf(GLOBAL_TYPES), bits: reader.leb128() }));
    reader.close();
    return globals;
  }

  async chunks(hashes: readonly string[]): Promise<Map<string, Uint8Array>> {
    const chunks = new Map<string, Uint8Array>();
    for (const hash of hashes) {
      const key = snapshotChunkKey(this.#place.content, Buffer.from(hash, 'hex'));
      const chunk = await valueOf(this.#store, 'blob', key);
      if (chunk === undefined) throw corrupt('blob', key, 'it is missing');
      expectHash(key, chunk, Buffer.from(hash, 'hex'));
      chunks.set(hash, chunk);
      this.pieces++;
    }
    return chunks;
  }
}
