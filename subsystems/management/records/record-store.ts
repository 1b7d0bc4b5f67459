import { hexOf } from '../../ic/index.ts';
import { ServerError } from '../../../kernel/index.ts';
import { RecordReader } from '../../bytes/index.ts';
import type { Family, Storage, WriteBatch } from '../../storage/index.ts';

/** What the records need of the storage. */
export type RecordStore = Pick<Storage, 'isKept' | 'markDirty' | 'unit' | 'range' | 'settled'>;

/**
 * Where to put what changes in this turn of the event loop; undefined when nothing is kept. For this one turn only:
 * not to be held across an `await` that waits for anything real.
 */
export function unitOf(store: RecordStore): WriteBatch | undefined {
  if (!store.isKept) return undefined;
  store.markDirty();
  return store.unit;
}

/** The value of exactly this key. */
export async function valueOf(store: RecordStore, family: Family, key: Uint8Array): Promise<Uint8Array | undefined> {
  const [first] = await store.range(family, key);
  // Longer keys may begin like this one, and come after it.
  return first?.[0].length === key.length ? first[1] : undefined;
}

export function corrupt(family: Family, key: Uint8Array, reason: string): ServerError {
  return new ServerError('unavailable', 'state-corrupt', `${nameOf(family, key)} is damaged: ${reason}`);
}

/** Reads one stored value; whatever is wrong with it is a ServerError `state-corrupt` that names its key. */
export function readerOf(family: Family, key: Uint8Array, value: Uint8Array): RecordReader {
  const reader = new RecordReader(value, nameOf(family, key));
  reader.open(0, value.length);
  return reader;
}

function nameOf(family: Family, key: Uint8Array): string {
  return `the stored value ${family} ${hexOf(key)}`;
}
