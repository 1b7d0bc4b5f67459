import { hexOf } from '../ic/index.ts';
import { createHash } from 'node:crypto';
import type { ChunkRecords } from './records/chunk-records.ts';
import { REFUSE } from './refusal.ts';
import type { StoredBytes } from './stored-bytes.ts';

export const CHUNK_BYTES_MAX = 1 << 20;
/** Room for 100 MiB, the largest module. */
export const CHUNKS_MAX = 100;

/** Chunks by the hex of their SHA-256. A chunk never changes, so stores and snapshots share them. */
export type Chunks = ReadonlyMap<string, Uint8Array>;

export function bytesOfChunks(chunks: Chunks): number {
  let bytes = 0;
  for (const chunk of chunks.values()) bytes += chunk.length;
  return bytes;
}

/** Pieces of modules uploaded to one canister. */
export class ChunkStore {
  readonly #stored: StoredBytes;
  readonly #records: ChunkRecords | undefined;
  #chunks: Map<string, Uint8Array>;
  /** Lengths of chunks that are only on disk, because none has been asked for since the start. */
  #unread = new Map<string, number>();

  /**
   * `chunks` is the initial content, already taken from `stored`. Without `records` the store does not survive a
   * restart.
   */
  constructor(stored: StoredBytes, records: ChunkRecords | undefined, chunks?: Chunks) {
    this.#stored = stored;
    this.#records = records;
    this.#chunks = new Map(chunks);
  }

  /** Returns the chunks in memory; after `load`, all chunks. */
  get chunks(): Chunks {
    return this.#chunks;
  }

  get hashes(): string[] {
    return [...this.#unread.keys(), ...this.#chunks.keys()];
  }

  get isEmpty(): boolean {
    return this.#chunks.size + this.#unread.size === 0;
  }

  get bytes(): number {
    let bytes = bytesOfChunks(this.#chunks);
    for (const length of this.#unread.values()) bytes += length;
    return bytes;
  }

  /** Adds a chunk that was there at the start and is already counted. */
  restore(hash: Uint8Array, length: number): void {
    this.#unread.set(hexOf(hash), length);
  }

  /** Reads the chunks that are only on disk. Rejects with ServerError `state-corrupt`. */
  async load(): Promise<void> {
    for (const key of this.#unread.keys()) await this.get(key);
  }

  /** Returns the chunk with this SHA-256, in hex. Rejects with ServerError `state-corrupt`. */
  async get(key: string): Promise<Uint8Array | undefined> {
    const length = this.#unread.get(key);
    if (length === undefined || this.#records === undefined) return this.#chunks.get(key);
    const unread = this.#unread;
    // Meanwhile the store may be cleared, or another call may read the chunk.
    const isWanted = () => this.#unread === unread && unread.has(key);
    try {
      const chunk = await this.#records.read(Buffer.from(key, 'hex'), length);
      if (isWanted()) this.#chunks.set(key, chunk);
    } catch (error) {
      if (isWanted()) throw error;
    }
    unread.delete(key);
    return this.#chunks.get(key);
  }

  /** Adds a chunk; returns its SHA-256. */
  add(chunk: Uint8Array): Uint8Array {
    if (chunk.length > CHUNK_BYTES_MAX)
      throw REFUSE.badArgument(`the chunk has ${chunk.length} bytes: at most ${CHUNK_BYTES_MAX} are allowed`);
    const hash = createHash('sha256').update(chunk).digest();
    const key = hexOf(hash);
    if (this.#chunks.has(key) || this.#unread.has(key)) return hash;
    if (this.#chunks.size + this.#unread.size >= CHUNKS_MAX)
      throw REFUSE.wrongState(
        `the chunk store holds ${CHUNKS_MAX} of ${CHUNKS_MAX} chunks: install a module from them, or clear the store`,
      );
    this.#stored.take(chunk.length);
    this.#chunks.set(key, chunk);
    this.#records?.put(hash, chunk);
    return hash;
  }

  clear(): void {
    if (this.isEmpty) return;
    this.#stored.give(this.bytes);
    this.#chunks = new Map();
    this.#unread = new Map();
    this.#records?.clear();
  }

  /** Replaces all chunks; throws a Refusal if there is no room for the new ones. */
  replace(chunks: Chunks): void {
    this.#stored.take(bytesOfChunks(chunks));
    this.#stored.give(this.bytes);
    const before = new Set(this.hashes);
    this.#chunks = new Map(chunks);
    this.#unread = new Map();
    if (this.#records === undefined) return;
    for (const key of before) if (!chunks.has(key)) this.#records.delete(Buffer.from(key, 'hex'));
    for (const [key, chunk] of chunks) if (!before.has(key)) this.#records.put(Buffer.from(key, 'hex'), chunk);
  }
}
