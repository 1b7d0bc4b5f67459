/** A storage whose units can be looked at one by one, to see what a crash between two of them leaves behind. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CommitQueue, type StoragePort, type StorageReceiver } from '../../subsystems/storage/commit-queue.ts';
import { type Entry, FAMILIES, type Family } from '../../subsystems/storage/index.ts';
import { RecordPacker } from '../../subsystems/storage/record-packer.ts';
import type { ToStorage } from '../../subsystems/storage/storage-wire.ts';
import { applyWriteBatch } from '../../subsystems/storage/write-batch.ts';

/** The shipped commit queue; its units are durable as soon as they are sealed. */
export class RecordedStorage extends CommitQueue {
  readonly #port: RecordingPort;

  /** `units`: the units that are stored already. */
  constructor(units: readonly Uint8Array[] = []) {
    const port = new RecordingPort(units);
    super(port, {
      onFailure: (error) => {
        throw error;
      },
    });
    this.#port = port;
    void this.open();
  }

  /** The sealed units. */
  get units(): readonly Uint8Array[] {
    return this.#port.units;
  }

  /** Number of reads so far. */
  get reads(): number {
    return this.#port.reads;
  }

  /** Returns the entries of a family in the order of their keys, which are in hex. */
  entries(family: Family): [key: string, value: Uint8Array][] {
    return this.#port.entries(family);
  }

  /** Replaces a value by another, as damage would. `key`: hex. */
  damage(family: Family, key: string, value: Uint8Array | undefined): void {
    this.#port.damage(family, key, value);
  }

  /** Returns the storage of a new process after the first `units` units, or all of them; unsealed changes are gone. */
  restart(units: number = this.units.length): RecordedStorage {
    return new RecordedStorage(this.units.slice(0, units));
  }
}

class RecordingPort implements StoragePort {
  readonly units: Uint8Array[] = [];
  reads = 0;
  readonly #families = new Map<Family, Map<string, Uint8Array>>(FAMILIES.map((family) => [family, new Map()]));
  #receiver: StorageReceiver | undefined;

  constructor(units: readonly Uint8Array[]) {
    for (const unit of units) this.#keep(unit);
  }

  open(receiver: StorageReceiver): void {
    this.#receiver = receiver;
    receiver.receive({ kind: 'opened', last: this.units.length });
  }

  /** Returns false: units are kept as they are, so they have to be the port's own bytes. */
  copy(): boolean {
    return false;
  }

  send(message: ToStorage): boolean {
    if (message.kind === 'unit') this.#keep(message.unit);
    else void this.#answer(message);
    return true;
  }

  publish(): void {
    this.#receiver?.durable(this.units.length);
  }

  end(): Promise<void> {
    return Promise.resolve();
  }

  async #answer({ call, request }: ToStorage & { readonly kind: 'request' }): Promise<void> {
    // The answer comes in a later turn, as from another thread.
    await nextTurn();
    this.#receiver?.receive({ kind: 'answer', call, answer: this.#answerTo(request) });
  }

  #answerTo(request: (ToStorage & { readonly kind: 'request' })['request']): unknown {
    if (request.kind === 'close') return undefined;
    if (request.kind === 'get') {
      this.reads++;
      return this.#of(request.family).get(hexOf(request.key))?.slice();
    }
    if (request.kind === 'values') {
      this.reads++;
      const packer = new RecordPacker();
      const start = hexOf(request.prefix);
      for (const [key, value] of this.entries(request.family)) if (key.startsWith(start)) packer.add(value);
      return packer.take();
    }
    if (request.kind === 'keys') {
      const from = hexOf(request.from);
      const keys = this.entries(request.family).map(([key]) => key);
      return { keys: keys.filter((key) => key >= from).map((key) => Buffer.from(key, 'hex')), next: undefined };
    }
    if (request.kind !== 'range') throw new Error(`what is recorded answers no '${request.kind}'`);
    this.reads++;
    const prefix = hexOf(request.prefix);
    return this.entries(request.family)
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, value]): Entry => [Buffer.from(key, 'hex'), value.slice()]);
  }

  #keep(unit: Uint8Array): void {
    this.units.push(unit);
    applyWriteBatch(unit, {
      put: (family, key, value) => void this.#of(family).set(hexOf(key), value.slice()),
      delete: (family, key) => void this.#of(family).delete(hexOf(key)),
      clear: (family, prefix) => {
        const entries = this.#of(family);
        for (const key of entries.keys()) if (key.startsWith(hexOf(prefix))) entries.delete(key);
      },
      patch: () => {
        throw new Error('no patch was expected');
      },
    });
  }

  #of(family: Family): Map<string, Uint8Array> {
    const entries = this.#families.get(family);
    if (entries === undefined) throw new Error(`no family ${family}`);
    return entries;
  }

  entries(family: Family): [key: string, value: Uint8Array][] {
    return [...this.#of(family)].toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  damage(family: Family, key: string, value: Uint8Array | undefined): void {
    if (value === undefined) this.#of(family).delete(key);
    else this.#of(family).set(key, value);
  }
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
