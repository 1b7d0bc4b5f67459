/**
 * Measures the wait of calls while an actor whose heap has 200 MiB is upgraded and keeps it.
 *
 *   node benchmarks/macro/durable-upgrade.bench.ts [--chunks 50] [--upgrades 3] [--dir FOLDER] [--quick]
 *
 * An actor with a heap of 50 chunks of 4 MB and a counter beside it, first in memory, then with `--state`. One
 * connection calls each of them, without a pause; meanwhile the actor is upgraded to a module whose method answers
 * differently, and back again. The longest of the calls that were under way is the pause. With `--state` the first
 * upgrade writes all of the heap to the tables (ADR 16), later ones the changes since then: before each, every page is
 * changed.
 */
import { readFile } from 'node:fs/promises';
import { optionsOf } from '../options.ts';
import { compileMotoko } from '../../test/support/motoko.ts';
import { Client, naturalArgument } from './client.ts';
import { COUNTER, manifestOf } from './actor-fixtures.ts';
import { scratchFolder } from './scratch.ts';
import { printFigure, printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const REACH_MS = 300;
const AIM_MS = 50;

const values = optionsOf({
  chunks: { type: 'string', default: '50' },
  upgrades: { type: 'string', default: '3' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const chunks = values.quick ? 8 : Number(values.chunks);

await printSitting(`${chunks} chunks of 4 MB`);
await using scratch = await scratchFolder(values.dir);
const source = await readFile(new URL('../fixtures/large.mo', import.meta.url), 'utf8');
const before = await answering('used');
const after = await answering('used + 1');
const { wasm: counter } = await compileMotoko(await readFile(COUNTER, 'utf8'));
await measure('in memory', []);
await measure('--state', ['--state', `${scratch.path}/state`]);

async function measure(place: string, args: readonly string[]): Promise<void> {
  const manifest = await manifestOf(scratch.path, 'large', before, 1);
  await using svc = await startSvc({ manifest, args });
  using client = new Client(svc.origin, 3);
  await client.send('/install/counter', counter);
  await client.send('/call/a0/reserve', naturalArgument(chunks));
  for (let chunk = 0; chunk < chunks; chunk++) await client.send('/call/a0/add');
  for (let upgrade = 0; upgrade < Number(values.upgrades); upgrade++) {
    for (let chunk = 0; chunk < chunks; chunk++) await client.send('/call/a0/dirty', naturalArgument(chunk));
    const isOver = { value: false };
    const callers = ['/call/a0/touch', '/call/counter/inc'].map((path) => longest(client, path, isOver));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const start = performance.now();
    await client.send('/upgrade/a0', upgrade % 2 === 0 ? after : before);
    const took = performance.now() - start;
    isOver.value = true;
    const [itself = 0, neighbour = 0] = await Promise.all(callers);
    const name = `${place}, upgrade ${upgrade + 1} (${took.toFixed(0)} ms)`;
    printFigure(`${name}: longest call of the actor`, itself, 'ms', '', {
      is: 'at most',
      reach: REACH_MS,
      aim: AIM_MS,
    });
    printFigure(`${name}: of its neighbour`, neighbour, 'ms');
  }
}

/** Calls until `isOver`; returns the time of the longest call. */
async function longest(client: Client, path: string, isOver: { readonly value: boolean }): Promise<number> {
  let most = 0;
  while (!isOver.value) {
    const { ms } = await client.send(path);
    most = Math.max(most, ms);
  }
  return most;
}

/** Makes the actor with a method that answers `size`. */
async function answering(size: string): Promise<Uint8Array> {
  const method = `public query func size() : async Nat { ${size} };\n};\n`;
  const { wasm } = await compileMotoko(source.replace(/\};\s*$/, method));
  return wasm;
}
