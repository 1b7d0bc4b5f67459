/**
 * A process beside a server that is tested, with nothing of the server's: what the machine gives somebody who does next to
 * nothing. It tells, a line each, from when (milliseconds since 1970) and for how long
 *
 *     flush FROM MS    a bare flush of one page took that, and the server had written little: no disk owes that to it
 *     stolen FROM MS   a processor of this machine was given to others by whoever runs the machine
 *
 *     node bystander.ts FOLDER PID OUT    the folder is on the server's file system, the pid is the server's
 */
import { appendFileSync, closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [, , folder = '', pid = '', out = ''] = process.argv;
const EVERY_MS = 10;
const SLOW_FLUSH_MS = 20;
/** What the server may have written in the second before, and meanwhile: a disk takes it in some 40 ms. */
const SERVER_BYTES_MAX = 4 * 2 ** 20;
const BEFORE_MS = 1000;
/** Of /proc/stat; Linux has it so on all machines. */
const TICK_MS = 10;

/** Bytes that the server has had written so far; Infinity where nobody can tell. */
function serverBytes(): number {
  try {
    const text = readFileSync(`/proc/${pid}/io`, 'utf8');
    return Number(/^write_bytes: (\d+)$/m.exec(text)?.[1] ?? Infinity);
  } catch {
    return Infinity;
  }
}

/** Of all processors together; 0 where nobody can tell. */
function stolenTicks(): number {
  try {
    return Number(/^cpu +(?:\d+ +){7}(\d+)/.exec(readFileSync('/proc/stat', 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

const tell = (what: string, fromMs: number, ms: number): void =>
  appendFileSync(out, `${what} ${performance.timeOrigin + fromMs} ${ms}\n`);

const page = new Uint8Array(4096);
const file = openSync(join(folder, 'bystander'), 'w');
process.once('SIGTERM', () => {
  closeSync(file);
  process.exit(0);
});
/** Oldest first: what the server had written when. */
const written: { readonly atMs: number; readonly bytes: number }[] = [];
let stolen = stolenTicks();
let lookedMs = performance.now();
writeSync(file, page, 0, page.length, 0);
fdatasyncSync(file);
for (;;) {
  await sleep(EVERY_MS);
  const fromMs = performance.now();
  written.push({ atMs: fromMs, bytes: serverBytes() });
  while ((written[1]?.atMs ?? Infinity) < fromMs - BEFORE_MS) written.shift();
  writeSync(file, page, 0, page.length, 0);
  fdatasyncSync(file);
  const ms = performance.now() - fromMs;
  const bytes = serverBytes() - (written[0]?.bytes ?? -Infinity);
  // What nobody can tell is no number, and no excuse.
  if (ms >= SLOW_FLUSH_MS && bytes <= SERVER_BYTES_MAX) tell('flush', fromMs, ms);
  const ticks = stolenTicks();
  if (ticks > stolen) tell('stolen', lookedMs, Math.min((ticks - stolen) * TICK_MS, performance.now() - lookedMs));
  stolen = ticks;
  lookedMs = performance.now();
}
