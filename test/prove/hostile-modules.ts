/**
 * The hostile modules one by one, each in a process of its own, so that its peak of memory is its own; prints a table, the
 * most expensive first. Exit code 1 where a module needs more than 2 s or 512 MiB, or ends the process.
 *
 *     node test/prove/hostile-modules.ts
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { corpus } from '../fixtures/hostile/corpus.ts';
import { type Measured, PROGRAM, readReport } from '../fixtures/hostile/report.ts';

const MS_MAX = 2000;
const PEAK_BYTES_MAX = 512 * 2 ** 20;
const MB = 2 ** 20;

const run = promisify(execFile);

async function measure(name: string): Promise<Measured | undefined> {
  try {
    const { stdout } = await run(process.execPath, ['--expose-gc', fileURLToPath(PROGRAM), name], { timeout: 120_000 });
    return readReport(stdout).measured[0];
  } catch (error) {
    console.log(`${name}: the process ended: ${String(error).slice(0, 300)}`);
    return undefined;
  }
}

let failed = 0;
const all: Measured[] = [];
for (const { name } of corpus) {
  const measured = await measure(name);
  if (measured === undefined) failed++;
  else all.push(measured);
  if (process.stdout.isTTY) process.stdout.write(`\r${all.length + failed} of ${corpus.length} `);
}
const weight = ({ ms, peakBytes }: Measured): number => Math.max(ms / MS_MAX, peakBytes / PEAK_BYTES_MAX);
for (const one of all.toSorted((a, b) => weight(b) - weight(a))) {
  const isTooMuch = weight(one) > 1;
  if (isTooMuch) failed++;
  const end = one.refused?.code ?? one.go?.kind ?? one.install?.kind ?? '';
  console.log(
    `${isTooMuch ? 'TOO MUCH ' : ''}${one.name}: ${end}, ${Math.round(one.ms)} ms (${Math.round(one.prepareMs)} to prepare), ${Math.round(one.peakBytes / MB)} MiB`,
  );
}
console.log(
  failed === 0 ? `${all.length} hostile modules, each within 2 s and 512 MiB` : `${failed} of ${corpus.length} failed`,
);
process.exitCode = failed === 0 ? 0 : 1;
