/** Records of a log are read as they were written; any other bytes are refused without harm. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import { ServerError } from '../../../kernel/index.ts';
import { FULL_LIMIT, type MessageNumbers, NO_NUMBERS, type RejectCode } from '../../../subsystems/ic/index.ts';
import {
  decodeCheckpointHeader,
  encodeRecord,
  encodeCheckpointHeader,
  LogReader,
  type LogRecord,
  type CheckpointHeader,
} from '../../../subsystems/execution/persistence/log-record.ts';
import { RecordWriter } from '../../../subsystems/bytes/record-bytes.ts';
import { ANONYMOUS, contextOf, EMPTY_ARGS } from './engine-fixture.ts';

const U64_MAX = 2n ** 64n - 1n;
const u64 = fc.bigInt({ min: 0n, max: U64_MAX });
const u128 = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n });
const bytes = fc.uint8Array({ maxLength: 300 });
const text = fc.string({ unit: 'grapheme', maxLength: 30 });
const texts = fc.array(fc.tuple(text, text), { maxLength: 4 }).map((entries) => new Map(entries));
const natural = fc.maxSafeNat();
const messageNumbers = Object.fromEntries(Object.keys(NO_NUMBERS).map((name) => [name, natural])) as unknown as Record<
  keyof MessageNumbers,
  typeof natural
>;
const entry = fc.oneof(fc.nat({ max: 200 }), fc.nat({ max: 2 ** 32 - 1 }));
const instant = fc.double({ min: 0, noNaN: true, noDefaultInfinity: true });
const limit = fc.oneof(fc.constant(FULL_LIMIT), natural);
const id = fc.uint8Array({ maxLength: 29 });
const principals = fc.array(id, { maxLength: 3 });
const context = fc.record({
  caller: id,
  deadlineNs: fc.oneof(fc.constant(0n), u64),
  canAnswer: fc.boolean(),
  cyclesAvailable: fc.oneof(fc.constant(0n), u128),
  instructions: fc.oneof(fc.constant(0), natural),
});
const task = fc.oneof(
  fc.record({ kind: fc.constant('update' as const), entry, argument: bytes, context, instructionsMax: limit }),
  fc.record({
    kind: fc.constant('callback' as const),
    callbacks: fc.uint8Array({ minLength: 56, maxLength: 56 }),
    response: fc.oneof(
      fc.record({ kind: fc.constant('reply' as const), data: bytes }),
      fc.record({
        kind: fc.constant('reject' as const),
        code: fc.constantFrom<RejectCode>(1, 2, 3, 4, 5, 6),
        message: text,
      }),
    ),
    refunded: fc.oneof(fc.constant(0n), u128),
    context,
    frame: fc.constant(0),
    instructionsMax: limit,
  }),
  fc.record({ kind: fc.constant('system' as const), entry }),
);
const settings = fc.record(
  {
    controllers: principals,
    env: texts,
    status: fc.constantFrom('running' as const, 'stopping' as const, 'stopped' as const),
    version: natural,
    heapBytesMax: limit,
  },
  { requiredKeys: [] },
);
const shortage = fc.oneof(
  fc.record({ kind: fc.constant('refused' as const), granted: entry }),
  fc.record({ kind: fc.constant('stopped' as const), instructions: natural }),
);
const record: fc.Arbitrary<LogRecord> = fc.oneof(
  fc.record(
    {
      kind: fc.constant('task' as const),
      nowMs: instant,
      task,
      shared: fc.option(texts, { nil: undefined }),
      shortages: fc.oneof(fc.tuple(shortage), fc.tuple(fc.option(shortage, { nil: undefined }), shortage)),
    },
    { requiredKeys: ['kind', 'nowMs', 'task', 'shared'] },
  ),
  fc.record({ kind: fc.constant('configure' as const), settings }),
  fc.record({ ...messageNumbers, kind: fc.constant('numbers' as const), balance: u128, timerNs: u64 }),
);
const header: fc.Arbitrary<CheckpointHeader> = fc.record({
  policy: fc.record({
    isEnabled: fc.boolean(),
    startingCycles: u128,
    cyclesPerMessage: natural,
    cyclesPer10Instructions: natural,
    instructionLimit: natural,
  }),
  ...messageNumbers,
  balance: u128,
  timerNs: u64,
  instantMs: instant,
  settings,
  heapBytes: natural,
  stablePages: natural,
  openCalls: fc.array(fc.record({ callee: id, slot: fc.nat({ max: 50_000 }), count: fc.nat({ max: 500 }) }), {
    maxLength: 5,
  }),
});

const writer = new RecordWriter();
const encoded = (one: LogRecord): Uint8Array => encodeRecord(writer, one).slice();
const encodedStanding = (one: CheckpointHeader): Uint8Array => encodeCheckpointHeader(writer, one).slice();
const decoded = (log: Uint8Array, start = 0, end = log.length): LogRecord => new LogReader(log).read(start, end);

/** Converts objects without prototypes and views of larger buffers, which mean the same to us. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Uint8Array.from(value);
  if (value instanceof Map) return [...value];
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]));
}

/** Returns the value read, or undefined if the bytes were refused; any other error fails the test. */
function readOrRefused<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ServerError && error.code === 'state-corrupt') return undefined;
    throw error;
  }
}

