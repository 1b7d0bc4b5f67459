/** Properties that must hold for any bytes that are given as a module. */
import assert from 'node:assert/strict';
import { ServerError } from '../../kernel/index.ts';
import { ControlMemory } from '../../subsystems/execution/memory/control-memory.ts';
import { Instance } from '../../subsystems/execution/engine/instance.ts';
import { instrument, type InstrumentedModule } from '../../subsystems/instrument/index.ts';
import { decodeModule, validateCanister } from '../../subsystems/wasm/index.ts';
import { BareHost, CONTROL_OPTIONS } from '../support/bare-canister.ts';
import { type Seeded, seeded } from '../support/seeded.ts';
import { mutate } from './wasm-mutator.ts';

/**
 * Bound of the thread's CPU time, which does not depend on a busy machine. The slowest input takes a tenth of a second;
 * quadratic work takes minutes.
 */
const MS_MAX = 10_000;
const MESSAGE_LENGTH_MAX = 500;
const RUN_INSTRUCTIONS = 200_000;
const RUN_HEAP_PAGES_MAX = 100;

export interface Tally {
  inputs: number;
  taken: number;
  ran: number;
  /** CPU time of the slowest input. */
  slowestMs: number;
  /** Refusals by code. */
  readonly refused: Map<string, number>;
  /** Valid WebAssembly that was called malformed, by message without numbers. */
  readonly disputed: Map<string, number>;
}

export const newTally = (): Tally => ({
  inputs: 0,
  taken: 0,
  ran: 0,
  slowestMs: 0,
  refused: new Map(),
  disputed: new Map(),
});

/** Returns input number `index` of a run: the same for the same seed. */
export function inputOf(
  modules: readonly Uint8Array[],
  wholeCount: number,
  runSeed: number,
  index: number,
): Uint8Array {
  const random = seeded(Math.imul(runSeed, 0x85ebca6b) ^ Math.imul(index + 1, 0xc2b2ae35));
  // Whole programs take long, so they are one input in a thousand.
  const count = random.oneIn(1000) ? modules.length : modules.length - wholeCount;
  return mutate(pick(modules, count, random), pick(modules, modules.length, random), random);
}

function pick(modules: readonly Uint8Array[], count: number, random: Seeded): Uint8Array {
  const one = modules[random.below(count)];
  assert.ok(one !== undefined);
  return one;
}

const bump = (counts: Map<string, number>, key: string): void => void counts.set(key, (counts.get(key) ?? 0) + 1);

/** Throws an AssertionError if a property does not hold. `runs`: also instantiate and run accepted modules. */
export function checkInput(bytes: Uint8Array, tally: Tally, runs: boolean): void {
  tally.inputs++;
  const start = process.threadCpuUsage();
  const instrumented = load(bytes, tally);
  const { user, system } = process.threadCpuUsage(start);
  const ms = (user + system) / 1000;
  if (ms > tally.slowestMs) tally.slowestMs = ms;
  assert.ok(ms < MS_MAX, `took ${Math.round(ms)} ms`);
  if (instrumented === undefined) return;
  tally.taken++;
  assert.ok(WebAssembly.validate(bytes), 'taken, but V8 refuses it');
  try {
    const module = new WebAssembly.Module(instrumented.bytes);
    if (runs && instrumented.layout.heapPagesInitial <= RUN_HEAP_PAGES_MAX) run(module, instrumented, tally);
  } catch (error) {
    if (error instanceof WebAssembly.CompileError) assert.fail(`V8 refuses what was made of it: ${error.message}`);
    throw error;
  }
}

function load(bytes: Uint8Array, tally: Tally): InstrumentedModule | undefined {
  try {
    const module = decodeModule(bytes);
    validateCanister(module);
    return instrument(module);
  } catch (error) {
    assert.ok(
      error instanceof ServerError && error.kind === 'invalid',
      error instanceof Error ? (error.stack ?? error.message) : String(error),
    );
    assert.ok(
      error.message.length < MESSAGE_LENGTH_MAX,
      `a message of ${error.message.length} characters: ${error.message.slice(0, 300)}`,
    );
    bump(tally.refused, error.code);
    if (error.code === 'wasm-malformed' && WebAssembly.validate(bytes))
      bump(tally.disputed, error.message.replace(/0x[0-9a-f]+|\d+/g, '#'));
    return undefined;
  }
}

let control: ControlMemory | undefined;

/** Instantiates, starts and calls an accepted module, which may trap, and undoes its changes. */
function run(module: WebAssembly.Module, { layout }: InstrumentedModule, tally: Tally): void {
  control ??= new ControlMemory(CONTROL_OPTIONS);
  const host = new BareHost();
  const instance = Instance.create({ module, layout }, host.imports, control);
  host.heap = () => instance.heap();
  host.touch = (address, length) => instance.touch(address, length);
  host.charge = (instructions) => instance.charge(instructions);
  tally.ran++;
  for (const entry of layout.entries.keys()) {
    const before = instance.heap().slice();
    instance.begin(RUN_INSTRUCTIONS);
    instance.run(entry);
    assert.ok(instance.instructionsUsed() <= RUN_INSTRUCTIONS);
    instance.rollback();
    assert.equal(Buffer.compare(instance.heap(), before), 0, `entry ${entry}: rolled back, the heap is different`);
  }
}
