/** Facts about the machine that a reader needs to judge a figure, and the printing of figures with goals. */
import { cpus, loadavg } from 'node:os';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Goal, verdictOf, written } from '../figures.ts';

const WATCHED_MS = 1000;
const NAME_WIDTH = 62;

/** Prints Node, processor, and how busy the machine is with other work right now. */
export async function printSitting(...words: readonly string[]): Promise<void> {
  const busy = await busyShare();
  const [load = 0] = loadavg();
  console.log(
    [
      `Node ${process.versions.node}`,
      `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown CPU'}`,
      `before: ${(busy * 100).toFixed(0)} % of all cores in use, load average ${load.toFixed(1)}`,
      ...words,
    ].join(', '),
    '\n',
  );
}

/** Prints one figure with its goal and whether it meets it. */
export function printFigure(name: string, value: number, unit: string, note = '', goal?: Goal): void {
  const figure = `${written(value)} ${unit}`.trimEnd().padStart(12);
  console.log(
    `${name.padEnd(NAME_WIDTH)} ${figure}   ${goal === undefined ? '' : verdictOf(value, goal)} ${note}`.trimEnd(),
  );
}

/** Returns the share of all cores in use over a second; NaN without /proc. */
async function busyShare(): Promise<number> {
  const before = coreTicks();
  await sleep(WATCHED_MS);
  const after = coreTicks();
  return (after.used - before.used) / (after.all - before.all);
}

function coreTicks(): { readonly all: number; readonly used: number } {
  try {
    const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
    // user nice system idle iowait irq softirq steal
    const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
    const all = ticks.reduce((sum, one) => sum + one, 0);
    return { all, used: all - (ticks[3] ?? 0) - (ticks[4] ?? 0) };
  } catch {
    return { all: Number.NaN, used: Number.NaN };
  }
}
