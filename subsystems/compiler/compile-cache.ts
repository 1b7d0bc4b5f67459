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
import { readdir, readFile, rename, stat, unlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory } from '../../kernel/index.ts';
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
/** A file that is still unfinished after this long belongs to a process that was killed. */
const UNFINISHED_MS_MAX = 60 * 60_000;

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

  async #prune(): Promise<void> {
    const found = await Promise.all((await readdir(this.#directory)).map((name) => this.#describe(name)));
    const files = found.filter((file) => file !== undefined);
    let bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    for (const file of files.toSorted((a, b) => a.usedMs - b.usedMs)) {
      const isAbandoned = !file.isFinished && file.usedMs < Date.now() - UNFINISHED_MS_MAX;
      if (!isAbandoned && (bytes <= CACHE_BYTES_MAX || !file.isFinished)) continue;
      bytes -= file.bytes;
      await unlink(file.path).catch(() => undefined);
    }
  }

  /** Undefined for what the cache did not write, and for what another process has just removed. */
  async #describe(name: string): Promise<CacheFile | undefined> {
    const isFinished = name.endsWith(EXTENSION);
    if (!isFinished && !UNFINISHED_NAME.test(name)) return undefined;
    const path = join(this.#directory, name);
    const status = await stat(path).catch(() => undefined);
    return status && { path, isFinished, bytes: status.size, usedMs: status.mtimeMs };
  }
}

interface CacheFile {
  readonly path: string;
  readonly isFinished: boolean;
  readonly bytes: number;
  readonly usedMs: number;
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
