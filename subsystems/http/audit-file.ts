import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { messageOf, ServerError, tryAppending } from '../../kernel/index.ts';

const FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
const OWNER_AND_GROUP = 0o640;

/** The file of `--audit-file`: whole lines at its end, each handed to the system before `append` returns. */
export class AuditFile {
  readonly #path: string;
  #descriptor: number;
  /** True if the last line was written in part: the next one begins on a line of its own. */
  #isTorn = false;

  /** Throws ServerError `cannot-write-audit`. */
  constructor(path: string) {
    this.#path = path;
    this.#descriptor = this.#open();
  }

  #open(): number {
    try {
      // A pipe without a reader would be waited for; so it fails.
      return openSync(this.#path, FLAGS, OWNER_AND_GROUP);
    } catch (error) {
      throw unwritable(this.#path, error);
    }
  }

  /** Says whether the file could be opened, and changes nothing. Rejects with ServerError `cannot-write-audit`. */
  static async check(path: string): Promise<void> {
    await tryAppending(path).catch((error: unknown) => {
      throw unwritable(path, error);
    });
  }

  /** Writes a line. Throws the system's error if not all of it could be written. */
  append(line: string): void {
    const bytes = Buffer.from(`${this.#isTorn ? '\n' : ''}${line}\n`, 'utf8');
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(this.#descriptor, bytes, written);
      this.#isTorn = false;
    } catch (error) {
      if (written > 0) this.#isTorn = true;
      throw error;
    }
  }

  /** Opens the file by its name again, after it was renamed. On an error the one from before stays. */
  reopen(): void {
    const before = this.#descriptor;
    this.#descriptor = this.#open();
    this.#isTorn = false;
    closeSync(before);
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

function unwritable(path: string, cause: unknown): ServerError {
  const text = `--audit-file: cannot write ${path}: ${messageOf(cause)}`;
  return new ServerError('unavailable', 'cannot-write-audit', text, { cause });
}
