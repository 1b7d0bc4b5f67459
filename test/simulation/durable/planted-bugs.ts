/**
 * Deliberate mistakes in the shipped commit queue and on its way to storage: the simulator must find each of them.
 *
 * None is a switch of the server: each one is a port, a queue or a unit with one mistake that is put in the place of
 * the right one.
 */
import { applyWriteBatch, WriteBatch } from '../../../subsystems/storage/write-batch.ts';
import { META, metaKey } from '../../../subsystems/storage/keyspace.ts';
import { type Entry, isPayloadKey, rowsOfPayload } from '../../../subsystems/storage/index.ts';
import type { StateStore } from '../../../subsystems/storage/state-store.ts';
import { INLINE_BYTES_MAX, type ToStorage } from '../../../subsystems/storage/storage-wire.ts';
import { RecordWriter } from '../../../subsystems/bytes/index.ts';
import { CONTEXT, readRecord } from '../../../subsystems/scheduler/call-records.ts';
import type { Seeded } from '../../support/seeded.ts';
import { type Bug, CONTROL } from './plan.ts';
import type { Mistake } from './planted-port.ts';
import { SimulatedStorage, type SimulatedStorageOptions } from './simulated-storage.ts';

/** Returns a storage with the bug, or the right one if the bug is none of storage. */
export function storageWith(
  bug: Bug | undefined,
  store: StateStore,
  seeded: Seeded,
  options: SimulatedStorageOptions,
): SimulatedStorage {
  const withPort = (mistake: Mistake): SimulatedStorage => new SimulatedStorage(store, { ...options, mistake });
  switch (bug) {
    case CONTROL:
      return withPort({});
    case 'answers-too-early':
      return withPort({ isHasty: true });
    case 'waits-for-the-unit-before':
      return new EarlyStorage(store, options);
    case 'lost-page':
      return new ForgetfulStorage(store, options, (changes) => (seeded.oneIn(8) ? withoutOnePage(changes) : changes));
    case 'lost-step':
      return new ForgetfulStorage(store, options, (changes) => (seeded.oneIn(8) ? new Uint8Array(0) : changes));
    case 'torn-unit':
      return withPort({ arrive: onUnits((unit) => [seeded.oneIn(8) ? withoutOneOperation(unit, seeded) : unit]) });
    case 'swapped-units':
      return withPort({ arrive: (messages) => swapped(messages, seeded) });
    case 'overtaking-unit':
      return withPort({ arrive: largeFirst });
    case 'cut-value':
      return withPort({ arrive: onUnits((unit) => [withCutValues(unit)]) });
    case 'queue-before-state':
      return withPort({ arrive: onUnits((unit) => familyFirst('queue', unit)) });
    case 'modules-before-names':
      return withPort({ arrive: onUnits((unit) => familyFirst('module', unit)) });
    case 'key-after-effect':
      return withPort({ arrive: onUnits(answersLast) });
    case 'left-ahead-stays':
      return new BlindStorage(store, options);
    case 'left-payloads-stay':
      return new CarelessStorage(store, options);
    case 'key-not-in-context':
      return withPort({ arrive: onUnits((unit) => [withoutKeys(unit)]) });
    default:
      return new SimulatedStorage(store, options);
  }
}

