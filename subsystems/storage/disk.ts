import { messageOf, ServerError } from '../../kernel/index.ts';

/**
 * One directory of files, without subdirectories. All calls are synchronous, and all errors are ServerErrors
 * `state-unwritable` with the file and the words of the system.
 *
 * What was written is on disk only after `sync` of that file; that a name came, went or changed, only after
 * `syncDirectory`. Until then a power cut may leave any part of it, in sectors of 512 bytes.
 */
export interface Disk {
  /** Names of all files, in no order. */
  list(): readonly string[];
  /**
   * Opens a file for reading and writing. With `create` the file is made, or emptied if it exists; without, it must
   * exist.
   */
  open(name: string, options: { readonly create: boolean }): DiskFile;
  remove(name: string): void;
  /** Replaces `to` if it is there. Files that are open stay open. */
  rename(from: string, to: string): void;
  syncDirectory(): void;
}

export interface DiskFile {
  readonly sizeBytes: number;
  /** Fills `into` from there, up to the file's end; returns how many bytes it read. */
  read(at: number, into: Uint8Array): number;
  /** Writes all bytes; the file grows as needed. */
  write(at: number, bytes: Uint8Array): void;
  sync(): void;
  close(): void;
}

/** The error of a disk: `action` is a verb, such as `write`. */
export function diskError(action: string, file: string, cause: unknown): ServerError {
  return new ServerError('unavailable', 'state-unwritable', `cannot ${action} ${file}: ${messageOf(cause)}`, { cause });
}
