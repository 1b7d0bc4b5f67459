/**
 * Bundles `client/` into the one file that `svc/client` is: for Node, for bundlers, and as it is for a page and its
 * SharedWorker.
 */
import { join, resolve } from 'node:path';
import { build } from 'esbuild';

const ROOT = resolve(import.meta.dirname, '..');
/** The file in the package's `dist`; the module knows itself by this name (`client/shared-stream.ts`). */
export const CLIENT_FILE = 'client/svc-client.mjs';

/** Returns the text of the file. The same sources and the same esbuild make the same bytes, on every machine. */
export async function buildClient(): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: [join(ROOT, 'client/index.ts')],
    bundle: true,
    write: false,
    minify: true,
    format: 'esm',
    target: ['es2022', 'chrome119', 'firefox124', 'safari17.4', 'node24'],
    charset: 'utf8',
    banner: { js: '/* svc/client, Apache-2.0: docs/client.md */' },
    logLevel: 'error',
    tsconfigRaw: {},
  });
  return outputFiles[0]?.text ?? '';
}
