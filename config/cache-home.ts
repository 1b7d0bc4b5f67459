import { isAbsolute, join } from 'node:path';
import type { Environment } from './parse-flags.ts';

/**
 * The server's own part of the user's folder for what can be made again (XDG Base Directory Specification); undefined: there is
 * no such folder. A relative one is to be ignored.
 */
export function cacheHome({ XDG_CACHE_HOME, HOME }: Environment): string | undefined {
  if (XDG_CACHE_HOME !== undefined && isAbsolute(XDG_CACHE_HOME)) return join(XDG_CACHE_HOME, 'svc');
  return HOME !== undefined && isAbsolute(HOME) ? join(HOME, '.cache', 'svc') : undefined;
}
