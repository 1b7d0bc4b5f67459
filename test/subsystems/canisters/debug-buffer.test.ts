import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ASLEEP_BYTES_MAX, BUFFER_BYTES_MAX, DebugBuffer } from '../../../subsystems/canisters/debug-buffer.ts';
import { seeded } from '../../support/seeded.ts';

interface Kept {
  readonly seq: number;
  readonly bytes: number;
  isTaken: boolean;
}

/** Lines that a buffer is to have, as a list that is searched. */
class Model {
  kept: Kept[] = [];
  lost = 0;
  #seq = 0;

  get newest(): number {
    return this.#seq;
  }

  bytes(): number {
    return this.kept.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  takenBytes(): number {
    return this.kept.reduce((sum, { bytes, isTaken }) => sum + (isTaken ? bytes : 0), 0);
  }

  append(length: number): void {
    this.kept.push({ seq: ++this.#seq, bytes: length + 64, isTaken: false });
    if (this.bytes() <= BUFFER_BYTES_MAX) return;
    const target = (BUFFER_BYTES_MAX * 3) / 4;
    while (this.bytes() > target && this.kept[0]?.isTaken === true) this.kept.shift();
    if (this.bytes() > BUFFER_BYTES_MAX) this.shrink(target, 1);
  }

  shrink(target: number, stay: number): void {
    while (this.bytes() > target && this.kept.length > stay) if (this.kept.shift()?.isTaken === false) this.lost++;
  }
}

test('lines are taken once, and stay readable until there is no room for them', () => {
  for (let seed = 1; seed <= 12; seed++) {
    const random = seeded(seed);
    const buffer = new DebugBuffer();
    const model = new Model();
    for (let step = 0; step < 400; step++) {
      const choice = random.below(20);
      if (choice < 12) {
        const length = random.below(6) === 0 ? random.below(300_000) : random.below(2_000);
        buffer.append(step, 'x'.repeat(length), 0);
        model.append(length);
      } else if (choice < 17) {
        const bytesMax = random.below(3) === 0 ? Number.POSITIVE_INFINITY : random.below(100_000);
        const expected: number[] = [];
        let bytes = 0;
        for (const line of model.kept) {
          if (line.isTaken) continue;
          if (bytes >= bytesMax) break;
          bytes += line.bytes;
          line.isTaken = true;
          expected.push(line.seq);
        }
        const taken = [...buffer.take(bytesMax)];
        if (model.lost > 0 && expected.length > 0) {
          assert.match(taken.shift()?.text ?? '', new RegExp(`^\\(${model.lost} older lines? w`, 'u'));
          model.lost = 0;
        }
        assert.deepEqual(
          taken.map(({ seq }) => seq),
          expected,
        );
      } else if (choice === 17) {
        buffer.keep(ASLEEP_BYTES_MAX);
        model.shrink(ASLEEP_BYTES_MAX, 1);
      } else if (choice === 18) {
        buffer.halve();
        model.shrink(model.bytes() / 2, model.kept.length > 1 ? 1 : 0);
      } else if (choice === 19) {
        buffer.halveTaken();
        const least = model.bytes() - model.takenBytes() / 2;
        while (model.bytes() > least && model.kept[0]?.isTaken === true) model.kept.shift();
      }
      assert.equal(buffer.bytes, model.bytes());
      assert.equal(buffer.takenBytes, model.takenBytes());
      assert.equal(
        buffer.isEmpty,
        model.kept.every(({ isTaken }) => isTaken),
      );
      const after = random.below(model.newest + 3);
      const readable = model.kept.filter(({ seq }) => after > model.newest || seq > after);
      assert.deepEqual(
        [...buffer.linesAfter(after)].map(({ seq }) => seq),
        readable.map(({ seq }) => seq),
      );
    }
  }
});

test('a line that goes while somebody reads is left out, and one that comes is not read', () => {
  const buffer = new DebugBuffer();
  const long = 'x'.repeat(BUFFER_BYTES_MAX / 5);
  for (let count = 0; count < 4; count++) buffer.append(0, long, 0);
  const reading = buffer.linesAfter(0)[Symbol.iterator]();
  const next = (): number | undefined => (reading.next() as { value?: { seq: number } }).value?.seq;
  assert.equal(next(), 1);
  buffer.append(0, long, 0);
  assert.deepEqual([next(), next(), next()], [3, 4, undefined]);
});
