/**
 * Motoko for tests: source text in, module out, through the real compiler. Modules are kept (`caches.ts`), so only the
 * first test with a source ever waits for the compiler.
 */
import type { CompiledActor } from '../../subsystems/compiler/index.ts';
import { createCompiler } from '../../subsystems/compiler/motoko-compiler.ts';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { MOTOKO_CACHE } from './caches.ts';

const compiler = createCompiler({ cacheDirectory: MOTOKO_CACHE, threadsMax: 1, idleMs: 200 });

/** Source text of one actor, or files by path with the main file first (`{ 'Main.mo': …, 'lib/Text.mo': … }`). */
export type MotokoSource = string | Readonly<Record<string, string>>;

export function compileMotoko(
  source: MotokoSource,
  options: { readonly persistence?: Persistence } = {},
): Promise<CompiledActor> {
  const files = typeof source === 'string' ? { 'Main.mo': source } : source;
  return compiler.compileText(new Map(Object.entries(files)), options);
}

/** Compiles a file on disk, with its imports. */
export function compileMotokoFile(mainFile: string): Promise<CompiledActor> {
  return compiler.compile(mainFile);
}
