import { definePlugin, Logger, ServerError } from '../kernel/index.ts';
import { Compiler } from '../subsystems/compiler/index.ts';
import { createCompiler, type MotokoCompiler } from '../subsystems/compiler/motoko-compiler.ts';

interface CompilerConfig {
  readonly cacheDirectory: string | undefined;
}

/** The compiler with what stopping needs; the disabled form has nothing to close. */
type ClosableCompiler = Compiler & Partial<Pick<MotokoCompiler, 'close'>>;

const noCompiler: ClosableCompiler = {
  compile: (mainFile) =>
    Promise.reject(
      new ServerError('invalid', 'compiler-off', `${mainFile} needs the compiler, which --no-compiler turned off`),
    ),
};

export const compilerPlugin = definePlugin({
  name: 'compiler',
  provides: Compiler,
  requires: { log: Logger },
  create: ({ log }, { config }: { readonly config: CompilerConfig }): ClosableCompiler =>
    createCompiler({
      cacheDirectory: config.cacheDirectory,
      onProgress: ({ text }) => log.info(text),
      onCacheFailure: (message) => log.warn(message),
    }),
  disabled: () => noCompiler,
  stop: async (compiler: ClosableCompiler) => compiler.close?.(),
  stopDeadlineMs: 5_000,
});
