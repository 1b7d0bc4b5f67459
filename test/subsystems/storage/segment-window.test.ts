import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FileDisk } from '../../../subsystems/storage/file-disk.ts';
import { SegmentWindow } from '../../../subsystems/storage/segment-window.ts';
import { seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const WORDS = 20_000;

test('a number is sought in six bytes, between bounds, from any place, through zeros and other bytes, in windows of any size', async () => {
  const random = seeded(11);
  const directory = await temporaryDirectory();
  // Numbers of all lengths, here and there; every other piece is zeros.
  const bytes = Buffer.alloc(WORDS * 8);
  for (let word = 0; word < WORDS; word++) {
    if ((word >> 10) % 2 === 0 || random.below(50) > 0) continue;
    const length = 1 + random.below(6);
    bytes.writeUIntLE(random.below(2 ** 30) % 2 ** (8 * length), word * 8, Math.max(4, length));
    if (length > 4) bytes.writeUInt16LE(random.below(2 ** 16), word * 8 + 4);
    bytes.writeUInt16LE(random.below(2 ** 16), word * 8 + 6);
  }
  writeFileSync(join(directory, 'segment'), bytes);
  const file = new FileDisk(directory).open('segment', { create: false });
  const naive = (from: number, lowest: number, highest: number): number => {
    for (let at = from; at < bytes.length; at += 8) {
      const number = bytes.readUIntLE(at, 6);
      if (number >= lowest && number <= highest) return at;
    }
    return bytes.length;
  };
  let found = 0;
  for (const windowBytes of [64, 4096, 2 ** 20]) {
    const window = new SegmentWindow(windowBytes);
    window.open({ name: 'segment', file }, bytes.length);
    for (let times = 0; times < 2000; times++) {
      const from = random.below(WORDS + 1) * 8;
      const lowest = 1 + random.below(2 ** random.below(31)) * 2 ** random.below(17);
      const highest = lowest + random.below(2 ** random.below(31)) * 2 ** random.below(17);
      const at = window.seek(from, lowest, highest);
      assert.equal(
        at,
        naive(from, lowest, highest),
        `from ${from}, ${lowest} to ${highest}, windows of ${windowBytes}`,
      );
      if (at < bytes.length) found++;
    }
  }
  file.close();
  assert.ok(found > 600, `${found} found`);
});
