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

/** Where mops keeps what it has fetched from its registry, or from another network's; undefined: there is no such folder. */
export function mopsPackages({ XDG_CACHE_HOME, HOME, MOPS_NETWORK }: Environment, system: string): string | undefined {
  const usual = system === 'darwin' ? 'Library/Caches' : '.cache';
  const home = HOME !== undefined && isAbsolute(HOME) ? join(HOME, usual) : undefined;
  const cache = XDG_CACHE_HOME !== undefined && isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : home;
  const network = MOPS_NETWORK === undefined || MOPS_NETWORK === 'ic' ? '' : MOPS_NETWORK;
  // A name, and no way out.
  return cache === undefined || !/^[\w-]*$/u.test(network) ? undefined : join(cache, 'mops', network, 'packages');
}
