/**
 * Motoko for tests: source text in, module out, through the real compiler. Modules are kept under
 * `node_modules/.cache`, so only the first run of a test ever waits for the compiler.
 */
import { fileURLToPath } from 'node:url';
import type { CompiledActor } from '../../subsystems/compiler/index.ts';
import { createCompiler } from '../../subsystems/compiler/motoko-compiler.ts';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';

export const compilerCacheDirectory = fileURLToPath(new URL('../../node_modules/.cache/svc-tests', import.meta.url));

const compiler = createCompiler({ cacheDirectory: compilerCacheDirectory, threadsMax: 1, idleMs: 200 });

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
