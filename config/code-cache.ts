/**
 * Source runs as it is: each thread strips the types of each file and compiles it, which is half of the time that a start
 * takes. Node keeps what came of it where it is told to, and checks what it finds there against the source and its own
 * version. Each thread writes what it made itself as soon as it has loaded its files (`flushCompileCache`): Node would do it
 * when the process ends in order, and for threads that are ended not at all.
 *
 * A shortcut only: no failure to read or write it is an error, and it may be deleted at any time.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { dirname, join } from 'node:path';
import { cacheHome } from './cache-home.ts';

/** Each has some 8 MB, for one installation and one version of Node. The oldest go. */
const FOLDERS_MAX = 8;

/**
 * To be called before anything else is imported. `root`: where this installation's sources are. Sets `NODE_COMPILE_CACHE` in
 * `environment`, which is how threads that start later know; where somebody has set it already, that holds.
 */
export function keepCompiledCode(environment: Record<string, string | undefined>, root: string): void {
  const home = cacheHome(environment);
  if (home === undefined || getCompileCacheDir() !== undefined) return;
  const parent = join(home, 'node');
  const hash = createHash('sha256').update(`${process.version} ${root}`).digest('hex');
  const folder = join(parent, hash.slice(0, 16));
  try {
    // Step by step: a home that is not there is not made, and Node's recursive form never returns for one like /proc.
    for (const path of [dirname(home), home, parent]) makeDirectory(path);
    if (makeDirectory(folder)) dropOldest(parent, folder);
  } catch {
    return;
  }
  if (enableCompileCache(folder).directory !== undefined) environment['NODE_COMPILE_CACHE'] = folder;
}

/** False: it is there already. */
function makeDirectory(path: string): boolean {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return false;
  mkdirSync(path, { mode: 0o700 });
  return true;
}

function dropOldest(parent: string, newest: string): void {
  const folders = readdirSync(parent)
    .map((name) => join(parent, name))
    .filter((path) => path !== newest);
  const ages = new Map(folders.map((path) => [path, statSync(path).mtimeMs]));
  const oldestFirst = folders.toSorted((a, b) => (ages.get(a) ?? 0) - (ages.get(b) ?? 0));
  for (const path of oldestFirst.slice(0, Math.max(0, folders.length + 1 - FOLDERS_MAX))) {
    rmSync(path, { recursive: true, force: true });
  }
}
