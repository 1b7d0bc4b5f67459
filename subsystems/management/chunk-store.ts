import { createHash } from 'node:crypto';
import { hexOf } from './candid-values.ts';
import { REFUSE } from './refusal.ts';
import type { StoredBytes } from './stored-bytes.ts';

export const CHUNK_BYTES_MAX = 1 << 20;
/** 100 MiB, the largest module. */
export const CHUNKS_MAX = 100;

/** Chunks by the hex of their SHA-256. A chunk never changes, so stores and snapshots share them. */
export type Chunks = ReadonlyMap<string, Uint8Array>;

export function bytesOfChunks(chunks: Chunks): number {
  let bytes = 0;
  for (const chunk of chunks.values()) bytes += chunk.length;
  return bytes;
}

/** Pieces of modules that were uploaded to one canister. */
export class ChunkStore {
  readonly #stored: StoredBytes;
  #chunks = new Map<string, Uint8Array>();

  constructor(stored: StoredBytes) {
    this.#stored = stored;
  }

  get chunks(): Chunks {
    return this.#chunks;
  }

  get bytes(): number {
    return bytesOfChunks(this.#chunks);
  }

  /** Answers the chunk's SHA-256. */
  add(chunk: Uint8Array): Uint8Array {
    if (chunk.length > CHUNK_BYTES_MAX)
      throw REFUSE.badArgument(`the chunk has ${chunk.length} bytes: at most ${CHUNK_BYTES_MAX} are allowed`);
    const hash = createHash('sha256').update(chunk).digest();
    const key = hexOf(hash);
    if (this.#chunks.has(key)) return hash;
    if (this.#chunks.size >= CHUNKS_MAX)
      throw REFUSE.wrongState(
        `the chunk store holds ${CHUNKS_MAX} of ${CHUNKS_MAX} chunks: install what is there, or clear it`,
      );
    this.#stored.take(chunk.length);
    this.#chunks.set(key, chunk);
    return hash;
  }

  clear(): void {
    this.#stored.give(this.bytes);
    this.#chunks = new Map();
  }

  /** Puts these in place of what is there; refuses when there is no room for them. */
  replace(chunks: Chunks): void {
    this.#stored.take(bytesOfChunks(chunks));
    this.#stored.give(this.bytes);
    this.#chunks = new Map(chunks);
  }
}
