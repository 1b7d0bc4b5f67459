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
import { mkdir, readdir, readFile, rename, stat, unlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
/** Some thousand modules; past it the least recently used go. */
const CACHE_BYTES_MAX = 512 * 1024 * 1024;

export class CompileCache {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async read(key: string): Promise<CacheEntry | undefined> {
    const file = this.#fileOf(key);
    try {
      const entry = decodeEntry(await readFile(file));
      const now = new Date();
      if (entry !== undefined) await utimes(file, now, now).catch(() => undefined);
      return entry;
    } catch {
      return undefined;
    }
  }

  /** Resolves with undefined, or with the reason why nothing was stored. */
  async write(key: string, entry: CacheEntry): Promise<unknown> {
    const temporary = join(this.#directory, `.${key}.${randomUUID()}`);
    try {
      await mkdir(this.#directory, { recursive: true });
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

  async #prune(): Promise<void> {
    const names = (await readdir(this.#directory)).filter((name) => name.endsWith(EXTENSION));
    const entries = await Promise.all(
      names.map(async (name) => {
        const file = join(this.#directory, name);
        const status = await stat(file);
        return { file, bytes: status.size, usedMs: status.mtimeMs };
      }),
    );
    let bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
    for (const entry of entries.toSorted((a, b) => a.usedMs - b.usedMs)) {
      if (bytes <= CACHE_BYTES_MAX) return;
      bytes -= entry.bytes;
      await unlink(entry.file);
    }
  }
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
