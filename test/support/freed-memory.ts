/** A process that allocates many small blocks of the C library, frees nearly all, and tells what it has resident, in MiB: before that is given back, and after. */
import { trimmer } from '../../config/memory-at-rest.ts';

const BLOCKS = 4096;
const BLOCK_BYTES = 32_768;
/** One of so many is kept, in between: nothing but the pages of the others can go. */
const KEPT = 64;

const giveBack = trimmer();
let blocks = Array.from({ length: BLOCKS }, () => Buffer.allocUnsafeSlow(BLOCK_BYTES).fill(1));
blocks = blocks.filter((_, index) => index % KEPT === 0);
// What is behind buffers is freed in the background, and by then at the next collection.
globalThis.gc?.();
globalThis.gc?.();
const residentMib = (): number => process.memoryUsage.rss() / 2 ** 20;
const before = residentMib();
giveBack();
const after = residentMib();
const areKept = blocks.every((block) => block.every((byte) => byte === 1));
process.stdout.write(JSON.stringify({ before, after, areKept }));
