/**
 * Measures how long the replay of one message takes, against executing it: a counter's `inc`, loops of a raw module.
 *
 *   node benchmarks/macro/replay.bench.ts [--rounds 21] [--dir FOLDER] [--quick]
 *
 * Medians of whole requests, one after the other; the quotient is that of the two.
 */
import { wat } from '../../test/support/wat.ts';
import { optionsOf } from '../options.ts';
import { compiled, COUNTER, manifestOf } from './actor-fixtures.ts';
import { median } from './quantile.ts';
import { scratchFolder } from './scratch.ts';
import { printSitting } from './sitting.ts';
import { startSvc } from './svc-process.ts';

const LOOPS = [1_000_000, 10_000_000, 100_000_000] as const;
const WARM_UP = 3;
const LOOPING = wat(`(module
  (import "ic0" "msg_reply" (func $reply))
  (memory 16)
  ${LOOPS.map(
    (loops) => `(func (export "canister_update loop${loops}") (local $n i32)
      (loop $next
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (i32.store (i32.const 8) (local.get $n))
        (br_if $next (i32.lt_u (local.get $n) (i32.const ${loops}))))
      (call $reply))`,
  ).join('\n')})`);

const values = optionsOf({
  rounds: { type: 'string', default: '21' },
  dir: { type: 'string' },
  quick: { type: 'boolean', default: false },
});
const rounds = values.quick ? 1 : Number(values.rounds);

await using scratch = await scratchFolder(values.dir);
await printSitting(`${rounds} rounds`);
const manifest = await manifestOf(scratch.path, 'counter', await compiled(COUNTER, 'enhanced'), 1);
await using server = await startSvc({ manifest, args: ['--state', `${scratch.path}/state`, '--timeline', '3600'] });

async function post(path: string, body: string | Uint8Array<ArrayBuffer> = ''): Promise<string> {
  const answer = await fetch(`${server.origin}${path}`, { method: 'POST', body });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${text}`);
  return text;
}

async function timed(request: () => Promise<unknown>): Promise<number> {
  const samples: number[] = [];
  for (let round = 0; round < WARM_UP + rounds; round++) {
    const startMs = performance.now();
    await request();
    if (round >= WARM_UP) samples.push(performance.now() - startMs);
  }
  return median(samples);
}

/** Resolves when states of the actor's messages are kept. */
async function begun(actor: string, call: () => Promise<unknown>): Promise<void> {
  for (;;) {
    await call();
    const { ok } = await fetch(`${server.origin}/x/time/state/${actor}`);
    if (ok) return;
  }
}

async function measure(name: string, actor: string, call: () => Promise<unknown>): Promise<void> {
  const executedMs = await timed(call);
  const [{ seq, instructions } = { seq: 0, instructions: 0 }] = (await (
    await fetch(`${server.origin}/x/time/timeline/${actor}?from=now`)
  ).json()) as { seq: number; instructions: number }[];
  const replayedMs = await timed(async () => {
    const { exact } = JSON.parse(await post(`/x/time/replay/${actor}?seq=${seq}`)) as { exact: boolean };
    if (!exact) throw new Error(`seq:${seq} of ${actor} was not exact`);
  });
  const figures = [executedMs, replayedMs].map((ms) => `${ms.toFixed(1).padStart(8)} ms`);
  const more = `${(replayedMs / executedMs).toFixed(2)} ×, ${(replayedMs - executedMs).toFixed(1)} ms more`;
  console.log(
    `  ${name.padEnd(14)} ${String(instructions).padStart(12)} instructions ${figures.join(' → ')}   ${more}`,
  );
}

await post('/install/loops', new Uint8Array(LOOPING));
const inc = (): Promise<string> => post('/call-json/a0/inc', '[]');
const loop = (loops: number) => (): Promise<string> => post(`/call/loops/loop${loops}`);
await begun('a0', inc);
await begun('loops', loop(LOOPS[0]));
console.log('executed → replayed');
await measure('counter inc', 'a0', inc);
for (const loops of LOOPS) await measure(`${loops} loops`, 'loops', loop(loops));
