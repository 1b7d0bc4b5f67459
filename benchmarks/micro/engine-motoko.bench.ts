/**
 * Measures a metered and transactional Motoko actor against raw V8, and the cost of a short message.
 *
 * Six programs (benchmarks/fixtures/suite.mo: numbers, text, maps, blobs, allocation, garbage) with their geometric
 * mean, and `busy` of benchmarks/fixtures/busy.mo (big numbers), classical (32-bit) and enhanced (64-bit): the module
 * as compiled, with metering alone, and with metering, undo journal and stack counter. Ratios of Motoko programs vary
 * by some percent between processes, because V8's inlining depends on when a function tiers up: run the benchmark
 * twice. At the end comes the time of one `inc` with begin and commit. ROUNDS=n sets the number of rounds.
 */
import { readFileSync } from 'node:fs';
import type { InstrumentOptions } from '../../subsystems/instrument/index.ts';
import {
  type BareCanister,
  NO_ARGUMENTS,
  prepare,
  startCanister,
  startPlainCanister,
} from '../../test/support/bare-canister.ts';
import { compileMotoko } from '../../test/support/motoko.ts';
import { report } from '../figures.ts';
import { interleaved, printRatios, type Ratios } from './interleaved.ts';
import { optionsOf } from '../options.ts';

optionsOf({});

const PROGRAMS = ['numbers', 'text', 'maps', 'blobs', 'allocation', 'garbage'];
const INC_CALLS = 20_000;
const sourceOf = (name: string): string => readFileSync(new URL(`../fixtures/${name}.mo`, import.meta.url), 'utf8');
const rounds = Number(process.env['ROUNDS'] ?? 7);

function started(wasm: Uint8Array, options: InstrumentOptions): BareCanister {
  return initialised(startCanister(prepare(wasm, options)));
}
function initialised(canister: BareCanister): BareCanister {
  canister.call('canister_init', NO_ARGUMENTS);
  return canister;
}

type Calls = (method: string) => Record<string, () => void>;

async function actor(name: string, persistence: 'classical' | 'enhanced'): Promise<Calls> {
  const { wasm } = await compileMotoko(sourceOf(name), { persistence });
  const canisters = {
    raw: initialised(startPlainCanister(wasm)),
    metered: started(wasm, { journal: false, depth: false }),
    everything: started(wasm, {}),
  };
  console.log(`${name}.mo, ${persistence}, ${wasm.length} bytes`);
  return (method) =>
    Object.fromEntries(
      Object.entries(canisters).map(([variant, canister]) => [
        variant,
        () => {
          canister.call(`canister_update ${method}`, NO_ARGUMENTS);
        },
      ]),
    );
}

function measured(calls: Calls, methods: readonly string[]): Readonly<Record<string, Ratios>> {
  const rows: Record<string, Record<string, number>> = {};
  for (const method of methods)
    rows[method] = interleaved(calls(method), { warmupRounds: 6, rounds, callsPerRound: 2 });
  return printRatios(rows);
}

for (const persistence of ['classical', 'enhanced'] as const) {
  const bits = persistence === 'classical' ? '32-bit' : '64-bit';
  const suite = measured(await actor('suite', persistence), PROGRAMS);
  const busy = await actor('busy', persistence);
  const { everything: alone } = measured(busy, ['busy']);
  const inc = interleaved(busy('inc'), { warmupRounds: INC_CALLS, rounds, callsPerRound: INC_CALLS });
  const microseconds = Object.entries(inc).map(
    ([variant, milliseconds]) => `${variant} ${(milliseconds * 1000).toFixed(2)} µs`,
  );
  console.log(`inc              ${microseconds.join('   ')}\n`);
  const ratio = (name: string, value: number | undefined, goal: { reach?: number; aim?: number } = {}): void => {
    if (value === undefined) return;
    report({ panel: 'ratio', name: `${name}, ${bits}`, value, unit: '', ...goal });
  };
  const isClassical = persistence === 'classical';
  ratio('six Motoko programs, metered', suite['metered']?.mean);
  ratio('six Motoko programs, everything on', suite['everything']?.mean, { reach: isClassical ? 1.5 : 1.7 });
  const busyGoal = isClassical ? { reach: 1.3, aim: 1.15 } : { reach: 1.4, aim: 1.2 };
  ratio('big numbers in Motoko, everything on', alone?.mean, busyGoal);
  console.log('');
}
