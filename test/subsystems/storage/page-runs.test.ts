/** Runs of a page compared with the page itself: after each addition, the runs give the same content. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at } from '../../../kernel/index.ts';
import { PAGE_BYTES } from '../../../subsystems/bytes/index.ts';
import { PageRuns, RunArena } from '../../../subsystems/storage/page-runs.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';

const RUNS_BYTES_MAX = 1024;
const HEADER_BYTES = 4;

/**
 * Draws a run, mostly of few bytes in few places, so that runs overlap, touch and repeat; sometimes at an end of the
 * page, or of up to a whole page.
 */
function randomRun(random: Seeded): { readonly offset: number; readonly bytes: Uint8Array } {
  const length = random.oneIn(8) ? 1 + random.below(PAGE_BYTES) : 1 + random.below(random.pick([8, 40, 300]));
  const last = PAGE_BYTES - length;
  const offset = random.pick([0, last, random.below(last + 1), Math.min(last, random.below(64))]);
  return { offset, bytes: Uint8Array.from({ length }, () => random.below(256)) };
}

test('runs of many pages in one arena put on each page what was added to it', () => {
  let refused = 0;
  for (let seed = 1; seed <= 200; seed++) {
    const random = seeded(seed);
    const arena = new RunArena();
    const pages = Array.from({ length: 40 }, () => {
      const below = Uint8Array.from({ length: PAGE_BYTES }, () => random.below(256));
      return { below, expected: below.slice(), runs: new PageRuns() };
    });
    for (let round = 0; round < 400; round++) {
      const page = at(pages, random.below(pages.length), 'page');
      const { offset, bytes } = randomRun(random);
      page.expected.set(bytes, offset);
      if (!page.runs.add(offset, bytes, arena)) {
        refused++;
        page.runs.putOn(page.below);
        page.below.set(bytes, offset);
        page.runs = new PageRuns();
      }
    }
    for (const { below, expected, runs } of pages) {
      // Twice, since a page may have been written to the tables when the same runs are put on it again.
      for (let time = 0; time < 2; time++) {
        runs.putOn(below);
        assert.ok(Buffer.compare(below, expected) === 0, `seed ${seed}`);
      }
    }
  }
  assert.ok(refused > 1000, 'pages on both sides of the threshold');
});

test('a run fits to the byte, and the same place takes no more room', () => {
  const arena = new RunArena();
  const runs = new PageRuns();
  const largest = new Uint8Array(RUNS_BYTES_MAX - HEADER_BYTES).fill(7);
  assert.ok(!runs.add(0, new Uint8Array(largest.length + 1), arena));
  for (let time = 0; time < 100; time++) assert.ok(runs.add(100, largest, arena));
  assert.equal(arena.bytes, RUNS_BYTES_MAX);
  assert.ok(runs.add(100 + largest.length - 1, Uint8Array.of(9), arena), 'within the one that is there');
  assert.ok(!runs.add(100 + largest.length, Uint8Array.of(9), arena), 'behind it');
  const page = new Uint8Array(PAGE_BYTES);
  runs.putOn(page);
  assert.deepEqual([page[99], page[100], page[99 + largest.length], page[100 + largest.length]], [0, 7, 9, 0]);
});
