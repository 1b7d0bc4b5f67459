import { definePlugin, Logger, ServerError } from '../kernel/index.ts';
import { Compiler } from '../subsystems/compiler/index.ts';
import { createCompiler } from '../subsystems/compiler/motoko-compiler.ts';

interface CompilerConfig {
  readonly cacheDirectory: string | undefined;
  readonly sharedCacheDirectory: string | undefined;
  readonly shippedDirectories: readonly string[];
  readonly mops: { readonly stores: readonly string[]; readonly environment: string };
  readonly isKeptWarm: boolean;
  readonly keepsMemory: boolean;
}

const refuse = (mainFile: string): Promise<never> =>
  Promise.reject(
    new ServerError('invalid', 'compiler-off', `${mainFile} needs the compiler, which --no-compiler turned off`),
  );
const noCompiler: Compiler = {
  compile: refuse,
  closureOf: refuse,
  // Without a compiler the file's imports do not matter.
  sourcesOf: async (mainFile) => ({ files: [mainFile], actors: [] }),
  compareStable: () =>
    Promise.resolve({ kind: 'unknown', reason: 'the bundled compiler is turned off with --no-compiler' }),
};

export const compilerPlugin = definePlugin({
  name: 'compiler',
  provides: Compiler,
  requires: { log: Logger },
  create: ({ log }, { config }: { readonly config: CompilerConfig }) =>
    createCompiler({
      cacheDirectory: config.cacheDirectory,
      sharedCacheDirectory: config.sharedCacheDirectory,
      shippedDirectories: config.shippedDirectories,
      mops: config.mops,
      isKeptWarm: config.isKeptWarm,
      keepsMemory: config.keepsMemory,
      onProgress: ({ text }) => log.info(text),
      onCacheFailure: (message) => log.warn(message),
    }),
  disabled: () => noCompiler,
  stop: (compiler) => compiler.close(),
  stopDeadlineMs: 5_000,
});
