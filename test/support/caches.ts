/**
 * Caches that tests keep between runs below `node_modules/.cache`, never in the user's own folders. All of their
 * content is made again if it is missing. Writers write a draft and rename it, so that any number of processes may
 * write.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** For `XDG_CACHE_HOME`. */
export const CACHE_HOME = fileURLToPath(new URL('../../node_modules/.cache', import.meta.url));
/** Modules that were compiled from Motoko, by tests and by servers without a state directory: the same source once. */
export const MOTOKO_CACHE = join(CACHE_HOME, 'svc', 'motoko');
/** For `NODE_COMPILE_CACHE`: code that Node compiled from our sources and from packages. */
export const NODE_CACHE = join(CACHE_HOME, 'svc-node');
