import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { BoundedBody } from '../../../subsystems/outcalls/index.ts';

const tooLarge = { code: 'outcall-too-large', message: /more than the 1000 bytes of max_response_bytes/ };

test('pieces of any lengths are one body, and the pieces stay as they are', () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 20 });
  fc.assert(
    fc.property(pieces, (all) => {
      const body = new BoundedBody(4000);
      const copies = all.map((piece) => piece.slice());
      for (const piece of all) body.add(piece);
      assert.deepEqual(Buffer.from(body.bytes), Buffer.concat(copies));
      assert.deepEqual(all, copies);
    }),
  );
});

test('a body of just what it may have is taken; a byte more is refused, whoever says so', () => {
  const body = new BoundedBody(1000);
  body.expect(1000);
  assert.throws(() => body.expect(1001), tooLarge);
  body.add(new Uint8Array(400));
  body.add(new Uint8Array(600));
  assert.equal(body.bytes.length, 1000);
  assert.throws(() => body.add(new Uint8Array(1)), tooLarge);
  assert.equal(body.bytes.length, 1000);
});

test('two million pieces of a byte take a few copies, not two million buffers', () => {
  const body = new BoundedBody(2_000_000);
  const byte = Uint8Array.of(7);
  const before = process.memoryUsage().arrayBuffers;
  for (let count = 0; count < 2_000_000; count++) body.add(byte);
  // Outgrown buffers may still be there: 2 + 1 + 0.5 … MB.
  assert.ok(process.memoryUsage().arrayBuffers - before < 16 * 1024 * 1024);
  assert.equal(body.bytes.length, 2_000_000);
  assert.ok(body.bytes.every((each) => each === 7));
});

test('what announces no number is no reason to refuse', () => {
  new BoundedBody(1000).expect(Number('nonsense'));
});
