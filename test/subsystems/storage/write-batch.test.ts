import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { applyWriteBatch, joinPieces, WriteBatch } from '../../../subsystems/storage/write-batch.ts';
import { seeded, type Seeded } from '../../support/seeded.ts';

const KIB = 1024;
/** Sizes on both sides of the limit for copying, of half a piece and of a piece. */
const SIZES = [
  0,
  1,
  300,
  64 * KIB - 12,
  64 * KIB,
  64 * KIB + 1,
  512 * KIB - 9,
  512 * KIB,
  1024 * KIB - 9,
  1024 * KIB,
  3000 * KIB,
] as const;

/** Operations that a set is told, in order: `put 3 300` is number 3 with 300 bytes. */
class Told {
  readonly set: WriteBatch = new WriteBatch();
  readonly expected: string[] = [];
  #count = 0;

  put(into: WriteBatch, size: number): void {
    const number = this.#count++;
    into.put('queue', Uint8Array.of(number), new Uint8Array(size).fill(number));
    this.expected.push(`put ${number} ${size}`);
  }

  delete(into: WriteBatch): void {
    const number = this.#count++;
    into.delete('queue', Uint8Array.of(number));
    this.expected.push(`delete ${number}`);
  }
}

function readBack(unit: Uint8Array): string[] {
  const found: string[] = [];
  const never = (): never => assert.fail('nothing of the kind was told');
  applyWriteBatch(unit, {
    put: (_, key, value) => {
      const [number = -1] = key;
      assert.ok(Buffer.alloc(value.length, number).equals(value), `the bytes of ${number}`);
      found.push(`put ${number} ${value.length}`);
    },
    delete: (_, key) => void found.push(`delete ${key[0]}`),
    clear: never,
    patch: never,
  });
  return found;
}

function tell(random: Seeded, told: Told): void {
  for (let left = 1 + random.below(12); left > 0; left--) {
    if (random.oneIn(3)) {
      const other = new WriteBatch();
      for (let more = random.below(4); more > 0; more--) told.put(other, random.pick(SIZES));
      // The content of another set is handed over in pieces, in one, or as a view of others' bytes.
      const pieces = other.takePieces();
      const way = random.below(3);
      if (way === 0) for (const piece of pieces) told.set.append(piece);
      else if (way === 1) told.set.append(joinPieces(pieces));
      else told.set.append(Buffer.concat([Buffer.alloc(9), joinPieces(pieces), Buffer.alloc(9)]).subarray(9, -9));
    } else if (random.below(3) === 0) told.delete(told.set);
    else told.put(told.set, random.pick(SIZES));
  }
}

describe('a write batch', () => {
  test('hands out what it was told in order, in pieces of whole operations', () => {
    let inPieces = 0;
    for (let seed = 1; seed <= 80; seed++) {
      const random = seeded(seed);
      const told = new Told();
      for (let rounds = 0; rounds < 2; rounds++) {
        tell(random, told);
        const { length } = told.set;
        const pieces = random.oneIn(3) ? [told.set.take()] : told.set.takePieces();
        assert.equal(told.set.length, 0);
        assert.equal(
          pieces.reduce((bytes, piece) => bytes + piece.length, 0),
          length,
        );
        assert.ok(pieces.length === 1 || pieces.every((piece) => piece.buffer.byteLength === piece.length));
        assert.deepEqual(pieces.flatMap(readBack), told.expected.splice(0), `seed ${seed}`);
        if (pieces.length > 1) inPieces++;
      }
    }
    assert.ok(inPieces > 30, `${inPieces} of 160 in pieces`);
  });

  test('takes a large set over, and copies a small one', () => {
    for (const isFirst of [true, false])
      for (const [size, isTakenOver] of [
        [64 * KIB - 10, false],
        [64 * KIB, true],
        [8000 * KIB, true],
      ] as const) {
        const told = new Told();
        const other = new WriteBatch();
        if (!isFirst) told.delete(told.set);
        told.put(other, size);
        const operations = other.take();
        told.set.append(operations);
        told.delete(told.set);
        assert.equal(told.set.view() === undefined, isTakenOver);
        const pieces = told.set.takePieces();
        assert.equal(pieces.includes(operations), isTakenOver, `${size} bytes`);
        assert.ok(pieces.every(({ length }) => length > 0));
        assert.deepEqual(pieces.flatMap(readBack), told.expected);
      }
  });

  test('shows what is small, and hands out an empty array when it was told nothing', () => {
    const told = new Told();
    told.put(told.set, 300);
    assert.deepEqual(readBack(told.set.view() ?? assert.fail('it is small')), ['put 0 300']);
    told.set.reset();
    assert.deepEqual([told.set.length, told.set.take().length, told.set.takePieces().length], [0, 0, 1]);
  });
});
