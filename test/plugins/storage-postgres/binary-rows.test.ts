import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { BinaryRows, rowsIn } from '../../../plugins/storage-postgres/binary-rows.ts';
import { seeded } from '../../support/seeded.ts';

const HEADER = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const END = Buffer.from([0xff, 0xff]);

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function rowOf(columns: readonly Buffer[]): Buffer {
  const count = Buffer.alloc(2);
  count.writeInt16BE(columns.length);
  return Buffer.concat([count, ...columns.flatMap((column) => [int32(column.length), column])]);
}

const copyOf = (rows: readonly (readonly Buffer[])[]): Buffer => Buffer.concat([HEADER, ...rows.map(rowOf), END]);

/** Draws rows of up to three columns, some of them empty. */
function drawRows(seed: number): Buffer[][] {
  const random = seeded(seed);
  const draw = (): Buffer => Buffer.from(Array.from({ length: random.below(20) }, () => random.below(256)));
  return Array.from({ length: random.below(6) }, () => Array.from({ length: 1 + random.below(3) }, draw));
}

suite('rows of a binary COPY', () => {
  test('come as they were sent, in whatever pieces', async () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = seeded(seed);
      const rows = drawRows(seed);
      const bytes = copyOf(rows);
      const copy = new BinaryRows('SELECT 1');
      for (let at = 0; at < bytes.length;) {
        const piece = Buffer.from(bytes.subarray(at, at + 1 + random.below(30)));
        copy.handleCopyData({ chunk: piece });
        at += piece.length;
        // The driver does so with the next message.
        piece.fill(0);
      }
      copy.handleReadyForQuery();
      assert.deepEqual(await copy.rows, rows, `seed ${seed}`);
    }
  });

  test('skip an extension of the header', () => {
    const header = Buffer.concat([HEADER.subarray(0, -4), int32(3), Buffer.from('abc')]);
    assert.deepEqual(rowsIn(Buffer.concat([header, rowOf([Buffer.from('x')]), END])), [[Buffer.from('x')]]);
  });

  test('that are cut anywhere, or go on after their end, are refused with the place', () => {
    const bytes = copyOf([[Buffer.from('key'), Buffer.from('value')], [Buffer.alloc(0)]]);
    const refused = { code: 'storage-failed', message: /COPY is not as documented at byte \d+/ };
    for (let length = 0; length < bytes.length; length++)
      assert.throws(() => rowsIn(bytes.subarray(0, length)), refused, `cut to ${length}`);
    assert.throws(() => rowsIn(Buffer.concat([bytes, END])), refused);
  });

  test('that have a wrong signature, a NULL or lengths of more than there is, are refused', () => {
    const wrong = copyOf([]);
    wrong.write('X');
    const lengths = [-1, -2, 5, 2 ** 31 - 1].map((length) =>
      Buffer.concat([HEADER, Buffer.from([0, 1]), int32(length)]),
    );
    const extension = Buffer.concat([HEADER.subarray(0, -4), int32(-5), END]);
    const columns = Buffer.concat([HEADER, Buffer.from([0x80, 0])]);
    for (const bytes of [wrong, ...lengths, extension, columns])
      assert.throws(() => rowsIn(bytes), { code: 'storage-failed' });
  });

  test('that end with an error of the database reject with it', async () => {
    const copy = new BinaryRows('SELECT 1');
    const error = new Error('division by zero');
    copy.handleError(error);
    copy.handleReadyForQuery();
    await assert.rejects(copy.rows, error);
  });

  test('random bytes end in rows or in a refusal', () => {
    for (let seed = 1; seed <= 2_000; seed++) {
      const random = seeded(seed);
      const bytes = copyOf(drawRows(seed));
      for (let flips = 1 + random.below(4); flips > 0; flips--) bytes[random.below(bytes.length)] = random.below(256);
      try {
        rowsIn(bytes);
      } catch (error) {
        assert.equal((error as { readonly code?: string }).code, 'storage-failed');
      }
    }
  });
});
