/**
 * Compiled modules on disk, one file each, named by the SHA-256 of what they were compiled from. The layout:
 *
 *     svc-motoko-1\n            what it is, and the version of this layout
 *     <sha-256 of the rest>     32 bytes
 *     <length of header>        4 bytes, big-endian
 *     <header>                  JSON: candid, stable types, warnings
 *     <module>                  to the end
 *
 * A file is written beside its place and renamed, so a reader sees all of it or nothing; whatever does not match its
 * own checksum is treated as absent. The cache is only ever a shortcut: no failure to read or write it is an error.
 */
import { createHash, randomUUID } from 'node:crypto';
import { readFile, rename, unlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory, pruneCache } from '../../kernel/index.ts';
import type { Diagnostic } from './diagnostics.ts';

export interface CacheEntry {
  readonly wasm: Uint8Array;
  readonly candid: string;
  readonly stableTypes: string;
  readonly warnings: readonly Diagnostic[];
}

const MAGIC = Buffer.from('svc-motoko-1\n');
const DIGEST_BYTES = 32;
const PREFIX_BYTES = MAGIC.length + DIGEST_BYTES;
const EXTENSION = '.motoko';
const UNFINISHED_NAME = /^\.[0-9a-z]+\.[0-9a-f-]{36}$/u;
/** Bytes of some thousand modules; beyond them the least recently used modules go. */
const CACHE_BYTES_MAX = 512 * 1024 * 1024;

export class CompileCache {
  readonly #directory: string;
  readonly #behind: CompileCache | undefined;

  /** Entries that are not in `directory` are looked for in the cache `behind`, which gets all new ones, too. */
  constructor(directory: string, behind?: CompileCache) {
    this.#directory = directory;
    this.#behind = behind;
  }

  async read(key: string): Promise<CacheEntry | undefined> {
    const own = await this.#readOwn(key);
    if (own !== undefined || this.#behind === undefined) return own;
    const entry = await this.#behind.read(key);
    if (entry !== undefined) await this.#writeOwn(key, entry);
    return entry;
  }

  /** Resolves with undefined, or with the reason why this directory could not keep the entry. */
  async write(key: string, entry: CacheEntry): Promise<unknown> {
    await this.#behind?.write(key, entry);
    return await this.#writeOwn(key, entry);
  }

  /** Resolves with this directory's own entry, and leaves no trace of having been used. */
  async peek(key: string): Promise<CacheEntry | undefined> {
    try {
      return decodeEntry(await readFile(this.#fileOf(key)));
    } catch {
      return undefined;
    }
  }

  async #readOwn(key: string): Promise<CacheEntry | undefined> {
    const entry = await this.peek(key);
    const now = new Date();
    if (entry !== undefined) await utimes(this.#fileOf(key), now, now).catch(() => undefined);
    return entry;
  }

  async #writeOwn(key: string, entry: CacheEntry): Promise<unknown> {
    const temporary = join(this.#directory, `.${key}.${randomUUID()}`);
    try {
      await makeDirectory(this.#directory);
      await writeFile(temporary, encodeEntry(entry));
      await rename(temporary, this.#fileOf(key));
      await this.#prune();
      return undefined;
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      return error;
    }
  }

  #fileOf(key: string): string {
    return join(this.#directory, `${key}${EXTENSION}`);
  }

  #prune(): Promise<void> {
    return pruneCache(this.#directory, { bytesMax: CACHE_BYTES_MAX, kindOf });
  }
}

function kindOf(name: string): 'finished' | 'unfinished' | undefined {
  if (name.endsWith(EXTENSION)) return 'finished';
  return UNFINISHED_NAME.test(name) ? 'unfinished' : undefined;
}

function encodeEntry({ wasm, ...rest }: CacheEntry): Buffer {
  const header = Buffer.from(JSON.stringify(rest));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(header.length);
  const content = Buffer.concat([length, header, wasm]);
  return Buffer.concat([MAGIC, createHash('sha256').update(content).digest(), content]);
}

function decodeEntry(file: Buffer): CacheEntry | undefined {
  const content = file.subarray(PREFIX_BYTES);
  if (!file.subarray(0, MAGIC.length).equals(MAGIC) || content.length < 4) return undefined;
  if (!createHash('sha256').update(content).digest().equals(file.subarray(MAGIC.length, PREFIX_BYTES)))
    return undefined;
  const headerEnd = 4 + content.readUInt32BE(0);
  // The checksum holds, so this is what `encodeEntry` wrote.
  const header = JSON.parse(content.toString('utf8', 4, headerEnd)) as Omit<CacheEntry, 'wasm'>;
  // An array of its own: views into a larger buffer cannot be handed to another thread.
  return { ...header, wasm: new Uint8Array(content.subarray(headerEnd)) };
}
