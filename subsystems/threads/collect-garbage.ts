/** Collections of this thread's garbage on demand: V8 does not see what is behind buffers and memories. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (
  options?: { readonly type: 'minor' } | { readonly type: 'major'; readonly flavor: 'last-resort' },
) => void;

/** Not touched, so the machine provides none of them. */
const UNTOUCHED_BYTES = 128 * 2 ** 20;

let collect: Collect | undefined;

/**
 * Stops the thread for a full collection; for one of what is young: a millisecond; or for full ones until nothing more goes, after which
 * the heap keeps no room for what is to come either.
 */
export function collectGarbage(which: 'full' | 'young' | 'all-there-is'): void {
  collect ??= exposed();
  if (which === 'full') collect();
  else if (which === 'young') collect({ type: 'minor' });
  else collect({ type: 'major', flavor: 'last-resort' });
}

function exposed(): Collect {
  if (globalThis.gc !== undefined) return globalThis.gc as Collect;
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as Collect;
  // Compiled code that is kept is kept for these flags: with others, later threads would find none.
  setFlagsFromString('--no-expose-gc');
  return gc;
}

/** Whoever started the process wants it to be so all the time. */
const IS_FOR_SIZE = process.execArgv.includes('--optimize-for-size');

/**
 * Begins a full collection in the background, which goes on while this thread allocates, or its event loop turns; cost: some
 * milliseconds now, and again when it ends. With `keepsNoRoom` the heap gives back the room that it keeps for what is to come. False: there
 * was no room for it anywhere.
 *
 * V8 itself marks in other threads while this one goes on, but it starts that when its own limits are reached. So the limit is lowered for
 * an instant (`--incremental-marking-hard-trigger`, the percentage of it from which on marking begins, for all threads, which may begin
 * theirs early then), and V8 is made to look: it does so when the bytes outside of its heap have grown by 64 MiB, which a buffer
 * does that nobody ever writes to. `--optimize-for-size` is read at the same moment, and makes it one that gives room back. Where two threads
 * do this at once, one may switch the other's flag off: its collection begins later, or keeps the room.
 */
export function beginFullCollection({ keepsNoRoom = false } = {}): boolean {
  if (keepsNoRoom && !IS_FOR_SIZE) setFlagsFromString('--optimize-for-size');
  setFlagsFromString('--incremental-marking-hard-trigger=1');
  try {
    return new ArrayBuffer(UNTOUCHED_BYTES).byteLength > 0;
  } catch (error) {
    // V8 has looked for room everywhere.
    if (!(error instanceof RangeError)) throw error;
    return false;
  } finally {
    setFlagsFromString('--incremental-marking-hard-trigger=0');
    if (keepsNoRoom && !IS_FOR_SIZE) setFlagsFromString('--no-optimize-for-size');
  }
}
