/**
 * Measures metered and transactional wasm against raw V8 on small kernels of ten kinds.
 *
 * Ten AssemblyScript kernels (benchmarks/fixtures/kernels.as): the module as compiled, with metering alone, and with
 * metering, undo journal and stack counter. A message is begun, run and committed. ROUNDS=n sets the number of rounds,
 * KERNELS=a,b picks some. The six kernels with which the engine began are printed first, with a mean of their own.
 */
import { readFileSync } from 'node:fs';
import { ControlMemory } from '../../subsystems/execution/memory/control-memory.ts';
import { Instance } from '../../subsystems/execution/engine/instance.ts';
import type { InstrumentOptions } from '../../subsystems/instrument/index.ts';
import { compileAssemblyScript } from '../../test/support/assemblyscript.ts';
import { CONTROL_OPTIONS, prepare } from '../../test/support/bare-canister.ts';
import { renameExports } from '../../test/support/wasm-sections.ts';
import { report } from '../figures.ts';
import { interleaved, printRatios } from './interleaved.ts';
import { optionsOf } from '../options.ts';

optionsOf({});

const PREFIX = 'canister_update ';
const LIMIT = 2 ** 50;
const FIRST_KERNELS = ['sort', 'matrix', 'sieve', 'recursion', 'hash', 'trees'];
const source = readFileSync(new URL('../fixtures/kernels.as', import.meta.url), 'utf8');
const plain = await compileAssemblyScript(source, ['--enable', 'simd']);
const names = WebAssembly.Module.exports(new WebAssembly.Module(plain))
  .filter(({ kind, name }) => kind === 'function' && name !== 'result')
  .map(({ name }) => name);
const chosen = process.env['KERNELS']?.split(',') ?? names;
const canister = renameExports(plain, (name) => (names.includes(name) ? PREFIX + name : name));

const raw = new WebAssembly.Instance(new WebAssembly.Module(plain)).exports as Record<string, () => void>;
const control = new ControlMemory(CONTROL_OPTIONS);

function instrumented(options: InstrumentOptions): (name: string) => () => void {
  const instance = Instance.create(prepare(canister, options), {}, control);
  const message = (entry: number): void => {
    instance.begin(LIMIT);
    const fault = instance.run(entry);
    if (fault !== undefined) throw new Error(fault.message);
    instance.commit();
  };
  const start = instance.entry('start');
  if (start !== undefined) message(start);
  return (name) => {
    const entry = instance.entry(PREFIX + name);
    if (entry === undefined) throw new Error(`no kernel ${name}`);
    return () => message(entry);
  };
}

const metered = instrumented({ journal: false, depth: false });
const everything = instrumented({});
const rows: Record<string, Record<string, number>> = {};
for (const name of chosen) {
  const run = raw[name];
  if (run === undefined) continue;
  rows[name] = interleaved(
    { raw: () => run(), metered: metered(name), everything: everything(name) },
    { warmupRounds: 15, rounds: Number(process.env['ROUNDS'] ?? 7), callsPerRound: 4 },
  );
}
const isFirst = (name: string): boolean => FIRST_KERNELS.includes(name);
const picked = (isWanted: (name: string) => boolean): typeof rows =>
  Object.fromEntries(Object.entries(rows).filter(([name]) => isWanted(name)));
console.log('six kernels');
const six = printRatios(picked(isFirst));
console.log('\nall kernels');
const all = printRatios(rows);
console.log('');
const ratio = (name: string, value: number | undefined, goal: { reach?: number; aim?: number } = {}): void => {
  if (value !== undefined) report({ panel: 'ratio', name, value, unit: '', ...goal });
};
// The goals are those of all ten.
ratio('ten kernels, metered', all['metered']?.mean, { reach: 1.05 });
ratio('ten kernels, everything on', all['everything']?.mean, { reach: 1.1, aim: 1.06 });
ratio('six of them, metered', six['metered']?.mean);
ratio('six of them, everything on', six['everything']?.mean);
ratio('worst kernel, everything on', all['everything']?.worst, { reach: 1.35, aim: 1.2 });
