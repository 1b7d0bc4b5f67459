/** The pool of undici alone, loaded when the first request is forwarded. It has no types of its own. */
import { createRequire } from 'node:module';
import type { Pool } from 'undici';

interface Undici {
  readonly Pool: typeof Pool;
}

let loaded: Undici | undefined;

export function loadUndici(): Undici {
  const require = createRequire(import.meta.url);
  loaded ??= { Pool: require('undici/lib/dispatcher/pool.js') as Undici['Pool'] };
  return loaded;
}
