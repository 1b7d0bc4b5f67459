/** Manifests of many actors with one module. */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createCompiler, type Persistence } from '../../subsystems/compiler/motoko-compiler.ts';

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
export const COUNTER = here('../../config/examples/counter/Counter.mo');
export const WORKER = here('../fixtures/worker.mo');

/** The module of a Motoko file; compiled once, then kept under node_modules/.cache. */
export async function compiled(file: string, persistence: Persistence): Promise<Uint8Array> {
  const compiler = createCompiler({
    cacheDirectory: here('../../node_modules/.cache/svc-bench'),
    processesMax: 1,
    idleMs: 200,
  });
  const { wasm } = await compiler.compileText(new Map([['Main.mo', readFileSync(file, 'utf8')]]), { persistence });
  return wasm;
}

/** Writes a manifest of the actors `a0`, `a1`, … into the folder; its path. */
export async function manifestOf(folder: string, name: string, wasm: Uint8Array, count: number): Promise<string> {
  await writeFile(join(folder, `${name}.wasm`), wasm);
  const actors = Object.fromEntries(Array.from({ length: count }, (_, at) => [`a${at}`, { wasm: `${name}.wasm` }]));
  const path = join(folder, `${name}.json`);
  await writeFile(path, JSON.stringify({ actors }));
  return path;
}
