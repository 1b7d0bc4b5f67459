/** Collections of this thread's garbage on demand: V8 does not see what is behind buffers and memories. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options?: { readonly type: 'minor' }) => void;

let collect: Collect | undefined;

/** Stops the thread for a full collection, or for one of what is young: a millisecond. */
export function collectGarbage(which: 'full' | 'young'): void {
  collect ??= exposed();
  if (which === 'full') collect();
  else collect({ type: 'minor' });
}

function exposed(): Collect {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as Collect;
}
