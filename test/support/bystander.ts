/**
 * A process beside a server that is tested, with nothing of the server's: what the machine gives somebody who does next to
 * nothing. It tells, a line each, from when (milliseconds since 1970) and for how long
 *
 *     flush FROM MS    a bare flush of one page took that beyond what the disk needs for all that was to be written then, by
 *                      the server or anybody else: nobody owes that to the server
 *     stolen FROM MS   a processor of this machine was given to others by whoever runs the machine
 *
 * It measures first what the disk takes when nobody else writes, and sends the message `ready` then.
 *
 *     node bystander.ts FOLDER PID OUT    the folder is on the server's file system, the pid is the server's
 */
import { appendFileSync, closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [, , folder = '', pid = '', out = ''] = process.argv;
const EVERY_MS = 10;
const SLOW_FLUSH_MS = 20;
/** What the disk takes in a millisecond is measured with so many flushes of so many bytes. */
const MEASURED_FLUSHES = 5;
const MEASURED_BYTES = 16 * 2 ** 20;
/** The median is divided by this: in doubt the disk is slow because of what it is given. */
const SLOWER = 4;
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

/** Bytes of this machine that are to be written, or are being written; Infinity where nobody can tell. */
function unwrittenBytes(): number {
  try {
    const text = readFileSync('/proc/meminfo', 'utf8');
    const [dirty, writeback] = [/^Dirty: +(\d+) kB$/m, /^Writeback: +(\d+) kB$/m].map((row) => row.exec(text)?.[1]);
    return (Number(dirty) + Number(writeback)) * 1024;
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
const flushMs = (bytes: Uint8Array): number => {
  const fromMs = performance.now();
  writeSync(file, bytes, 0, bytes.length, 0);
  fdatasyncSync(file);
  return performance.now() - fromMs;
};
process.once('SIGTERM', () => {
  closeSync(file);
  process.exit(0);
});
const measured = Array.from({ length: MEASURED_FLUSHES }, () => flushMs(new Uint8Array(MEASURED_BYTES)));
const median = measured.toSorted((a, b) => a - b)[MEASURED_FLUSHES >>> 1] ?? NaN;
const bytesPerMs = MEASURED_BYTES / median / SLOWER;
process.send?.('ready');
let stolen = stolenTicks();
let lookedMs = performance.now();
for (;;) {
  await sleep(EVERY_MS);
  const [unwritten, before] = [unwrittenBytes(), serverBytes()];
  const fromMs = performance.now();
  const ms = flushMs(page);
  const owedMs = (unwritten + serverBytes() - before) / bytesPerMs;
  // What nobody can tell is no number, and no excuse.
  if (ms - owedMs >= SLOW_FLUSH_MS) tell('flush', fromMs + owedMs, ms - owedMs);
  const ticks = stolenTicks();
  if (ticks > stolen) tell('stolen', lookedMs, Math.min((ticks - stolen) * TICK_MS, performance.now() - lookedMs));
  stolen = ticks;
  lookedMs = performance.now();
}
