/**
 * Measures how long the rehearsal of an upgrade takes, by its messages: a counter's `inc`, old and new code the same.
 *
 *   node benchmarks/macro/rehearsal.bench.ts [--rounds 9] [--dir FOLDER] [--quick]
 *
 * The median of the whole request, with the comparison of the modules and the hooks of the present state, and the
 * instructions of both copies beside it.
 */
import { optionsOf } from '../options.ts';
import { compiled, COUNTER, manifestOf } from './actor-fixtures.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const MESSAGES = [1, 100, 500, 1_000] as const;

const values = optionsOf({
  rounds: { type: 'string', default: '9' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const rounds = values.quick ? 1 : Number(values.rounds);

interface Report {
  readonly replayed: { readonly count: number; readonly same: number; readonly inexact: number };
}

await using scratch = await scratchFolder(values.dir);
await printSitting(`${rounds} rounds`);
const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), 1);
await using server = await startSvc({ manifest, args: ['--state', `${scratch.path}/state`, '--timeline', '3600'] });
const name = 'a0';
const post = async (path: string): Promise<unknown> =>
  await (await fetch(`${server.origin}${path}`, { method: 'POST', body: path.startsWith('/call') ? '[]' : '' })).json();
// The first state is kept a second later: messages before it cannot be rehearsed with.
while (!(await fetch(`${server.origin}/x/time/state/${name}`)).ok) await post(`/call-json/${name}/inc`);
for (let sent = 0; sent < 2 * Math.max(...MESSAGES); sent += 50)
  await Promise.all(Array.from({ length: 50 }, () => post(`/call-json/${name}/inc`)));
for (const messages of MESSAGES) {
  const samples: number[] = [];
  for (let round = 0; round < rounds + 1; round++) {
    const startMs = performance.now();
    const { replayed } = (await post(`/upgrade/${name}?dry=1&replay=${messages}`)) as Report;
    const isExact = replayed.count === messages && replayed.same === messages && replayed.inexact === 0;
    if (!isExact) throw new Error(`the rehearsal was not exact: ${JSON.stringify(replayed)}`);
    // The first round is the warm-up.
    if (round > 0 || values.quick) samples.push(performance.now() - startMs);
  }
  console.log(`  ${String(messages).padStart(5)} messages ${median(samples).toFixed(1).padStart(8)} ms`);
}
