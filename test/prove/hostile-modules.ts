/**
 * Runs the hostile modules one by one, each in a process of its own, so that its peak of memory is its own; prints a
 * table, the most expensive first. Exit code 1 if a module needs more than 2 s or 512 MiB, ends the process, or has to
 * be killed.
 *
 *     node test/prove/hostile-modules.ts
 *
 * On a busy machine a module also has to wait for others. So the measure is the wall time less the time for which
 * threads of the process were ready and waited for a core (Linux has it in /proc), but never less than the process's
 * CPU time, unless the wall time is less than that: `Measured.ownMs`. On an idle machine this is the wall time.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { messageOf } from '../../kernel/index.ts';
import { corpus } from '../fixtures/hostile/corpus.ts';
import { type Measured, PROGRAM, readReport } from '../fixtures/hostile/report.ts';

const MS_MAX = 2000;
/** Time after which the process is killed: a dozen times its limit, for busy machines and starting processes. */
const KILL_MS = 30_000;
const PROGRESS_EVERY_MS = 10_000;
const PEAK_BYTES_MAX = 512 * 2 ** 20;
const MB = 2 ** 20;

const run = promisify(execFile);

async function measure(name: string): Promise<Measured | undefined> {
  try {
    const args = ['--expose-gc', fileURLToPath(PROGRAM), name];
    const { stdout } = await run(process.execPath, args, { timeout: KILL_MS, killSignal: 'SIGKILL' });
    const [measured] = readReport(stdout).measured;
    if (measured === undefined) console.log(`${name}: the process said nothing`);
    return measured;
  } catch (error) {
    const { killed } = error as { readonly killed?: boolean };
    const reason = killed === true ? `killed after ${KILL_MS / 1000} s` : `the process ended: ${messageOf(error)}`;
    console.log(`${name}: ${reason.slice(0, 300)}`);
    return undefined;
  }
}

let failed = 0;
let saidMs = performance.now();
const all: Measured[] = [];
for (const { name } of corpus) {
  const measured = await measure(name);
  if (measured === undefined) failed++;
  else all.push(measured);
  if (performance.now() - saidMs < PROGRESS_EVERY_MS) continue;
  saidMs = performance.now();
  console.log(`  ${all.length + failed} of ${corpus.length}`);
}
const weight = ({ ownMs, peakBytes }: Measured): number => Math.max(ownMs / MS_MAX, peakBytes / PEAK_BYTES_MAX);
for (const one of all.toSorted((a, b) => weight(b) - weight(a))) {
  const isTooMuch = weight(one) > 1;
  if (isTooMuch) failed++;
  const end = one.refused?.code ?? one.go?.kind ?? one.install?.kind ?? '';
  console.log(
    `${isTooMuch ? 'TOO MUCH ' : ''}${one.name}: ${end}, ${Math.round(one.ownMs)} ms (${Math.round(one.ms)} passed, ${Math.round(one.prepareMs)} of them to prepare), ${Math.round(one.peakBytes / MB)} MiB`,
  );
}
console.log(
  failed === 0 ? `${all.length} hostile modules, each within 2 s and 512 MiB` : `${failed} of ${corpus.length} failed`,
);
process.exitCode = failed === 0 ? 0 : 1;
