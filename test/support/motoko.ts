/**
 * Motoko for tests: source text in, module out, through the real compiler. Modules are kept (`caches.ts`), so only the
 * first test with a source ever waits for the compiler; in `npm test` all tests share one compiler
 * (`shared-work.ts`).
 */
import { fileURLToPath } from 'node:url';
import type { CompiledActor } from '../../subsystems/compiler/index.ts';
import { createCompiler } from '../../subsystems/compiler/motoko-compiler.ts';
import type { Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { MOTOKO_CACHE } from './caches.ts';
import { sharedWork } from './shared-work.ts';

const compiler = createCompiler({ cacheDirectory: MOTOKO_CACHE, processesMax: 1, idleMs: 200 });

/** An actor for tests that need just any: each further source costs two seconds of compiling. */
export const ANY_ACTOR = 'persistent actor { var n = 0; public func inc() : async Nat { n += 1; n } };';

/** Source text of one actor, or files by path with the main file first (`{ 'Main.mo': …, 'lib/Text.mo': … }`). */
type MotokoSource = string | Readonly<Record<string, string>>;

export async function compileMotoko(
  source: MotokoSource,
  options: { readonly persistence?: Persistence } = {},
): Promise<CompiledActor> {
  const files = Object.entries(typeof source === 'string' ? { 'Main.mo': source } : source);
  await sharedWork('compile', { files, ...options });
  return compiler.compileText(new Map(files), options);
}

/** Compiles the example actor, for servers with a state directory, which would compile it again. */
export async function compileCounter(): Promise<Uint8Array> {
  const { wasm } = await compileMotokoFile(
    fileURLToPath(new URL('../../config/examples/counter/Counter.mo', import.meta.url)),
  );
  return wasm;
}

/** Compiles a file on disk, with its imports. */
export function compileMotokoFile(mainFile: string): Promise<CompiledActor> {
  return compiler.compile(mainFile);
}
