/**
 * Measures the time from a save until `--watch` serves the new code.
 *
 *   node benchmarks/macro/hot-reload.bench.ts [--saves 7] [--pause-ms 4000] [--quick]
 *
 * A counter in Motoko and its library, with `--state`. Its source is saved as editors do it (a draft, renamed), and a
 * query is sent every few milliseconds until the new code answers. The next save comes after a pause in which the
 * compiler gets ready again. Every second save adds a stable variable, so that the compiler compares signatures. The
 * server's own lines show the parts of the compilation and the reload.
 */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { optionsOf } from '../options.ts';
import { report } from '../figures.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { startSvc } from './svc-process.ts';

const REACH_MS = 1500;
const DEADLINE_MS = 60_000;
const POLL_MS = 10;

const values = optionsOf({
  saves: { type: 'string', default: '7' },
  'pause-ms': { type: 'string', default: '4000' },
  quick: { type: 'boolean', default: false },
});
const saves = values.quick ? 2 : Number(values.saves);

await using scratch = await scratchFolder(undefined);
const main = join(scratch.path, 'Counter.mo');
await mkdir(join(scratch.path, 'lib'));
await writeFile(join(scratch.path, 'lib/Step.mo'), 'module { public let step = 1 }');
await save(counter(0));
const manifest = join(scratch.path, 'actors.json');
await writeFile(manifest, JSON.stringify({ actors: { counter: { main: 'Counter.mo' } } }));
await using svc = await startSvc({ manifest, args: ['--watch', '--state', join(scratch.path, 'state')] });

const whole: number[] = [];
const reloading: number[] = [];
const compiling: number[] = [];
for (let version = 1; version <= saves; version++) {
  await sleep(Number(values['pause-ms']));
  const [printed, logged] = [svc.printed().length, svc.log().length];
  const startMs = performance.now();
  await save(counter(version));
  while ((await answer()) !== version) {
    if (performance.now() - startMs > DEADLINE_MS) throw new Error(`it was not reloaded:\n${svc.printed()}`);
    await sleep(POLL_MS);
  }
  whole.push(performance.now() - startMs);
  await sleep(100);
  const lines = svc.printed().slice(printed) + svc.log().slice(logged);
  reloading.push(Number(/reloaded counter in ([\d.]+) s/.exec(lines)?.[1]) * 1000);
  const [, took, unit] = /compiled counter in ([\d.]+) (s|ms)/.exec(lines) ?? [];
  compiling.push(Number(took) * (unit === 's' ? 1000 : 1));
}
report({ panel: 'time', name: 'from the save until it is served', value: median(whole), unit: 'ms', reach: REACH_MS });
report({ panel: 'time', name: 'of that, the reload', value: median(reloading), unit: 'ms' });
report({ panel: 'time', name: 'of that, the compilation', value: median(compiling), unit: 'ms' });

/** Each version answers its number; odd ones have one more stable variable than the one before. */
function counter(version: number): string {
  const variables = Array.from({ length: Math.ceil(version / 2) }, (_, at) => `  var more${at} : Nat = 0;\n`);
  return `import { step } "lib/Step";
import Text "mo:core/Text";
persistent actor {
  var count = 0;
${variables.join('')}  public func inc() : async Nat { count += step; count };
  public query func version() : async Nat { ${version} + Text.size("") };
};
`;
}

async function save(source: string): Promise<void> {
  await writeFile(`${main}.draft`, source);
  await rename(`${main}.draft`, main);
}

async function answer(): Promise<number> {
  const response = await fetch(`${svc.origin}/query-json/counter/version`, { method: 'POST', body: '[]' });
  const [version] = (await response.json()) as [number];
  return version;
}
