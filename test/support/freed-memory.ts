/**
 * A process that allocates many small blocks of the C library, frees nearly all of them, and prints its resident memory
 * in MiB before and after the freed memory is given back.
 */
import { trimmer } from '../../config/memory-at-rest.ts';

const BLOCKS = 4096;
const BLOCK_BYTES = 32_768;
/** One block in this many is kept, so that only the pages of the others can be given back. */
const KEPT = 64;

const giveBack = trimmer();
let blocks = Array.from({ length: BLOCKS }, () => Buffer.allocUnsafeSlow(BLOCK_BYTES).fill(1));
blocks = blocks.filter((_, index) => index % KEPT === 0);
// The memory behind buffers is freed in the background, at the latest by the next collection.
globalThis.gc?.();
globalThis.gc?.();
const residentMib = (): number => process.memoryUsage.rss() / 2 ** 20;
const before = residentMib();
giveBack();
const after = residentMib();
const areKept = blocks.every((block) => block.every((byte) => byte === 1));
process.stdout.write(JSON.stringify({ before, after, areKept }));
