/**
 * `npm run build:examples`: compiles the examples into `config/examples/build`, a cache that a clone brings, so that
 * the first `npm start` compiles nothing. Entries are those of the compiler's own cache, keyed by the sources, the
 * compiler and its flags; entries of earlier sources are removed.
 */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createCompiler } from '../subsystems/compiler/motoko-compiler.ts';
import { replaceCache } from './compiled-cache.ts';

const EXAMPLES = resolve(import.meta.dirname, '../config/examples');
export const BUILT: string = join(EXAMPLES, 'build');

interface Manifest {
  readonly actors: Readonly<Record<string, { readonly main: string }>>;
}

/** Compiles each actor of the examples' manifest into a directory. */
export async function buildExamples(directory: string): Promise<void> {
  const { actors } = JSON.parse(readFileSync(join(EXAMPLES, 'actors.json'), 'utf8')) as Manifest;
  const compiler = createCompiler({ cacheDirectory: directory });
  try {
    for (const [name, { main }] of Object.entries(actors)) await compiler.compile(join(EXAMPLES, main), { name });
  } finally {
    await compiler.close();
  }
}

if (import.meta.main) await replaceCache(BUILT, buildExamples);
