/**
 * What do calls between actors, heartbeats and many actors at once cost, without HTTP?
 *
 *   node benchmarks/macro/scheduler.bench.ts [--seconds 5]
 *
 * The real scheduler and the real executors in this process, Motoko actors, no HTTP. A call is awaited in a loop inside an
 * actor, so its time is the way to the callee and back to the callback. Fairness is the longest time a message waited for
 * its answer over the mean, with 64 messages under way all the time, to actors chosen at random.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { systemClock } from '../../kernel/index.ts';
import { createCodec } from '../../subsystems/codec/codec.ts';
import { principalToText, idToText } from '../../subsystems/ic/index.ts';
import { compileMotoko } from '../../subsystems/compiler/motoko-compiler.ts';
import { ExecutorPool } from '../../subsystems/execution/pool/executor-pool.ts';
import { NoStorage } from '../../subsystems/storage/no-storage.ts';
import { RoundScheduler } from '../../subsystems/scheduler/round-scheduler.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '5' } } });
const seconds = Number(values.seconds);
const ANONYMOUS = Uint8Array.of(4);
const EMPTY = Buffer.from('4449444c0000', 'hex');
const EXECUTORS = 2;

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
    const handle = pool.create(spec, { debug: silent, ended: silent, lost: silent });
    scheduler.admit(handle, idToText(spec.id));
    const step = await scheduler.change(handle, module, { mode: 'install', argument: EMPTY, caller: ANONYMOUS });
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
  // A copy: large arguments are handed over, and benchmarks use them again.
  const outcome = await scheduler.deliver(handle, {
    kind: 'update',
    method,
    caller: ANONYMOUS,
    argument: argument.slice(),
  });
  if (outcome.kind !== 'reply') throw new Error(`${method}: ${outcome.message}`);
}

/** The least time of a few runs, in µs a round. */
async function perRound(rounds: number, run: () => Promise<void>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 8; i++) {
    const before = performance.now();
    await run();
    least = Math.min(least, ((performance.now() - before) * 1000) / rounds);
  }
  return least;
}

const row = (what: string, figure: string): void => console.log(what.padEnd(58), figure);
// Executors keep no process alive.
const alive = setInterval(silent, 1 << 30);

{
  const { scheduler, handles, close } = await host(3, 0);
  const rounds = 5_000;
  const [a = 0, b = 1, c = 2] = handles;
  const self = await perRound(rounds, () => call(scheduler, a, 'callSelf', codec.encodeText(`(${rounds} : nat)`)));
  row('self-call, round trip with callback', `${self.toFixed(1)} µs`);
  // Handles go to the executors in turn: the third lives with the first, the second elsewhere.
  const peer = (index: number): Uint8Array =>
    codec.encodeText(`(principal "${principalToText(idOf(index))}", ${rounds} : nat)`);
  const same = await perRound(rounds, () => call(scheduler, a, 'callPeer', peer(c)));
  row('call to an actor of the same executor', `${same.toFixed(1)} µs`);
  const other = await perRound(rounds, () => call(scheduler, a, 'callPeer', peer(b)));
  row('call to an actor of another executor', `${other.toFixed(1)} µs`);
  await close();
}

for (const actors of [1, 10, 1000]) {
  const { scheduler, handles, close } = await host(actors, 0);
  let state = 7;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
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
  const rate = Math.round(count / seconds).toLocaleString('en');
  row(
    `messages/s over ${actors} actor(s), 64 under way`,
    `${rate}, longest wait / mean ${(longestMs / (sumMs / count)).toFixed(0)}`,
  );
  await close();
}

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
