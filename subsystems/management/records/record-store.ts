import { hexOf } from '../../ic/index.ts';
import { ServerError } from '../../../kernel/index.ts';
import { RecordReader } from '../../bytes/index.ts';
import type { Family, Storage, WriteBatch } from '../../storage/index.ts';

/** The part of Storage that the records use. */
export type RecordStore = Pick<Storage, 'isKept' | 'markDirty' | 'unit' | 'range' | 'settled'>;

/**
 * Returns the batch for the changes of this turn of the event loop; undefined if nothing is kept. Valid only in this
 * turn: must not be held across an `await` that really waits.
 */
export function unitOf(store: RecordStore): WriteBatch | undefined {
  if (!store.isKept) return undefined;
  store.markDirty();
  return store.unit;
}

/** Returns the value of exactly this key. */
export async function valueOf(store: RecordStore, family: Family, key: Uint8Array): Promise<Uint8Array | undefined> {
  const [first] = await store.range(family, key);
  // The range may also hold longer keys with this prefix, which come after it.
  return first?.[0].length === key.length ? first[1] : undefined;
}

export function corrupt(family: Family, key: Uint8Array, reason: string): ServerError {
  return new ServerError('unavailable', 'state-corrupt', `${nameOf(family, key)} is damaged: ${reason}`);
}

/** Returns a reader of one stored value; any fault in the value is a ServerError `state-corrupt` that names the key. */
export function readerOf(family: Family, key: Uint8Array, value: Uint8Array): RecordReader {
  const reader = new RecordReader(value, nameOf(family, key));
  reader.open(0, value.length);
  return reader;
}

function nameOf(family: Family, key: Uint8Array): string {
  return `the stored value ${family} ${hexOf(key)}`;
}
