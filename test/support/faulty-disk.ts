/**
 * A directory in memory that keeps written bytes and bytes on disk apart, and that fails when told to.
 *
 * A write goes to the system's memory; `sync` of the file brings it to the disk, `syncDirectory` does the same with
 * names. After a power cut each sector of 512 bytes has, independently of the others, one of the versions that it had
 * since the last sync; any subset of the changes of names may have happened.
 */
import { type Disk, type DiskFile, diskError } from '../../subsystems/storage/disk.ts';
import type { Seeded } from './seeded.ts';

const SECTOR_BYTES = 512;

/** The process is gone: code that catches this must not go on. */
export class Crash extends Error {
  override readonly name = 'Crash';
}

/** Faults to come, each counted from now on; a fault that is left out never happens. */
interface Faults {
  /** The process ends at this write point: 1 is the next one. */
  readonly crashAt?: number;
  /** This sync of a file fails, and later ones of that file lie: they succeed, and nothing reaches the disk. */
  readonly failSyncAt?: number;
  /** Number of bytes by which all files together can grow. */
  readonly freeBytes?: number;
}

type NameChange =
  | { readonly kind: 'create'; readonly name: string; readonly file: StoredFile }
  | { readonly kind: 'remove'; readonly name: string }
  | { readonly kind: 'rename'; readonly name: string; readonly to: string };

export class FaultyDisk implements Disk {
  /** The names as the process sees them, then as they are on disk. */
  readonly #names = new Map<string, StoredFile>();
  readonly #namesOnDisk = new Map<string, StoredFile>();
  readonly #nameChanges: NameChange[] = [];
  #writePoints = 0;
  #syncs = 0;
  #crashAt = Infinity;
  #failSyncAt = Infinity;
  #freeBytes = Infinity;
  #isCrashed = false;
  #hasFailed = false;

  /** True if a sync has failed or a file had no room to grow; a process that sees this ends. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Number of writes, syncs and changes of names so far. */
  get writePoints(): number {
    return this.#writePoints;
  }

  /** Arms these faults in place of those that were armed before. */
  arm({ crashAt = Infinity, failSyncAt = Infinity, freeBytes = Infinity }: Faults): void {
    this.#crashAt = this.#writePoints + crashAt;
    this.#failSyncAt = this.#syncs + failSyncAt;
    this.#freeBytes = freeBytes;
  }

