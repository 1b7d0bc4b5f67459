/**
 * Measures calls between actors, heartbeats and many actors at once, without HTTP.
 *
 *   node benchmarks/macro/scheduler.bench.ts [--seconds 5]
 *
 * The real scheduler and the real executors in this process, Motoko actors, no HTTP. A call is awaited in a loop inside
 * an actor, so its time is the way to the callee and back to the callback: two messages in executors, and two crossings
 * to the main thread and back, where a message from there has one. V8 has compiled all of it after some 200,000 calls;
 * the time of the first 40,000 is printed beside. Fairness is the longest wait of a message for its answer over the
 * mean, with 64 messages under way all the time, to actors chosen at random. The floor of many actors is V8 itself, in
 * one thread: plain instances of the module, called at random.
 */
import { readFileSync } from 'node:fs';
import { optionsOf } from '../options.ts';
import { systemClock } from '../../kernel/index.ts';
import { createCodec } from '../../subsystems/codec/codec.ts';
import { principalToText, idToText } from '../../subsystems/ic/index.ts';
import { compileMotoko } from '../../test/support/motoko.ts';
import { ExecutorPool } from '../../subsystems/execution/pool/executor-pool.ts';
import { NoStorage } from '../../subsystems/storage/no-storage.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';
import { NO_ARGUMENTS, startPlainCanister } from '../../test/support/bare-canister.ts';
import { printFigure, printSitting } from './sitting.ts';

const values = optionsOf({ seconds: { type: 'string', default: '5' } });
const seconds = Number(values.seconds);
await printSitting('no HTTP, nothing stored');
const ANONYMOUS = Uint8Array.of(4);
const EMPTY = Buffer.from('4449444c0000', 'hex');
const EXECUTORS = 2;
const RUNS = 60;
const FIRST_RUNS = 8;

const source = readFileSync(new URL('../fixtures/caller.mo', import.meta.url), 'utf8');
const { wasm } = await compileMotoko(source);
const codec = createCodec();
const policy = {
  isEnabled: true,
  startingCycles: 10n ** 18n,
  cyclesPerMessage: 590_000,
  cyclesPer10Instructions: 4,
  instructionLimit: 40_000_000_000,
};
const silent = (): void => undefined;
const complain = (message: string): void => void process.stderr.write(`${message}\n`);
const log = { event: silent, debug: silent, info: silent, warn: complain, error: complain, announce: silent };

interface Host {
  readonly scheduler: RoundScheduler;
  readonly handles: readonly number[];
  readonly close: () => Promise<void>;
}

async function host(actors: number, heartbeatMs: number): Promise<Host> {
  const pool = new ExecutorPool({ policy, clock: systemClock, log }, { executors: EXECUTORS, wasmStackBytes: 4 << 20 });
  const scheduler = new RoundScheduler(
    { execution: pool, clock: systemClock, storage: new NoStorage() },
    { heartbeatMs, timerMs: 100, queryInstructionsMax: policy.instructionLimit },
  );
  const module = await pool.prepare(wasm);
  const handles: number[] = [];
  for (let i = 0; i < actors; i++) {
    const spec = {
      id: idOf(i),
      balance: policy.startingCycles,
      controllers: [ANONYMOUS],
      env: new Map<string, string>(),
    };
    const handle = pool.create(spec);
    scheduler.admit(handle, idToText(spec.id));
    const { step } = await scheduler.change(handle, module, { mode: 'install', argument: EMPTY, caller: ANONYMOUS });
    if (step.fault !== undefined) throw new Error(step.fault.message);
    handles.push(handle);
  }
  return { scheduler, handles, close: () => pool.close() };
}

function idOf(index: number): Uint8Array {
  const id = new Uint8Array(10);
  new DataView(id.buffer).setUint32(4, index + 1);
  id[8] = 1;
  id[9] = 1;
  return id;
}

async function call(scheduler: RoundScheduler, handle: number, method: string, argument: Uint8Array): Promise<void> {
  // The argument is copied: large arguments are handed over, and benchmarks reuse them.
  const outcome = await scheduler.deliver(handle, {
    kind: 'update',
    method,
    caller: ANONYMOUS,
    argument: argument.slice(),
  });
  if (outcome.kind !== 'reply') throw new Error(`${method}: ${outcome.message}`);
}

/** Returns µs a round: the least of many runs, and of the first few. */
async function perRound(
  rounds: number,
  run: () => Promise<void>,
): Promise<{ readonly us: number; readonly firstUs: number }> {
  const runs: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    const before = performance.now();
    await run();
    runs.push(((performance.now() - before) * 1000) / rounds);
  }
  return { us: Math.min(...runs), firstUs: Math.min(...runs.slice(0, FIRST_RUNS)) };
}

