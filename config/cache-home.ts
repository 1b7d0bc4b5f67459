import { isAbsolute, join } from 'node:path';
import type { Environment } from './parse-flags.ts';

/**
 * Returns the server's own part of the user's cache folder (XDG Base Directory Specification); undefined if there is no
 * such folder. A relative XDG_CACHE_HOME is ignored.
 */
export function cacheHome({ XDG_CACHE_HOME, HOME }: Environment): string | undefined {
  if (XDG_CACHE_HOME !== undefined && isAbsolute(XDG_CACHE_HOME)) return join(XDG_CACHE_HOME, 'svc');
  return HOME !== undefined && isAbsolute(HOME) ? join(HOME, '.cache', 'svc') : undefined;
}

/**
 * Returns the folder where mops keeps packages fetched from its registry, or from another network's; undefined if there
 * is none.
 */
export function mopsPackages({ XDG_CACHE_HOME, HOME, MOPS_NETWORK }: Environment, system: string): string | undefined {
  const usual = system === 'darwin' ? 'Library/Caches' : '.cache';
  const home = HOME !== undefined && isAbsolute(HOME) ? join(HOME, usual) : undefined;
  const cache = XDG_CACHE_HOME !== undefined && isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : home;
  const network = MOPS_NETWORK === undefined || MOPS_NETWORK === 'ic' ? '' : MOPS_NETWORK;
  // The network must be a plain name: a path could lead out of the folder.
  return cache === undefined || !/^[\w-]*$/u.test(network) ? undefined : join(cache, 'mops', network, 'packages');
}
