/** A backup as a file, read once from its beginning to its end. */
import { type FileHandle, open } from 'node:fs/promises';
import { messageOf, ServerError } from '../../kernel/index.ts';
import { BLOCK_BYTES_MAX } from './backup-format.ts';
import { BackupParser, type BackupSource } from './backup-parser.ts';
import type { BackupFile } from './index.ts';
import { isForbidden } from './state-problems.ts';
import type { Change } from './tables.ts';

/** A backup for a storage that comes from outside (`--restore` with `--plugin storage=…`). */
export class ReadableBackup implements BackupFile {
  readonly path: string;
  entries = 0;
  bytes = 0;

  constructor(path: string) {
    this.path = path;
  }

  async *changes(): AsyncGenerator<readonly Change[], void, void> {
    await using source = await FileSource.open(this.path);
    const parser = new BackupParser(source);
    for await (const batch of parser.changes()) {
      yield batch;
      this.entries = parser.entries;
      this.bytes = parser.bytes;
    }
    this.bytes = parser.bytes;
  }
}

/** The file, from its beginning to its end; a pipe will do. */
export class FileSource implements BackupSource, AsyncDisposable {
  readonly name: string;
  /** Undefined for what has no size, such as a pipe. */
  readonly sizeBytes: number | undefined;
  readonly #file: FileHandle;
  readonly #buffer = Buffer.alloc(2 * BLOCK_BYTES_MAX);
  #start = 0;
  #end = 0;
  #isAtEnd = false;

  static async open(path: string): Promise<FileSource> {
    let file: FileHandle | undefined;
    try {
      file = await open(path, 'r');
      const status = await file.stat();
      if (status.isDirectory()) throw new Error('it is a directory');
      return new FileSource(path, file, status.isFile() ? status.size : undefined);
    } catch (error) {
      await file?.close();
      throw unreadable(path, error);
    }
  }

  private constructor(name: string, file: FileHandle, sizeBytes: number | undefined) {
    this.name = name;
    this.sizeBytes = sizeBytes;
    this.#file = file;
  }

  async take(length: number): Promise<Uint8Array> {
    if (this.#end - this.#start < length) {
      this.#buffer.copyWithin(0, this.#start, this.#end);
      this.#end -= this.#start;
      this.#start = 0;
      while (this.#end < length && !this.#isAtEnd) await this.#read();
    }
    const bytes = this.#buffer.subarray(this.#start, Math.min(this.#start + length, this.#end));
    this.#start += bytes.length;
    return bytes;
  }

  async #read(): Promise<void> {
    try {
      const { bytesRead } = await this.#file.read(this.#buffer, this.#end, this.#buffer.length - this.#end, null);
      this.#end += bytesRead;
      this.#isAtEnd = bytesRead === 0;
    } catch (error) {
      throw unreadable(this.name, error);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#file.close();
  }
}

function unreadable(path: string, cause: unknown): ServerError {
  const words = messageOf(cause);
  const reason = isForbidden(cause) ? `this user may not read it: give it a copy of its own (${words})` : words;
  return new ServerError('invalid', 'backup-unreadable', `the backup ${path} cannot be read: ${reason}`, { cause });
}
