import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { type Frame, FrameReader, FrameWriter } from '../../../subsystems/cluster/calls/frames.ts';
import fc, { cases } from '../../support/properties.ts';

const bytes = fc.uint8Array({ maxLength: 40 });
const text = fc.string({ unit: 'grapheme', maxLength: 30 });
const u48 = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const cycles = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n });
const name = fc.record({ sender: bytes, node: text, number: u48 });
const response = fc.oneof(
  fc.record({ kind: fc.constant('reply' as const), data: bytes }),
  fc.record({ kind: fc.constant('reject' as const), code: fc.constantFrom(1, 2, 3, 4, 5, 6), message: text }),
);
const frame = fc.oneof(
  fc.record({
    kind: fc.constant('begin' as const),
    shard: fc.nat(255),
    way: fc.record({ epoch: u48, number: u48 }),
  }),
  fc.record({
    kind: fc.constant('call' as const),
    name,
    callee: bytes,
    method: text,
    argument: fc.uint8Array({ maxLength: 5000 }),
    cycles,
    leftMs: fc.option(fc.nat(), { nil: undefined }),
  }),
  fc.record({ kind: fc.constantFrom('accepted' as const, 'done' as const), name }),
  fc.record({ kind: fc.constant('response' as const), name, response, refunded: cycles }),
  fc.record({ kind: fc.constant('ping' as const) }),
  fc.record({
    kind: fc.constant('call' as const),
    name,
    callee: bytes,
    method: text,
    argument: bytes,
    cycles,
    leftMs: fc.constant(undefined),
    places: fc.record({ sender: u48, callee: u48 }),
  }),
  fc.record({ kind: fc.constant('moved' as const), name, shard: fc.nat(255), version: u48 }),
  fc.record({
    kind: fc.constant('ask' as const),
    number: u48,
    what: fc.constantFrom('prepare' as const, 'take' as const, 'forget' as const, 'moving' as const),
    id: bytes,
  }),
  fc.record({ kind: fc.constant('told' as const), number: u48, problem: text }),
) as fc.Arbitrary<Frame>;

function framesIn(reader: FrameReader): Frame[] {
  const found: Frame[] = [];
  for (let next = reader.next(); next !== undefined; next = reader.next()) found.push(next);
  return found;
}

suite('frames', () => {
  test('are read as they were written, in whatever pieces they come', () => {
    const writer = new FrameWriter();
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 5 }), fc.array(fc.nat(300), { maxLength: 20 }), (frames, cuts) => {
        const all = Buffer.concat(frames.map((each) => writer.write(each)));
        const reader = new FrameReader();
        const found: Frame[] = [];
        let at = 0;
        for (const length of [...cuts, all.length]) {
          reader.add(all.subarray(at, at + length));
          at = Math.min(all.length, at + length);
          found.push(...framesIn(reader));
        }
        assert.deepEqual(found, structuredClone(frames));
      }),
      { numRuns: cases(300) },
    );
  });

  test('that are damaged are refused, and nothing else happens', () => {
    const writer = new FrameWriter();
    fc.assert(
      fc.property(frame, fc.nat(), fc.nat(255), (each, place, value) => {
        const damaged = writer.write(each);
        const at = 4 + (place % (damaged.length - 4));
        damaged[at] = value;
        const reader = new FrameReader();
        reader.add(damaged);
        try {
          framesIn(reader);
        } catch (error) {
          assert.ok(error instanceof ServerError, String(error));
        }
      }),
      { numRuns: cases(500) },
    );
  });

  test('of no kind, with bytes left over, cut off, or too long are refused', () => {
    const refused = (hex: string, expected: RegExp): void => {
      const reader = new FrameReader();
      reader.add(Buffer.from(hex, 'hex'));
      assert.throws(() => reader.next(), expected);
    };
    refused('0100000000', /no kind/);
    refused('010000000b', /no choice 11/);
    refused('020000000600', /1 bytes are left over/);
    refused('00000000', /cut off/);
    refused('0200000003ff', /cut off/);
    refused('0100b000', /11534337 bytes are too many/);
    const large = Buffer.alloc(64);
    large.writeUInt32LE(11 * 2 ** 20);
    const reader = new FrameReader();
    reader.add(large);
    assert.equal(reader.next(), undefined, 'the largest may come');
  });
});
