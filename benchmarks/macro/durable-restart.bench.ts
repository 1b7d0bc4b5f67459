/**
 * Measures a restart with many different modules, with and without their kept instrumented code.
 *
 *   node benchmarks/macro/durable-restart.bench.ts [--modules 13] [--rounds 5] [--persistence enhanced]
 *       [--dir FOLDER] [--quick]
 *
 * Each actor has a module of its own, a Motoko program. After a kill the same state is started again and again, with
 * `modules/` as it was and without it, in turn; the listener's and RocksDB's part is the same in both. CPU time is that
 * of all threads until the server prints that it is ready.
 */
import { readFileSync } from 'node:fs';
import { readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optionsOf } from '../options.ts';
import { createCompiler, type Persistence } from '../../subsystems/compiler/motoko-compiler.ts';
import { WORKER } from './actor-fixtures.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const values = optionsOf({
  modules: { type: 'string', default: '13' },
  rounds: { type: 'string', default: '5' },
  persistence: { type: 'string', default: 'enhanced' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const modules = values.quick ? 2 : Number(values.modules);
const rounds = values.quick ? 1 : Number(values.rounds);
const persistence = values.persistence as Persistence;

await using scratch = await scratchFolder(values.dir);
await printSitting('no load', persistence, `${modules} modules, ${rounds} rounds`);
const state = join(scratch.path, 'state');
const code = join(state, 'modules');
const manifest = await manifestOfMany();
const options = { manifest, args: ['--state', state] };
await (await startSvc(options)).kill();
console.log(`${await bytesIn(code)} bytes of instrumented code\n`);

const kept: Sample[] = [];
const anew: Sample[] = [];
for (let round = 0; round < rounds; round++) {
  kept.push(await restart());
  await rm(code, { recursive: true });
  anew.push(await restart());
}
console.log('                      ready ms    CPU ms');
for (const [label, samples] of [
  ['kept', kept],
  ['made anew', anew],
] as const) {
  const [ms, cpuMs] = [median(samples.map(({ readyMs }) => readyMs)), median(samples.map((sample) => sample.cpuMs))];
  console.log(`${label.padEnd(20)}${ms.toFixed(0).padStart(10)}${cpuMs.toFixed(0).padStart(10)}`);
}
console.log('');
const saved = (of: (sample: Sample) => number): number =>
  median(anew.map((sample, round) => of(sample) - of(kept[round] ?? sample)));
printFigure(
  'CPU time saved',
  saved(({ cpuMs }) => cpuMs),
  'ms',
  '',
);
printFigure(
  'time saved',
  saved(({ readyMs }) => readyMs),
  'ms',
  '',
);

interface Sample {
  readonly readyMs: number;
  readonly cpuMs: number;
}

async function restart(): Promise<Sample> {
  await using svc = await startSvc(options);
  return { readyMs: svc.readyMs, cpuMs: (svc.cpuMicroseconds() ?? NaN) / 1000 };
}

async function manifestOfMany(): Promise<string> {
  const compiler = createCompiler({
    cacheDirectory: fileURLToPath(new URL('../../node_modules/.cache/svc-bench', import.meta.url)),
    processesMax: 1,
    idleMs: 200,
  });
  const source = readFileSync(WORKER, 'utf8');
  const end = source.lastIndexOf('}');
  const actors: Record<string, object> = {};
  for (let at = 0; at < modules; at++) {
    const text = `${source.slice(0, end)}public query func module${at}() : async Nat { ${at} };\n${source.slice(end)}`;
    const { wasm } = await compiler.compileText(new Map([['Main.mo', text]]), { persistence });
    await writeFile(join(scratch.path, `a${at}.wasm`), wasm);
    actors[`a${at}`] = { wasm: `a${at}.wasm` };
  }
  const path = join(scratch.path, 'actors.json');
  await writeFile(path, JSON.stringify({ actors }));
  return path;
}

async function bytesIn(directory: string): Promise<number> {
  const sizes = (await readdir(directory)).map(async (name) => (await stat(join(directory, name))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
