/**
 * What tests keep between runs, all of it made again when it is not there: below `node_modules/.cache`, never in the user's own
 * folders. Whoever writes there writes a draft and renames it, so that any number of processes may.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** For `XDG_CACHE_HOME`. */
export const CACHE_HOME = fileURLToPath(new URL('../../node_modules/.cache', import.meta.url));
/** Modules that were compiled from Motoko, by tests and by servers without a state directory: the same source once. */
export const MOTOKO_CACHE = join(CACHE_HOME, 'svc', 'motoko');
/** For `NODE_COMPILE_CACHE`: what Node made of our sources and of packages. */
export const NODE_CACHE = join(CACHE_HOME, 'svc-node');
