/** The rival, if it is installed: `npm install --prefix benchmarks`. */
import { createRequire } from 'node:module';

/**
 * Returns the path of the program itself, since the package's own starter script would be measured otherwise.
 * Undefined: it is not installed.
 */
export function workerdBinary(): string | undefined {
  const architecture = process.arch === 'x64' ? '64' : process.arch;
  try {
    return createRequire(new URL('../package.json', import.meta.url)).resolve(
      `@cloudflare/workerd-${process.platform}-${architecture}/bin/workerd`,
    );
  } catch {
    return undefined;
  }
}
