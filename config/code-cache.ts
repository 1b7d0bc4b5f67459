/**
 * The server runs from source: each thread strips the types of each file and compiles it, which takes half of a start.
 * Node keeps the compiled code in the folder that NODE_COMPILE_CACHE names, and checks what it finds there against the
 * source and its own version. Each thread writes its compiled code as soon as it has loaded its files
 * (`flushCompileCache`): Node itself writes only when the process ends in order, and never for threads that are
 * terminated.
 *
 * The cache is only a shortcut: no failure to read or write it is an error, and it may be deleted at any time.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { dirname, join } from 'node:path';
import { cacheHome } from './cache-home.ts';

/** Folders that are kept, one for each installation and version of Node, of about 8 MB each. The oldest are deleted. */
const FOLDERS_MAX = 8;

/**
 * Turns the cache on; to be called before anything else is imported. `root` is the folder of this installation's
 * sources. Sets `NODE_COMPILE_CACHE` in `environment`, from which threads that start later take it; a value that is
 * already set stays.
 */
export function keepCompiledCode(environment: Record<string, string | undefined>, root: string): void {
  const home = cacheHome(environment);
  if (home === undefined || getCompileCacheDir() !== undefined) return;
  const parent = join(home, 'node');
  const hash = createHash('sha256').update(`${process.version} ${root}`).digest('hex');
  const folder = join(parent, hash.slice(0, 16));
  try {
    // Level by level, because a home that does not exist is not made, and Node's recursive form never returns for one
    // like /proc.
    for (const path of [dirname(home), home, parent]) makeDirectory(path);
    if (makeDirectory(folder)) dropOldest(parent, folder);
  } catch {
    return;
  }
  if (enableCompileCache(folder).directory !== undefined) environment['NODE_COMPILE_CACHE'] = folder;
}

/** Returns false if the directory already exists. */
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
