/**
 * Modules made by the AssemblyScript compiler, for tests and benchmarks. Results are kept under node_modules/.cache by
 * a hash of the source.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const cacheFolder = new URL('../../node_modules/.cache/svc-fixtures/', import.meta.url);

/** Compiles AssemblyScript to a module; `abort` becomes a trap, so that nothing is imported. */
export function compileAssemblyScript(source: string, options: readonly string[] = []): Promise<Uint8Array> {
  const flags = ['-O3', '--runtime', 'minimal', '--use', 'abort=', ...options];
  return cached(`asc ${versionOf('assemblyscript')} ${flags.join(' ')}\n${source}`, async () => {
    const { default: asc } = await import('assemblyscript/asc');
    let wasm: Uint8Array | undefined;
    const { error } = await asc.main(['main.ts', '--outFile', 'main.wasm', ...flags], {
      readFile: (name) => (name === 'main.ts' ? source : null),
      writeFile: (name, contents) => {
        if (name === 'main.wasm' && typeof contents !== 'string') wasm = contents;
      },
      listFiles: () => [],
    });
    if (error !== null || wasm === undefined) throw new Error(`AssemblyScript: ${String(error)}`, { cause: error });
    return wasm;
  });
}

async function cached(key: string, make: () => Promise<Uint8Array>): Promise<Uint8Array> {
  const file = new URL(`${createHash('sha256').update(key).digest('hex')}.wasm`, cacheFolder);
  try {
    return new Uint8Array(readFileSync(file));
  } catch {
    const wasm = await make();
    mkdirSync(cacheFolder, { recursive: true });
    // Tests of several files run at once: a file appears whole or not at all.
    const draft = new URL(`${file.href}.${process.pid}.${Math.random().toString(36).slice(2)}`);
    writeFileSync(draft, wasm);
    renameSync(draft, file);
    return wasm;
  }
}

function versionOf(name: string): string {
  return (require(`${name}/package.json`) as { version: string }).version;
}
