/**
 * The long form of `test/fuzz/wasm.test.ts`: mutated modules through decoder, checks and instrumenter, on all cores.
 *
 *     node test/prove/fuzz-modules.ts [inputs, default 1,000,000] [seed, default 1]
 *
 * Input `i` of a seed is always the same, whatever the number of threads. A thread that neither advances nor ends
 * within five minutes has found an input that hangs; a process that ends has printed how far each thread was. Exit code
 * 1 if anything failed.
 */
import { availableParallelism } from 'node:os';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { checkInput, inputOf, newTally, type Tally } from '../fuzz/wasm-properties.ts';
import { seeds } from '../fuzz/wasm-seeds.ts';

const INPUTS_PER_REPORT = 2000;
/** Limit for a thread that gets no core for minutes. */
const STUCK_MS = 300_000;
/** One input in this many also runs, if it was accepted. */
const RUN_EVERY = 50;
const FAILURES_MAX = 20;

interface Work {
  readonly first: number;
  readonly step: number;
  readonly inputs: number;
  readonly seed: number;
}

interface Report {
  readonly tally: Tally;
  /** Input at which the thread is. */
  readonly index: number;
  readonly failures: readonly string[];
  readonly isDone: boolean;
}

if (isMainThread) await supervise(Number(process.argv[2] ?? 1_000_000), Number(process.argv[3] ?? 1));
else await work(workerData as Work);

async function work({ first, step, inputs, seed }: Work): Promise<void> {
  const { modules, wholeCount } = await seeds();
  const tally = newTally();
  let failures: string[] = [];
  const report = (index: number, isDone: boolean): void => {
    parentPort?.postMessage({ tally, index, failures, isDone } satisfies Report);
    failures = [];
  };
  for (let index = first, done = 1; index < inputs; index += step, done++) {
    const bytes = inputOf(modules, wholeCount, seed, index);
    try {
      checkInput(bytes, tally, done % RUN_EVERY === 0);
    } catch (error) {
      failures.push(
        `input ${index}, ${bytes.length} bytes: ${error instanceof Error ? error.message : String(error)}\n  ${Buffer.from(bytes.subarray(0, 3000)).toString('base64')}`,
      );
    }
    if (done % INPUTS_PER_REPORT === 0) report(index, false);
  }
  report(inputs, true);
  // The compiler's process, if it was needed, would keep this one alive.
  parentPort?.close();
}

async function supervise(inputs: number, seed: number): Promise<void> {
  const threads = Math.max(1, availableParallelism());
  const reports = new Map<number, Report>();
  let failed = 0;
  const start = performance.now();
  console.log(`seed ${seed}: ${inputs} inputs on ${threads} threads`);
  const threadDone = (first: number): Promise<void> =>
    new Promise((resolve) => {
      const worker = new Worker(new URL(import.meta.url), {
        workerData: { first, step: threads, inputs, seed } satisfies Work,
      });
      const end = (reason: string | undefined): void => {
        clearTimeout(stuck);
        if (reason !== undefined) {
          failed++;
          console.log(`thread ${first} ${reason}, after input ${reports.get(first)?.index ?? 'none'}`);
        }
        void worker.terminate();
        resolve();
      };
      const watch = (): NodeJS.Timeout => setTimeout(() => end('hangs'), STUCK_MS);
      let stuck = watch();
      worker.on('message', (report: Report) => {
        clearTimeout(stuck);
        stuck = watch();
        reports.set(first, report);
        for (const failure of report.failures) if (++failed <= FAILURES_MAX) console.log(failure);
        if (report.isDone) end(undefined);
      });
      worker.on('error', (error: unknown) => end(`died: ${String(error)}`));
    });
  const progress = setInterval(() => print([...reports.values()], start), 10_000);
  await Promise.all(Array.from({ length: threads }, (_, first) => threadDone(first)));
  clearInterval(progress);
  print([...reports.values()], start);
  const counts = (of: (tally: Tally) => Map<string, number>): [string, number][] => {
    const sum = new Map<string, number>();
    for (const { tally } of reports.values())
      for (const [key, count] of of(tally)) sum.set(key, (sum.get(key) ?? 0) + count);
    return [...sum].sort(([, a], [, b]) => b - a);
  };
  for (const [code, count] of counts(({ refused }) => refused)) console.log(`  refused ${code}: ${count}`);
  for (const [message, count] of counts(({ disputed }) => disputed).slice(0, 30))
    console.log(`  valid WebAssembly all the same, ${count} times: ${message}`);
  console.log(failed === 0 ? 'no failure' : `${failed} failures`);
  process.exitCode = failed === 0 ? 0 : 1;
}

function print(reports: readonly Report[], start: number): void {
  const sum = (of: (tally: Tally) => number): number => reports.reduce((total, { tally }) => total + of(tally), 0);
  const seconds = (performance.now() - start) / 1000;
  const slowest = Math.max(0, ...reports.map(({ tally }) => tally.slowestMs));
  const done = sum(({ inputs }) => inputs);
  console.log(
    `${done} inputs in ${Math.round(seconds)} s (${Math.round(done / seconds)} a second), ${sum(({ taken }) => taken)} taken, ${sum(({ ran }) => ran)} run, slowest ${Math.round(slowest)} ms`,
  );
}