/** Returns a storage that reports everything as durable at once. */
export function hastySettled(storage: SimulatedStorage): SimulatedStorage {
  return new Proxy(storage, {
    get(target, name) {
      if (name === 'settled') return () => Promise.resolve();
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

class EarlyStorage extends SimulatedStorage {
  override whenDurable(unit: number, callback: () => void): void {
    super.whenDurable(unit - 1, callback);
  }
}

/** A storage that hides pages which an unfinished change of code had written ahead. */
class BlindStorage extends SimulatedStorage {
  override range(...asked: Parameters<SimulatedStorage['range']>): ReturnType<SimulatedStorage['range']> {
    const [family, prefix] = asked;
    const isBlind = family === 'meta' && Buffer.compare(prefix, metaKey(META.ahead)) === 0;
    return isBlind ? Promise.resolve([]) : super.range(...asked);
  }
}

/** A storage that hides at the start the payloads to which no record refers. */
class CarelessStorage extends SimulatedStorage {
  #isStarted = false;

  override async range(...asked: Parameters<SimulatedStorage['range']>): ReturnType<SimulatedStorage['range']> {
    const entries = await super.range(...asked);
    if (asked[0] !== 'queue' || this.#isStarted) return entries;
    this.#isStarted = true;
    const wanted = new Set(entries.flatMap((entry) => rowsWantedBy(entry)));
    return entries.filter(([key]) => !isPayloadKey(key) || wanted.has(nameOf(key)));
  }
}

function rowsWantedBy(entry: Entry): string[] {
  if (isPayloadKey(entry[0])) return [];
  const { kind, record } = readRecord(entry);
  const response = kind === 'call' ? record.response?.response : undefined;
  const ofReply = response?.kind === 'reply' ? response.storedAs : undefined;
  const storedAs = kind === 'context' ? record.start?.storedAs : ofReply;
  return storedAs === undefined ? [] : [...rowsOfPayload(storedAs)].map(nameOf);
}

function nameOf(key: Uint8Array): string {
  return Buffer.from(key).toString('hex');
}

/** A storage that loses some of the changes of steps. */
class ForgetfulStorage extends SimulatedStorage {
  override readonly unit: WriteBatch;

  constructor(store: StateStore, options: SimulatedStorageOptions, forget: (changes: Uint8Array) => Uint8Array) {
    super(store, options);
    this.unit = new ForgetfulUnit(forget);
  }
}

class ForgetfulUnit extends WriteBatch {
  readonly #forget: (changes: Uint8Array) => Uint8Array;

  constructor(forget: (changes: Uint8Array) => Uint8Array) {
    super();
    this.#forget = forget;
  }

  override append(operations: Uint8Array): void {
    super.append(this.#forget(operations));
  }
}

function onUnits(
  change: (unit: Uint8Array) => readonly Uint8Array[],
): (messages: readonly ToStorage[]) => readonly ToStorage[] {
  return (messages) =>
    messages.flatMap((message) =>
      message.kind === 'unit' ? change(message.unit).map((unit): ToStorage => ({ kind: 'unit', unit })) : [message],
    );
}

function swapped(messages: readonly ToStorage[], seeded: Seeded): readonly ToStorage[] {
  const left = [...messages];
  for (let index = 1; index < left.length; index++) {
    const [before, after] = [left[index - 1], left[index]];
    if (before?.kind !== 'unit' || after?.kind !== 'unit' || !seeded.oneIn(4)) continue;
    left.splice(index - 1, 2, after, before);
    index++;
  }
  return left;
}

function largeFirst(messages: readonly ToStorage[]): readonly ToStorage[] {
  const isLarge = (message: ToStorage): boolean => message.kind === 'unit' && message.unit.length > INLINE_BYTES_MAX;
  return [...messages.filter(isLarge), ...messages.filter((message) => !isLarge(message))];
}

function withCutValues(unit: Uint8Array): Uint8Array {
  const set = new WriteBatch();
  visit(
    unit,
    () => set,
    (value) => (value.length > INLINE_BYTES_MAX ? value.subarray(0, -1) : value),
  );
  return set.take();
}

/** Drops a step's changes of the last page of heap or stable memory that it touched. */
function withoutOnePage(changes: Uint8Array): Uint8Array {
  let last = '';
  visit(changes, (family, page) => {
    if (page !== undefined) last = `${family} ${page}`;
    return undefined;
  });
  const set = new WriteBatch();
  visit(changes, (family, page) => (page !== undefined && `${family} ${page}` === last ? undefined : set));
  return set.take();
}

function withoutOneOperation(unit: Uint8Array, seeded: Seeded): Uint8Array {
  let operations = 0;
  visit(unit, () => {
    operations++;
    return undefined;
  });
  const lost = seeded.below(operations);
  const set = new WriteBatch();
  visit(unit, () => (operations-- === lost + 1 ? undefined : set));
  return set.take();
}

function familyFirst(first: string, unit: Uint8Array): readonly Uint8Array[] {
  const ahead = new WriteBatch();
  const rest = new WriteBatch();
  visit(unit, (family) => (family === first ? ahead : rest));
  return [ahead, rest].filter(({ length }) => length > 0).map((set) => set.take());
}

function answersLast(unit: Uint8Array): readonly Uint8Array[] {
  const answers = new WriteBatch();
  const rest = new WriteBatch();
  visit(unit, (family) => (family === 'blob' ? answers : rest));
  return [rest, answers].filter(({ length }) => length > 0).map((set) => set.take());
}

function withoutKeys(unit: Uint8Array): Uint8Array {
  const set = new WriteBatch();
  visit(
    unit,
    () => set,
    (value, family, key) => (family === 'queue' && key[0] === CONTEXT ? withoutKey(key, value) : value),
  );
  return set.take();
}

/** Drops the key, which comes last in the record of a context. */
function withoutKey(key: Uint8Array, value: Uint8Array): Uint8Array {
  const entry = readRecord([key, value]);
  if (entry.kind !== 'context' || entry.record.keyed === undefined) return value;
  const { key: its, method, digest } = entry.record.keyed;
  const writer = new RecordWriter();
  writer.latin1(its);
  writer.text(method);
  writer.latin1(digest);
  const bare = value.slice(0, value.length - writer.length);
  bare[0] = (bare[0] ?? 0) & ~32;
  return bare;
}

/** Copies each operation into the set that `choose` names, if any, with values as `change` makes them. */
function visit(
  operations: Uint8Array,
  choose: (family: string, page?: number) => WriteBatch | undefined,
  change = (value: Uint8Array, _family: string, _key: Uint8Array): Uint8Array => value,
): void {
  applyWriteBatch(operations, {
    put: (family, key, value) => choose(family)?.put(family, key, change(value, family, key)),
    delete: (family, key) => choose(family)?.delete(family, key),
    clear: (family, prefix) => choose(family)?.clear(family, prefix),
    patch: (family, id, page, offset, bytes) => {
      const body = Buffer.alloc(10 + bytes.length);
      body.writeUInt32LE(page, 0);
      body.writeUInt16LE(1, 4);
      body.writeUInt16LE(offset, 6);
      body.writeUInt16LE(bytes.length, 8);
      body.set(bytes, 10);
      choose(family, page)?.patch(family, id, 1, body);
    },
  });
}