const row = (what: string, figure: string): void => console.log(what.padEnd(58), figure);
// Executors do not keep a process alive.
const alive = setInterval(silent, 1 << 30);

{
  const { scheduler, handles, close } = await host(3, 0);
  const rounds = 5_000;
  const [a = 0, b = 1, c = 2] = handles;
  const one = await perRound(rounds, async () => {
    for (let round = 0; round < rounds; round++) await call(scheduler, a, 'inc', EMPTY);
  });
  const first = ({ firstUs }: { readonly firstUs: number }): string => `of the first 40,000: ${firstUs.toFixed(1)} µs`;
  printFigure('a message from the main thread and its answer', one.us, 'µs', first(one));
  const self = await perRound(rounds, () => call(scheduler, a, 'callSelf', codec.encodeText(`(${rounds} : nat)`)));
  printFigure('self-call, round trip with callback', self.us, 'µs', first(self));
  // Handles go to the executors in turn: the third lives with the first, the second elsewhere.
  const peer = (index: number): Uint8Array =>
    codec.encodeText(`(principal "${principalToText(idOf(index))}", ${rounds} : nat)`);
  const same = await perRound(rounds, () => call(scheduler, a, 'callPeer', peer(c)));
  printFigure('call to an actor of the same executor', same.us, 'µs', first(same), {
    is: 'at most',
    reach: 12,
    aim: 8,
  });
  const other = await perRound(rounds, () => call(scheduler, a, 'callPeer', peer(b)));
  printFigure('call to an actor of another executor', other.us, 'µs', first(other), {
    is: 'at most',
    reach: 40,
    aim: 20,
  });
  await close();
}

/** Returns a generator of pseudo-random numbers, the same ones in every run. */
function randomly(): (below: number) => number {
  let state = 7;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const rates = new Map<number, number>();
for (const actors of [1, 10, 1000]) {
  const { scheduler, handles, close } = await host(actors, 0);
  const random = randomly();
  let isRunning = true;
  let count = 0;
  let sumMs = 0;
  let longestMs = 0;
  const client = async (): Promise<void> => {
    while (isRunning) {
      const before = performance.now();
      await call(scheduler, handles[random(actors)] ?? 0, 'inc', EMPTY);
      const ms = performance.now() - before;
      sumMs += ms;
      longestMs = Math.max(longestMs, ms);
      count++;
    }
  };
  setTimeout(() => (isRunning = false), seconds * 1000);
  await Promise.all(Array.from({ length: 64 }, client));
  rates.set(actors, count / seconds);
  const rate = Math.round(count / seconds).toLocaleString('en');
  row(
    `messages/s over ${actors} actor(s), 64 under way`,
    `${rate}, longest wait / mean ${(longestMs / (sumMs / count)).toFixed(0)}`,
  );
  await close();
}

/** Returns the `inc`s a second of so many plain instances on V8, in this thread. */
function plainRate(actors: number): number {
  const canisters = Array.from({ length: actors }, () => startPlainCanister(wasm));
  for (const canister of canisters) canister.call('canister_init', NO_ARGUMENTS);
  const random = randomly();
  let count = 0;
  let until = 0;
  for (const ms of [500, 1000]) {
    until = performance.now() + ms;
    for (count = 0; performance.now() < until; count++)
      canisters[random(actors)]?.call('canister_update inc', NO_ARGUMENTS);
  }
  return count;
}

const many = { is: 'at least', reach: 0.6, aim: 0.8 } as const;
printFigure('messages/s over 1,000 actors / over one', (rates.get(1000) ?? 0) / (rates.get(1) ?? 0), '', '', many);
printFigure('the same of plain instances, in one thread of V8', plainRate(1000) / plainRate(1), '');

for (const [actors, heartbeatMs] of [
  [1000, 1000],
  [100, 0],
] as const) {
  const { scheduler, close } = await host(actors, heartbeatMs);
  scheduler.beginTicking();
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const before = process.cpuUsage();
  await new Promise((resolve) => setTimeout(resolve, seconds * 2000));
  const { user, system } = process.cpuUsage(before);
  const share = ((user + system) / (seconds * 2e6)) * 100;
  row(
    heartbeatMs > 0 ? `${actors} actors with a heartbeat every second` : `${actors} actors, idle`,
    `${share.toFixed(2)} % of a core`,
  );
  await scheduler.drain();
  await close();
}
clearInterval(alive);
