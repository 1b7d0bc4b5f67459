/**
 * Measures decoding, checking and instrumenting a module, before V8 compiles it.
 *
 * A small Motoko actor (benchmarks/fixtures/busy.mo, 64-bit) and a large one (benchmarks/fixtures/large-actor.ts), both
 * as the compiler made them; the first run compiles the large one, which takes half a minute. The benchmark shows CPU
 * time and wall time, minimum and median of the rounds after the code is warm, and the parts of the time. ROUNDS=n sets
 * the number of rounds.
 */
import { readFileSync } from 'node:fs';
import { instrument } from '../../subsystems/instrument/index.ts';
import { decodeModule, validateCanister, type WasmModule } from '../../subsystems/wasm/index.ts';
import { compileMotoko } from '../../test/support/motoko.ts';
import { largeActor } from '../fixtures/large-actor.ts';
import { report, written } from '../figures.ts';
import { optionsOf } from '../options.ts';

optionsOf({});

const WARM_ROUNDS = 12;
const ROUNDS = Number(process.env['ROUNDS'] ?? 15);
const KINDS = 109;

interface Times {
  readonly cpuMs: number;
  readonly ms: number;
}

function timed<Result>(work: () => Result): { readonly result: Result; readonly times: Times } {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const result = work();
  const ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { result, times: { cpuMs: (user + system) / 1000, ms } };
}

function load(bytes: Uint8Array): Readonly<Record<string, Times>> {
  const decoded = timed((): WasmModule => decodeModule(bytes));
  const checked = timed(() => validateCanister(decoded.result));
  const made = timed(() => instrument(decoded.result));
  const parts = { decode: decoded.times, check: checked.times, instrument: made.times };
  const all = Object.values(parts);
  return {
    ...parts,
    all: {
      cpuMs: all.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
      ms: all.reduce((sum, { ms }) => sum + ms, 0),
    },
  };
}

function measure(name: string, wasm: Uint8Array, reach: number): void {
  for (let round = 0; round < WARM_ROUNDS; round++) load(wasm);
  const rounds = Array.from({ length: ROUNDS }, () => load(wasm));
  const least = (part: string): number => Math.min(...rounds.map((times) => times[part]?.cpuMs ?? Infinity));
  const passed = rounds.map((times) => times['all']?.ms ?? Infinity).toSorted((a, b) => a - b);
  const made = timed(() => instrument(decodeModule(wasm))).result.bytes;
  const compiling = timed(() => new WebAssembly.Module(made));
  report({
    panel: 'time',
    name: `instrument ${name}`,
    value: least('all'),
    unit: 'ms',
    reach,
    note: `CPU; median ${written(passed[ROUNDS >> 1] ?? 0)} ms passed; decode ${written(least('decode'))}, check ${written(least('check'))}, instrument ${written(least('instrument'))}`,
  });
  console.log(
    `  ${wasm.length} bytes become ${made.length}; V8 then takes ${written(compiling.times.ms)} ms to accept them (${written(compiling.times.cpuMs)} of CPU)`,
  );
}

const busy = readFileSync(new URL('../fixtures/busy.mo', import.meta.url), 'utf8');
const small = await compileMotoko(busy, { persistence: 'enhanced' });
const large = await compileMotoko(largeActor(KINDS), { persistence: 'enhanced' });
measure('a 280 KB Motoko module', small.wasm, 25);
measure('a 3.5 MB Motoko module', large.wasm, 300);
