import { sameBytes } from '../../ic/index.ts';
import { createHash } from 'node:crypto';
import { type RecordReader, RecordWriter } from '../../bytes/index.ts';
import { chunkContentKey, chunkContentsOf, chunkKey, chunksOf } from './record-keys.ts';
import { corrupt, type RecordStore, unitOf, valueOf } from './record-store.ts';

/** Records of one canister's chunk store: lengths are read at the start, contents when they are needed. */
export class ChunkRecords {
  readonly #store: RecordStore;
  readonly #owner: Uint8Array;

  constructor(store: RecordStore, owner: Uint8Array) {
    this.#store = store;
    this.#owner = owner;
  }

  put(hash: Uint8Array, chunk: Uint8Array): void {
    const unit = unitOf(this.#store);
    const length = new RecordWriter();
    length.leb128(chunk.length);
    unit?.put('meta', chunkKey(this.#owner, hash), length.view());
    unit?.put('blob', chunkContentKey(this.#owner, hash), chunk);
  }

  delete(hash: Uint8Array): void {
    const unit = unitOf(this.#store);
    unit?.delete('meta', chunkKey(this.#owner, hash));
    unit?.delete('blob', chunkContentKey(this.#owner, hash));
  }

  clear(): void {
    const unit = unitOf(this.#store);
    unit?.clear('meta', chunksOf(this.#owner));
    unit?.clear('blob', chunkContentsOf(this.#owner));
  }

  /** Reads a chunk. Rejects with ServerError `state-corrupt`. */
  async read(hash: Uint8Array, length: number): Promise<Uint8Array> {
    const key = chunkContentKey(this.#owner, hash);
    const chunk = await valueOf(this.#store, 'blob', key);
    if (chunk === undefined) throw corrupt('blob', key, 'it is missing');
    if (chunk.length !== length) throw corrupt('blob', key, `${chunk.length} bytes instead of ${length}`);
    expectHash(key, chunk, hash);
    return chunk;
  }
}

/** Returns the length of a chunk. */
export function readChunkLength(value: RecordReader, max: number): number {
  const length = value.leb128Number(max);
  value.close();
  return length;
}

/** Throws ServerError `state-corrupt` if the chunk does not have this hash. */
export function expectHash(key: Uint8Array, chunk: Uint8Array, hash: Uint8Array): void {
  const actual = createHash('sha256').update(chunk).digest();
  if (!sameBytes(actual, hash)) throw corrupt('blob', key, 'its SHA-256 does not match');
}
