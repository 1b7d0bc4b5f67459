/**
 * `npm run build:site`: compiles the site of a folder into `subsystems/assets/site/build`, a cache that the package and
 * a clone bring, so that no start compiles it. The entry is one of the compiler's own cache (see build-examples.ts).
 */
import { dirname, join } from 'node:path';
import { SITE_FILE } from '../subsystems/assets/index.ts';
import { createCompiler } from '../subsystems/compiler/motoko-compiler.ts';
import { replaceCache } from './compiled-cache.ts';

export const BUILT_SITE: string = join(dirname(SITE_FILE), 'build');

/** Compiles the site into a directory. */
export async function buildSite(directory: string): Promise<void> {
  const compiler = createCompiler({ cacheDirectory: directory });
  try {
    await compiler.compile(SITE_FILE, { name: 'site' });
  } finally {
    await compiler.close();
  }
}

if (import.meta.main) await replaceCache(BUILT_SITE, buildSite);
