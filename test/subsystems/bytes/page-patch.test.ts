import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PAGE_BYTES, PageEntries, readPageEntries } from '../../../subsystems/bytes/index.ts';
import { seeded } from '../../support/seeded.ts';

const PAGES = 40;

/** Returns entries of random changes, and the memory before and after them. */
function patched(seed: number) {
  const random = seeded(seed);
  const before = Uint8Array.from({ length: PAGES * PAGE_BYTES }, () => random.below(4));
  const after = before.slice();
  for (let k = 0; k < 300; k++) after[random.below(after.length)] = random.below(256);
  const chunks: { readonly entries: number; readonly bytes: Uint8Array }[] = [];
  const entries = new PageEntries((count, bytes) => chunks.push({ entries: count, bytes: bytes.slice() }), PAGES);
  for (let page = 0; page < PAGES; page++)
    entries.addChanged(page, before, page * PAGE_BYTES, after, page * PAGE_BYTES);
  entries.end();
  return { before, after, chunks };
}

test('page entries that were read and applied make the memory what it was when they were written', () => {
  const { before, after, chunks } = patched(7);
  assert.ok(chunks.length > 0);
  for (const { entries, bytes } of chunks) {
    // Other bytes stand in front of the entries.
    const shifted = Buffer.concat([Buffer.of(1, 2, 3), bytes, Buffer.of(9)]);
    const end = readPageEntries(shifted, 3, entries, (page, offset, run) =>
      before.set(run, page * PAGE_BYTES + offset),
    );
    assert.equal(end, 3 + bytes.length);
  }
  assert.deepEqual(before, after);
});

test('page entries that are cut off anywhere, or leave their page, are refused', () => {
  const [chunk] = patched(3).chunks;
  assert.ok(chunk !== undefined);
  for (let length = 0; length < chunk.bytes.length; length += 5)
    assert.equal(
      readPageEntries(chunk.bytes.subarray(0, length), 0, chunk.entries, () => undefined),
      -1,
    );
  // Page 0, one run of 8 bytes whose last byte lies beyond the page's end.
  const beyond = Buffer.from('00000000010000000800'.padEnd(36, '0'), 'hex');
  beyond.writeUInt16LE(PAGE_BYTES - 7, 6);
  assert.equal(
    readPageEntries(beyond, 0, 1, () => assert.fail('it was told')),
    -1,
  );
  beyond.writeUInt16LE(PAGE_BYTES - 8, 6);
  assert.equal(
    readPageEntries(beyond, 0, 1, () => undefined),
    beyond.length,
  );
});

test('a page that was zeros is written from its first word to its last that are not, or word by word where few are', () => {
  const random = seeded(5);
  for (let round = 0; round < 300; round++) {
    // Both ends lie anywhere, also at the ends of the page and in the middle of a word.
    const content = new Uint8Array(3 * PAGE_BYTES).fill(255);
    const page = content.subarray(PAGE_BYTES, 2 * PAGE_BYTES).fill(0);
    const isEmpty = random.oneIn(10);
    const isSparse = random.oneIn(3);
    const ends = [
      random.oneIn(4) ? 0 : random.below(PAGE_BYTES),
      random.oneIn(4) ? PAGE_BYTES : random.below(PAGE_BYTES),
    ];
    const [first = 0, end = 0] = ends.toSorted((a, b) => a - b);
    if (!isEmpty) {
      if (!isSparse) for (let at = first; at < end; at++) page[at] = random.below(3);
      page[first] = 1;
      page[Math.max(first, end - 1)] = 2;
    }
    const chunks: { readonly entries: number; readonly bytes: Uint8Array }[] = [];
    const entries = new PageEntries((count, bytes) => chunks.push({ entries: count, bytes: bytes.slice() }), 1);
    entries.addFilled(7, content, PAGE_BYTES);
    entries.end();
    assert.equal(chunks.length, isEmpty ? 0 : 1);
    const read = new Uint8Array(PAGE_BYTES);
    for (const { entries: count, bytes } of chunks) {
      assert.ok(!isSparse || bytes.length < 500, 'two words of a page take a few bytes');
      readPageEntries(bytes, 0, count, (number, offset, run) => {
        assert.deepEqual([number, offset % 8, run.length % 8], [7, 0, 0], 'words of 8 bytes');
        assert.ok(offset + 8 > first && offset + run.length - 8 < Math.max(end, first + 1), 'no more than that');
        read.set(run, offset);
      });
    }
    assert.deepEqual(read, Uint8Array.from(page));
  }
});