/** Returns the number of bytes and characters that a value holds. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string' || value instanceof Uint8Array) return value.length;
  if (value instanceof Map) return sizeOf([...value]);
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, field) => sum + sizeOf(field), 0);
}

function refused(read: () => unknown, message: RegExp): void {
  assert.throws(read, (error) => {
    assert.ok(error instanceof ServerError);
    assert.equal(error.code, 'state-corrupt');
    assert.match(error.message, message);
    return true;
  });
}

suite('records of a log', () => {
  test('are read as they were written, one after the other', () => {
    fc.assert(
      fc.property(fc.array(record, { maxLength: 8 }), (records) => {
        const parts = records.map(encoded);
        const log = Buffer.concat(parts);
        const reader = new LogReader(log);
        let end = 0;
        const read = parts.map((part) => reader.read(end, (end += part.length)));
        assert.deepEqual(plain(read), plain(records));
      }),
      { numRuns: cases(400) },
    );
  });

  test('and so is what a log begins with', () => {
    fc.assert(
      fc.property(header, (one) => assert.deepEqual(plain(decodeCheckpointHeader(encodedStanding(one))), plain(one))),
      { numRuns: cases(300) },
    );
  });

  test('an update without anything special has 15 bytes besides its caller and its argument', () => {
    const update: LogRecord = {
      kind: 'task',
      nowMs: 1_795_229_274_235.5,
      task: {
        kind: 'update',
        entry: 7,
        argument: EMPTY_ARGS,
        context: contextOf(ANONYMOUS),
        instructionsMax: FULL_LIMIT,
      },
      shared: undefined,
    };
    assert.equal(
      Buffer.from(encoded(update)).toString('hex'),
      ['01', '01', '02', '00b8070dc01f7a42', '07', '0104', '064449444c0000'].join(''),
    );
  });

  test('a record is refused at every length but its own', () => {
    fc.assert(
      fc.property(record, fc.uint8Array({ minLength: 1, maxLength: 20 }), (one, more) => {
        const whole = encoded(one);
        // The log's following bytes do not replace missing ones.
        const log = Buffer.concat([whole, more]);
        for (let end = 0; end < whole.length; end++) refused(() => decoded(log, 0, end), /cut off|left over|damaged/);
        refused(() => decoded(log), /left over/);
      }),
      { numRuns: cases(60) },
    );
  });

  test('any bytes are a record or are refused, and a record is not larger than its bytes', () => {
    const begun = fc.tuple(fc.nat({ max: 6 }), fc.uint8Array({ maxLength: 200 })).map(([kind, rest]) => {
      return Uint8Array.of(1, kind, ...rest);
    });
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), begun), (log) => {
        assert.ok(sizeOf(readOrRefused(() => decoded(log))) <= log.length + 56);
        assert.ok(sizeOf(readOrRefused(() => decodeCheckpointHeader(log))) <= log.length);
      }),
      { numRuns: cases(3000) },
    );
  });

  test('flipped bits make another record, or are refused', () => {
    fc.assert(
      fc.property(record, header, fc.nat(), (one, beginning, at) => {
        for (const [written, read] of [
          [encoded(one), decoded],
          [encodedStanding(beginning), decodeCheckpointHeader],
        ] as const) {
          const flipped = written.slice();
          const byte = at % flipped.length;
          for (let bit = 0; bit < 8; bit++) {
            flipped[byte] = (written[byte] ?? 0) ^ (1 << bit);
            const found = readOrRefused(() => read(flipped));
            assert.ok(sizeOf(found) <= flipped.length + 56);
            if (byte === 0) assert.equal(found, undefined);
          }
        }
      }),
      { numRuns: cases(500) },
    );
  });

  test('another version, an unknown kind, flag or choice and lengths beyond the end are named', () => {
    const system = [1, 3, 0, ...new Uint8Array(8)];
    refused(() => decoded(Uint8Array.of(2, 3)), /no kind 3|cut off/);
    refused(
      () => decoded(Uint8Array.of(9, 3)),
      /a record of the actor's log .*format 9, and this svc reads formats up to/,
    );
    refused(() => decoded(Uint8Array.of(1, 3, 128, ...new Uint8Array(11))), /the flags 128 are unknown/);
    refused(() => decoded(Uint8Array.of(2, 3, 128, ...new Uint8Array(9), 3, 0)), /no choice 3/);
    refused(() => decodeCheckpointHeader(Uint8Array.of(9)), /format 9, and this svc reads formats up to/);
    refused(() => decoded(Uint8Array.of(1, 6)), /no kind 6/);
    refused(() => decoded(Uint8Array.of(1, 3, 2, ...new Uint8Array(9))), /the flags 2 are unknown/);
    refused(() => decoded(Uint8Array.of(1, 4, 32)), /the flags 32 of the settings are unknown/);
    refused(() => decoded(Uint8Array.of(1, 4, 4, 3)), /no choice 3/);
    refused(() => decoded(Uint8Array.of(1, 4, 2, 0xff, 0xff, 0xff, 0xff, 0x0f)), /cut off/);
    refused(() => decoded(Uint8Array.of(1, 4, 1, 0xff, 0xff, 0xff, 0xff, 0x0f)), /cut off/);
    refused(() => decoded(Uint8Array.of(1, 4, 1, 0xff, 0xff, 0xff, 0xff, 0x1f)), /more than 32 bits/);
    refused(() => decoded(Uint8Array.of(...system, 0xff, 0xff, 0xff, 0xff, 0xff, 0)), /more than 32 bits/);
    refused(() => decoded(Uint8Array.of(1, 3, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, 0)), /NaN is not a time/);
    refused(() => decoded(Uint8Array.of(1, 4, 2, 1, 1, 0xff, 0)), /not UTF-8/);
    refused(() => decodeCheckpointHeader(Uint8Array.of(1, 2)), /the beginning of the actor's log .*no choice 2/);
    assert.deepEqual(decoded(Uint8Array.of(...system, 7)), {
      kind: 'task',
      nowMs: 0,
      task: { kind: 'system', entry: 7 },
      shared: undefined,
    });
  });

  test('a task that keeps nothing is in no log', () => {
    const query = { kind: 'dropFrame', frame: 1 } as const;
    assert.throws(() => encoded({ kind: 'task', nowMs: 0, task: query, shared: undefined }), /is in no log/);
  });
});