  list(): readonly string[] {
    this.#assertRunning();
    return [...this.#names.keys()];
  }

  open(name: string, { create }: { readonly create: boolean }): DiskFile {
    this.#assertRunning();
    let file = this.#names.get(name);
    if (create) {
      file = new StoredFile();
      this.#change({ kind: 'create', name, file });
    }
    if (file === undefined) throw diskError('open', name, new Error('ENOENT: no such file or directory'));
    return this.#handle(name, file);
  }

  remove(name: string): void {
    this.#assertThere('remove', name);
    this.#change({ kind: 'remove', name });
  }

  rename(from: string, to: string): void {
    this.#assertThere('rename', from);
    this.#change({ kind: 'rename', name: from, to });
  }

  syncDirectory(): void {
    this.#writePoint();
    for (const change of this.#nameChanges.splice(0)) applyChange(this.#namesOnDisk, change);
  }

  /** Returns the disk after the process was killed while the machine runs on: every write is there, on disk or not. */
  killed(): FaultyDisk {
    const disk = new FaultyDisk();
    const copies = new Map<StoredFile, StoredFile>();
    const copyOf = (file: StoredFile): StoredFile => {
      const copy = copies.get(file) ?? file.copy();
      copies.set(file, copy);
      return copy;
    };
    for (const [name, file] of this.#names) disk.#names.set(name, copyOf(file));
    for (const [name, file] of this.#namesOnDisk) disk.#namesOnDisk.set(name, copyOf(file));
    for (const change of this.#nameChanges) {
      disk.#nameChanges.push(change.kind === 'create' ? { ...change, file: copyOf(change.file) } : change);
    }
    return disk;
  }

  /** Returns the disk as the machine may find it after a power cut. */
  survivor(random: Seeded): FaultyDisk {
    const disk = new FaultyDisk();
    const names = new Map(this.#namesOnDisk);
    // All changes of names, none, or each by itself.
    const lot = random.below(4);
    for (const change of this.#nameChanges) {
      if (lot === 0 || (lot > 1 && random.oneIn(2))) applyChange(names, change);
    }
    for (const [name, file] of names) {
      const found = file.survivor(random);
      disk.#names.set(name, found);
      disk.#namesOnDisk.set(name, found);
    }
    return disk;
  }

  /** Returns the bytes of a file as the process sees them: a view, for damaging the file. */
  bytesOf(name: string): Uint8Array {
    const file = this.#names.get(name);
    if (file === undefined) throw new Error(`no file ${name}`);
    return file.bytes;
  }

  /** Cuts a file to a length, as another program might. */
  truncate(name: string, length: number): void {
    const file = this.#names.get(name);
    if (file === undefined) throw new Error(`no file ${name}`);
    file.truncate(length);
  }

  #handle(name: string, file: StoredFile): DiskFile {
    let isOpen = true;
    const assertOpen = (): void => {
      this.#assertRunning();
      if (!isOpen) throw new Error(`${name} is closed`);
    };
    const size = (): number => {
      assertOpen();
      return file.bytes.length;
    };
    return {
      get sizeBytes() {
        return size();
      },
      read: (at, into) => {
        assertOpen();
        const found = file.bytes.subarray(at, at + into.length);
        into.set(found);
        return found.length;
      },
      write: (at, bytes) => {
        assertOpen();
        const room = file.bytes.length + this.#freeBytes - at;
        const taken = bytes.subarray(0, Math.max(0, Math.min(bytes.length, room)));
        this.#freeBytes -= Math.max(0, at + taken.length - file.bytes.length);
        this.#writePoint(() => file.write(at, taken));
        if (taken.length < bytes.length) {
          this.#hasFailed = true;
          throw diskError('write', name, new Error('ENOSPC: no space left on device, write'));
        }
      },
      sync: () => {
        assertOpen();
        this.#writePoint();
        if (++this.#syncs === this.#failSyncAt) {
          file.isLying = true;
          this.#hasFailed = true;
          throw diskError('sync', name, new Error('EIO: i/o error, fdatasync'));
        }
        file.sync();
      },
      // A process that is gone closes its handles, too: the system does it.
      close: () => {
        isOpen = false;
      },
    };
  }

  #change(change: NameChange): void {
    this.#writePoint(() => {
      applyChange(this.#names, change);
      this.#nameChanges.push(change);
    });
  }

  /**
   * Counts a write point. A crash comes after the write, which may not have reached the disk anyway, and before a sync.
   */
  #writePoint(write?: () => void): void {
    this.#assertRunning();
    write?.();
    if (++this.#writePoints !== this.#crashAt) return;
    this.#isCrashed = true;
    throw new Crash(`at write point ${this.#writePoints}`);
  }

  #assertRunning(): void {
    if (this.#isCrashed) throw new Crash('the process is gone');
  }

  #assertThere(action: string, name: string): void {
    this.#assertRunning();
    if (!this.#names.has(name)) throw diskError(action, name, new Error('ENOENT: no such file or directory'));
  }
}

/** Applies a change of a name; one whose prerequisite did not happen has no effect. */
function applyChange(names: Map<string, StoredFile>, change: NameChange): void {
  if (change.kind === 'create') {
    names.set(change.name, change.file);
    return;
  }
  const file = names.get(change.name);
  if (file === undefined) return;
  names.delete(change.name);
  if (change.kind === 'rename') names.set(change.to, file);
}

interface Write {
  readonly at: number;
  readonly bytes: Uint8Array;
}

class StoredFile {
  /** Set after a failed sync: later syncs succeed and do nothing. */
  isLying = false;
  #written = new Content();
  #onDisk = new Content();
  #unsynced: Write[] = [];

  get bytes(): Uint8Array {
    return this.#written.bytes;
  }

  write(at: number, bytes: Uint8Array): void {
    const write = { at, bytes: new Uint8Array(bytes) };
    this.#written.put(write);
    this.#unsynced.push(write);
  }

  sync(): void {
    if (this.isLying) return;
    for (const write of this.#unsynced) this.#onDisk.put(write);
    this.#unsynced = [];
  }

  truncate(length: number): void {
    this.#written = new Content(this.#written.bytes.slice(0, length));
    this.#onDisk = new Content(this.#onDisk.bytes.slice(0, length));
    this.#unsynced = [];
  }

  copy(): StoredFile {
    const copy = new StoredFile();
    copy.isLying = this.isLying;
    copy.#written = new Content(this.#written.bytes.slice());
    copy.#onDisk = new Content(this.#onDisk.bytes.slice());
    copy.#unsynced = [...this.#unsynced];
    return copy;
  }

  survivor(random: Seeded): StoredFile {
    const file = new StoredFile();
    const survived = new Content(this.#onDisk.bytes.slice());
    // All, none, or each sector by itself.
    const lot = random.below(4);
    for (const versions of lot === 1 ? [] : sectorsOf(this.#unsynced)) {
      const last = lot === 0 ? versions.length : random.below(versions.length + 1);
      for (const write of versions.slice(0, last)) survived.put(write);
    }
    file.#onDisk = survived;
    file.#written = new Content(survived.bytes.slice());
    return file;
  }
}

/** Bytes that writes change and extend; there is room behind them, because most writes append. */
class Content {
  #room: Uint8Array;
  #length: number;

  constructor(bytes: Uint8Array = new Uint8Array()) {
    this.#room = bytes;
    this.#length = bytes.length;
  }

  get bytes(): Uint8Array {
    return this.#room.subarray(0, this.#length);
  }

  put({ at, bytes }: Write): void {
    const end = at + bytes.length;
    if (end > this.#room.length) {
      const { bytes: before } = this;
      this.#room = new Uint8Array(end + before.length);
      this.#room.set(before);
    }
    this.#length = Math.max(this.#length, end);
    this.#room.set(bytes, at);
  }
}

/** Returns, for each sector, the parts of the writes that touch it, in their order. */
function sectorsOf(writes: readonly Write[]): Iterable<readonly Write[]> {
  const sectors = new Map<number, Write[]>();
  for (const { at, bytes } of writes) {
    for (let from = at; from < at + bytes.length;) {
      const sector = Math.floor(from / SECTOR_BYTES);
      const to = Math.min((sector + 1) * SECTOR_BYTES, at + bytes.length);
      const versions = sectors.get(sector) ?? [];
      versions.push({ at: from, bytes: bytes.subarray(from - at, to - at) });
      sectors.set(sector, versions);
      from = to;
    }
  }
  return sectors.values();
}
