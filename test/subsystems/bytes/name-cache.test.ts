/** Names by their bytes, and bytes by their names, are those of `TextDecoder` and `TextEncoder`, in any order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NameCache } from '../../../subsystems/bytes/index.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const encoder = new TextEncoder();
/** Lengths on either side of that up to which names are kept. */
const LENGTHS = [0, 1, 3, 12, 63, 64, 65, 200] as const;
/** Bytes of short, long and broken characters, and of a byte order mark. */
const BYTES = [0x61, 0x62, 0x7f, 0x80, 0xc3, 0xa9, 0xef, 0xbb, 0xbf, 0xf0, 0x9f, 0xff] as const;
const TEXTS = ['a', 'b', 'é', '\ufeff', '😀', '\ud83d', '\ude00', 'z'] as const;

test('names have the text that their bytes have, and texts their bytes', () => {
  for (const seed of new ProofSeeds(20)) {
    const random = seeded(seed);
    const names = new NameCache();
    const heap = new Uint8Array(random.below(2) === 0 ? new SharedArrayBuffer(512) : new ArrayBuffer(512));
    for (let n = 0; n < 2000; n++) {
      // Few different names, so that many are found, and others are in their places.
      const length = random.pick(LENGTHS);
      const from = random.below(64);
      for (let at = 0; at < length; at++) if (random.below(3) === 0) heap[from + at] = random.pick(BYTES);
      assert.equal(names.textOf(heap, from, length), decoder.decode(heap.slice(from, from + length)));
      const text = Array.from({ length: random.below(5) * random.below(20) }, () => random.pick(TEXTS)).join('');
      assert.deepEqual(Buffer.from(names.bytesOf(text)), Buffer.from(encoder.encode(text)));
    }
  }
});

test('a name that was found stays as it was when its bytes are written over', () => {
  const names = new NameCache();
  const heap = Uint8Array.from(Buffer.from('increase'));
  assert.equal(names.textOf(heap, 0, 8), 'increase');
  heap[1] = 0x78;
  assert.equal(names.textOf(heap, 0, 8), 'ixcrease');
  heap[1] = 0x6e;
  assert.equal(names.textOf(heap, 0, 8), 'increase');
});
