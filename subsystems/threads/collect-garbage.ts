/** Collections of this thread's garbage on demand: V8 does not see what is behind buffers and memories. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (
  options?: { readonly type: 'minor' } | { readonly type: 'major'; readonly flavor: 'last-resort' },
) => void;

/**
 * Another thread may switch the flag off before the context is made, but not so often in a row. A context takes a
 * millisecond.
 */
const ATTEMPTS_MAX = 50;

let collect: Collect | undefined;

/**
 * Stops the thread for a full collection, for one of young objects (a millisecond), or for full ones until nothing more
 * goes, after which the heap keeps no room for later objects either. Does nothing where V8 was told another name for
 * the function (`--expose-gc-as`).
 */
export function collectGarbage(which: 'full' | 'young' | 'all-there-is'): void {
  collect ??= exposed();
  if (which === 'full') collect?.();
  else if (which === 'young') collect?.({ type: 'minor' });
  else collect?.({ type: 'major', flavor: 'last-resort' });
}

function exposed(): Collect | undefined {
  if (globalThis.gc !== undefined) return globalThis.gc as Collect;
  // The flag is the process's.
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('globalThis.gc') as Collect | undefined;
    // Compiled code that is kept is kept for these flags: with others, later threads would find none.
    setFlagsFromString('--no-expose-gc');
    if (gc !== undefined) return gc;
  }
  return undefined;
}
