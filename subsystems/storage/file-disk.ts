import * as fs from 'node:fs';
import { join } from 'node:path';
import { type Disk, type DiskFile, diskError } from './disk.ts';
import { PRIVATE_FILE } from './private-files.ts';

/** A directory of the operating system; it must be there. */
export class FileDisk implements Disk {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  list(): readonly string[] {
    return attempt('list', this.#directory, () => fs.readdirSync(this.#directory));
  }

  open(name: string, { create }: { readonly create: boolean }): DiskFile {
    const path = join(this.#directory, name);
    const descriptor = attempt(create ? 'create' : 'open', path, () =>
      fs.openSync(path, create ? 'w+' : 'r+', PRIVATE_FILE),
    );
    return new OpenFile(path, descriptor);
  }

  remove(name: string): void {
    const path = join(this.#directory, name);
    attempt('remove', path, () => fs.unlinkSync(path));
  }

  rename(from: string, to: string): void {
    const path = join(this.#directory, from);
    attempt('rename', path, () => fs.renameSync(path, join(this.#directory, to)));
  }

  syncDirectory(): void {
    attempt('sync', this.#directory, () => {
      const descriptor = fs.openSync(this.#directory, 'r');
      try {
        fs.fsyncSync(descriptor);
      } finally {
        fs.closeSync(descriptor);
      }
    });
  }
}

class OpenFile implements DiskFile {
  readonly #path: string;
  readonly #descriptor: number;

  constructor(path: string, descriptor: number) {
    this.#path = path;
    this.#descriptor = descriptor;
  }

  get sizeBytes(): number {
    return attempt('read', this.#path, () => fs.fstatSync(this.#descriptor).size);
  }

  read(at: number, into: Uint8Array): number {
    let done = 0;
    while (done < into.length) {
      const count = attempt('read', this.#path, () =>
        fs.readSync(this.#descriptor, into, done, into.length - done, at + done),
      );
      if (count === 0) break;
      done += count;
    }
    return done;
  }

  write(at: number, bytes: Uint8Array): void {
    // A disk that is nearly full writes a part first; the rest then fails with the reason.
    for (let done = 0; done < bytes.length;) {
      const count = attempt('write', this.#path, () =>
        fs.writeSync(this.#descriptor, bytes, done, bytes.length - done, at + done),
      );
      if (count === 0) throw diskError('write', this.#path, new Error('the system took no more bytes'));
      done += count;
    }
  }

  /** Data and size; times of the file may follow later. */
  sync(): void {
    attempt('sync', this.#path, () => fs.fdatasyncSync(this.#descriptor));
  }

  close(): void {
    attempt('close', this.#path, () => fs.closeSync(this.#descriptor));
  }
}

function attempt<T>(action: string, path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw diskError(action, path, error);
  }
}
