/**
 * Deletes what a crash has left of memories that were written ahead of a change of code
 * (execution/persistence/store-ahead.ts): the copy that does not count, of actors for which META.ahead says that it was
 * being written. Some of them are not there: their installation was cut off.
 *
 * Main thread, at the start, while every actor sleeps: then that copy is nobody's, whichever version has written what.
 */
import { type Entry, memoryId, META, metaKey, type Storage } from '../storage/index.ts';

/** `left`: the rows of META.ahead. Rejects with ServerError `state-corrupt`. */
export async function deleteLeftAhead(storage: Storage, left: readonly Entry[]): Promise<void> {
  if (left.length === 0) return;
  const copies = await Promise.all(left.map(([key]) => storage.get('meta', metaKey(META.copy, key.subarray(1)))));
  for (const [at, [key]] of left.entries()) {
    const memory = memoryId(key.subarray(1), 1 - (copies[at]?.[0] ?? 0));
    for (const family of ['heap', 'stable'] as const) storage.unit.clear(family, memory);
    storage.unit.delete('meta', key);
  }
  storage.markDirty();
}
