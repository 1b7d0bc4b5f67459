/**
 * A process beside a tested server that shares nothing with it, to measure what the machine gives to a process that
 * does almost nothing. It writes a line for each event, with its start (milliseconds since 1970) and its duration:
 *
 *     flush FROM MS    a bare flush of one page took this much longer than the disk needs for everything that was to be
 *                      written then, by the server or by others: the server is not to blame for that
 *     stolen FROM MS   the host of this machine gave one of its processors to others
 *
 * The bystander first measures the disk while nothing else writes, then sends the message `ready`.
 *
 *     node bystander.ts FOLDER PID OUT    the folder is on the server's file system, the pid is the server's
 */
import { appendFileSync, closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [, , folder = '', pid = '', out = ''] = process.argv;
const EVERY_MS = 10;
const SLOW_FLUSH_MS = 20;
/** Number and size of the flushes that measure the disk's bytes per millisecond. */
const MEASURED_FLUSHES = 5;
const MEASURED_BYTES = 16 * 2 ** 20;
/** Divisor of the median: in doubt, the disk is slow because of the bytes that it is given. */
const SLOWER = 4;
/** Unit of `/proc/stat`, the same on all Linux machines. */
const TICK_MS = 10;

/** Returns the bytes that the server has had written so far; Infinity if the system does not tell. */
function serverBytes(): number {
  try {
    const text = readFileSync(`/proc/${pid}/io`, 'utf8');
    return Number(/^write_bytes: (\d+)$/m.exec(text)?.[1] ?? Infinity);
  } catch {
    return Infinity;
  }
}

/**
 * Returns the bytes of this machine that wait to be written or are being written; Infinity if the system does not tell.
 */
function unwrittenBytes(): number {
  try {
    const text = readFileSync('/proc/meminfo', 'utf8');
    const [dirty, writeback] = [/^Dirty: +(\d+) kB$/m, /^Writeback: +(\d+) kB$/m].map((row) => row.exec(text)?.[1]);
    return (Number(dirty) + Number(writeback)) * 1024;
  } catch {
    return Infinity;
  }
}

/** Returns the stolen ticks of all processors together; 0 if the system does not tell. */
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
  // An unknown number of bytes makes `owedMs` Infinity or NaN, so no flush is reported.
  if (ms - owedMs >= SLOW_FLUSH_MS) tell('flush', fromMs + owedMs, ms - owedMs);
  const ticks = stolenTicks();
  if (ticks > stolen) tell('stolen', lookedMs, Math.min((ticks - stolen) * TICK_MS, performance.now() - lookedMs));
  stolen = ticks;
  lookedMs = performance.now();
}
