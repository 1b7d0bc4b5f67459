/** What is left of garbage in a small heap and in a larger one when the main thread gives back what its start has left. */
import { getHeapStatistics } from 'node:v8';
import { START_HEAP_BYTES_MAX } from '../../config/memory-at-rest.ts';
import { giveBackIdleMemory } from '../../subsystems/threads/index.ts';

const makeNumbers = (megabytes: number): number[][] =>
  Array.from({ length: megabytes * 10 }, (_, at) => Array.from({ length: 12_500 }, (__, k) => at + k + 0.5));

function collected(): { before: number; after: number } {
  const before = getHeapStatistics().used_heap_size;
  giveBackIdleMemory(START_HEAP_BYTES_MAX);
  return { before, after: getHeapStatistics().used_heap_size };
}

makeNumbers(6);
const small = collected();
const kept = makeNumbers(40);
makeNumbers(6);
const large = collected();
process.stdout.write(JSON.stringify([small, large]));
if (kept.length === 0) throw new Error('nothing was kept');
