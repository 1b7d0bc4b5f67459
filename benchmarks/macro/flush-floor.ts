/** The minimum of a durable write: a small write into an existing file, and its flush. */
import { closeSync, fdatasyncSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { median } from './quantile.ts';

const WRITE_BYTES = 512;
const FILE_BYTES = 16 * 2 ** 20;

/** Returns the median time of a `pwrite` of 512 B into a preallocated file in `folder`, and its `fdatasync`, in ms. */
export function flushP50Ms(folder: string, forMs: number): number {
  const path = join(folder, 'flush-floor');
  const file = openSync(path, 'w');
  try {
    writeSync(file, Buffer.alloc(FILE_BYTES));
    fsyncSync(file);
    const bytes = Buffer.alloc(WRITE_BYTES, 1);
    const samples: number[] = [];
    const until = performance.now() + forMs;
    for (let at = 0; performance.now() < until; at = (at + WRITE_BYTES) % FILE_BYTES) {
      const start = performance.now();
      writeSync(file, bytes, 0, WRITE_BYTES, at);
      fdatasyncSync(file);
      samples.push(performance.now() - start);
    }
    return median(samples);
  } finally {
    closeSync(file);
    rmSync(path);
  }
}
