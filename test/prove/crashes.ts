/**
 * The long form of the crash simulator, on all cores: `node test/prove/crashes.ts [COUNT [--from N] | --seed N]`.
 * Prints every failing seed with its findings; exit code 1 if there is one. `--from`: continues a run that was cut
 * short, with the seeds N to COUNT.
 */
import { availableParallelism } from 'node:os';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { messageOf } from '../../kernel/index.ts';
import { SIZE_CLASSES } from '../simulation/durable/payload-sizes.ts';
import { CONTROL } from '../simulation/durable/plan.ts';
import { CARELESS } from '../simulation/durable/planted-threads.ts';
import { simulate, type Tally } from '../simulation/durable/world.ts';
import { digestOf } from '../support/proof-seeds.ts';

const SEEDS = 20_000;
/** Kinds of seeds: three of them run once more, each in its own way (`prove`). */
const BESIDE_EVERY = 4;
/** Number of seeds that draw every size of a payload. */
const SEEDS_FOR_ALL_SIZES = 150;
const PROGRESS_EVERY_MS = 10_000;
/**
 * Number of seeds after which a thread is replaced, with all that V8 keeps of their hundreds of modules and memories.
 */
const SEEDS_PER_THREAD = 40;
/** Limit that no seed reaches, however busy the machine is. */
const STUCK_MS = 300_000;

/** Every `step`-th seed from `first` up to `last`. */
interface Work {
  readonly first: number;
  readonly step: number;
  readonly last: number;
}

interface Report {
  readonly seed: number;
  readonly failure: string | undefined;
  readonly tally: Tally | undefined;
}

if (!isMainThread) {
  await work(workerData as Work);
} else if (process.argv[2] === '--seed') {
  const seed = numberOf(process.argv[3]);
  console.log(JSON.stringify(await prove(seed), undefined, 2));
} else {
  const [, , last, from, first] = process.argv;
  await supervise(from === '--from' ? numberOf(first) : 1, last === undefined ? SEEDS : numberOf(last));
}

function numberOf(text: string | undefined): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new RangeError(`${text} is no number of seeds`);
  return number;
}

/**
 * Runs a seed and, for some, the same once more: with what bugs are planted with, with an engine that does not notice,
 * or with actors that ask outside, whose outcalls are added to the counts.
 */
async function prove(seed: number): Promise<Tally> {
  const tally = await simulate(seed);
  const turn = seed % BESIDE_EVERY;
  if (turn === 1) await simulate(seed, CONTROL);
  if (turn === 2) await simulate(seed, undefined, CARELESS);
  if (turn !== 0) return tally;
  const { outcallsLost, outcallsTransient } = await simulate(seed, undefined, {}, { asksOutside: true });
  return { ...tally, outcallsLost, outcallsTransient };
}

async function work({ first, step, last }: Work): Promise<void> {
  for (let seed = first; seed <= last; seed += step) {
    let failure: string | undefined;
    let tally: Tally | undefined;
    try {
      tally = await prove(seed);
    } catch (error) {
      failure = messageOf(error);
    }
    parentPort?.postMessage({ seed, failure, tally } satisfies Report);
  }
}

async function supervise(first: number, last: number): Promise<void> {
  const count = last - first + 1;
  if (count < 1) throw new RangeError(`there is no seed from ${first} to ${last}`);
  const threads = Math.max(1, Math.min(count, availableParallelism()));
  const startMs = performance.now();
  const sum = new Map<string, number>();
  const sizes = new Map<string, number>();
  const failed: number[] = [];
  const tallies: (Tally | undefined)[] = [];
  let done = 0;
  const seconds = (): number => Math.round((performance.now() - startMs) / 1000);
  const progress = setInterval(() => console.log(`  ${done} of ${count}, ${seconds()} s`), PROGRESS_EVERY_MS);
  /** Has a thread do its share; returns the seed to go on with. A seed that hangs, or ends the thread, has failed. */
  const share = (task: Work): Promise<number> =>
    new Promise((resolve) => {
      let next = task.first;
      let hasEnded = false;
      const worker = new Worker(new URL(import.meta.url), { workerData: task });
      const watch = (): NodeJS.Timeout => setTimeout(() => end('hangs'), STUCK_MS);
      let stuck = watch();
      const end = (reason: string | undefined): void => {
        if (hasEnded) return;
        hasEnded = true;
        clearTimeout(stuck);
        void worker.terminate();
        if (reason !== undefined) {
          failed.push(next);
          console.log(`seed ${next} ${reason}`);
          next += task.step;
        }
        resolve(next);
      };
      worker.on('message', ({ seed, failure, tally }: Report) => {
        clearTimeout(stuck);
        stuck = watch();
        next = seed + task.step;
        done++;
        tallies[seed] = tally;
        const { sizes: drawn = {}, ...numbers } = tally ?? {};
        for (const [what, many] of Object.entries(numbers)) sum.set(what, (sum.get(what) ?? 0) + many);
        for (const [what, many] of Object.entries(drawn)) sizes.set(what, (sizes.get(what) ?? 0) + many);
        if (failure === undefined) return;
        failed.push(seed);
        console.log(failure);
      });
      worker.on('error', (error: unknown) => end(`ended its thread: ${messageOf(error)}`));
      worker.on('exit', () => end(next > task.last ? undefined : 'ended its thread'));
    });
  const finished = async (begin: number): Promise<void> => {
    const span = threads * SEEDS_PER_THREAD;
    for (let from = begin; from <= last;) {
      from = await share({ first: from, step: threads, last: Math.min(last, from + span - 1) });
    }
  };
  await Promise.all(Array.from({ length: threads }, (_, index) => finished(first + index)));
  clearInterval(progress);
  const parts = [...sum].map(([what, many]) => `${many} ${what}`);
  console.log(`${done} seeds in ${seconds()} s: ${parts.join(', ')}`);
  for (const what of SIZE_CLASSES) console.log(`  ${String(sizes.get(what) ?? 0).padStart(8)} payloads: ${what}`);
  // A change that keeps the behaviour keeps the digest.
  console.log(`digest of what they did: ${digestOf(tallies)}`);
  const missing = SIZE_CLASSES.filter((what) => !sizes.has(what));
  if (missing.length > 0 && count >= SEEDS_FOR_ALL_SIZES) {
    console.log(`no payload was ${missing.join(', or ')}`);
    process.exitCode = 1;
  }
  if (failed.length === 0) return;
  console.log(`${failed.length} failed; again: npm run prove -- crashes --seed ${failed[0]}`);
  process.exitCode = 1;
}
