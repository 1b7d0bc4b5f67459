/**
 * How much slower than raw V8 is a metered and transactional Motoko actor, and what does a short message cost?
 *
 * The actor of benchmarks/fixtures/busy.mo, classical (32-bit) and enhanced (64-bit): arithmetic, a map, an array; the
 * module as compiled, with metering alone, and with metering, undo journal and stack counter. Ratios of Motoko programs
 * swing by some percent between processes, because V8's inlining depends on when a function tiers up: run it twice.
 * At the end the time of one `inc` with begin and commit. ROUNDS=n sets the number of rounds.
 */
import { readFileSync } from 'node:fs';
import type { InstrumentOptions } from '../../subsystems/metering/instrument/index.ts';
import {
  type BareCanister,
  NO_ARGUMENTS,
  prepare,
  startCanister,
  startPlainCanister,
} from '../../test/support/bare-canister.ts';
import { compileMotoko } from '../../test/support/motoko.ts';
import { interleaved, printRatios } from './interleaved.ts';

const METHODS = ['busy', 'maps', 'allocate'];
const INC_CALLS = 20_000;
const source = readFileSync(new URL('../fixtures/busy.mo', import.meta.url), 'utf8');
const rounds = Number(process.env['ROUNDS'] ?? 7);

function started(wasm: Uint8Array, options: InstrumentOptions): BareCanister {
  return initialised(startCanister(prepare(wasm, options)));
}
function initialised(canister: BareCanister): BareCanister {
  canister.call('canister_init', NO_ARGUMENTS);
  return canister;
}

for (const persistence of ['classical', 'enhanced'] as const) {
  const { wasm } = await compileMotoko(source, { persistence });
  const canisters = {
    raw: initialised(startPlainCanister(wasm)),
    metered: started(wasm, { journal: false, depth: false }),
    everything: started(wasm, {}),
  };
  const calls = (name: string): Record<string, () => void> =>
    Object.fromEntries(
      Object.entries(canisters).map(([variant, canister]) => [
        variant,
        () => {
          canister.call(`canister_update ${name}`, NO_ARGUMENTS);
        },
      ]),
    );
  console.log(`${persistence}, ${wasm.length} bytes`);
  const rows: Record<string, Record<string, number>> = {};
  for (const name of METHODS) rows[name] = interleaved(calls(name), { warmupRounds: 4, rounds, callsPerRound: 2 });
  printRatios(rows);
  const inc = interleaved(calls('inc'), { warmupRounds: INC_CALLS, rounds, callsPerRound: INC_CALLS });
  const microseconds = Object.entries(inc).map(
    ([variant, milliseconds]) => `${variant} ${(milliseconds * 1000).toFixed(2)} µs`,
  );
  console.log(`inc              ${microseconds.join('   ')}\n`);
}
