import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import { ServerError } from '../../../kernel/index.ts';
import { ScheduledCanister, CallContext, NOBODY, OpenCall } from '../../../subsystems/scheduler/scheduled-canister.ts';
import {
  CALL,
  CONTEXT,
  CREDIT,
  keyOf,
  readRecord,
  CallRecordWriter,
} from '../../../subsystems/scheduler/call-records.ts';
import { idToText } from '../../../subsystems/ic/id-text.ts';
import { CanisterKeys, UnderWay } from '../../../subsystems/scheduler/idempotency/canister-keys.ts';
import { restoreCalls } from '../../../subsystems/scheduler/restore-calls.ts';
import type { RejectCode } from '../../../subsystems/ic/index.ts';
import { type Entry, payloadKey, QUERY_INDEX } from '../../../subsystems/storage/index.ts';

const bytes = fc.uint8Array({ maxLength: 40 });
const text = fc.string({ unit: 'grapheme', maxLength: 30 });
const cycles = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n });
const number = fc.integer({ min: 1, max: 2 ** 48 - 2 });
const code = fc.constantFrom<RejectCode>(1, 2, 3, 4, 5, 6);
const reason = { code, message: text };
const latin1 = fc.uint8Array({ maxLength: 255 }).map((its) => Buffer.from(its).toString('latin1'));
const SENDER = Uint8Array.of(128, 0, 0, 0, 0, 16, 0, 1, 1, 1);
const reference = fc
  .record({ version: number, index: fc.nat(2 ** 31 - 1), piece: fc.nat(2 ** 16 - 1) })
  .map((place) => payloadKey(SENDER, place));
const context = fc.record({
  canister: bytes,
  origin: fc.oneof(fc.constantFrom('client' as const, 'system' as const), number),
  caller: bytes,
  deadlineNs: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  cyclesAvailable: cycles,
  hasAnswered: fc.boolean(),
  isDeleted: fc.boolean(),
  instructions: fc.nat(),
  charge: fc.nat(),
  deletion: fc.option(fc.record({ kind: fc.constantFrom('reject' as const, 'unavailable' as const), ...reason }), {
    nil: undefined,
  }),
  fault: fc.option(
    fc.record({
      kind: fc.constantFrom('trap' as const, 'limit' as const, 'outOfCycles' as const, 'unavailable' as const),
      ...reason,
    }),
    { nil: undefined },
  ),
  start: fc.option(
    fc.oneof(
      fc.record({ order: number, method: text, argument: fc.uint8Array({ maxLength: 5000 }) }),
      fc.record({ order: number, method: text, argument: fc.constant(new Uint8Array(0)), storedAs: reference }),
    ),
    { nil: undefined },
  ),
  keyed: fc.option(fc.record({ key: latin1, method: text, digest: latin1 }), { nil: undefined }),
});
const response = fc.oneof(
  fc.record({ kind: fc.constant('reply' as const), data: bytes }),
  fc.record({ kind: fc.constant('reply' as const), data: fc.constant(new Uint8Array(0)), storedAs: reference }),
  fc.record({ kind: fc.constant('reject' as const), ...reason }),
);
const call = fc.record({
  context: number,
  callee: bytes,
  callbacks: bytes,
  deadlineMs: fc.oneof(fc.nat(), fc.constant(Number.POSITIVE_INFINITY)),
  cycles,
  madeAs: fc.option(fc.record({ node: text, number }), { nil: undefined }),
  response: fc.option(fc.record({ order: number, refunded: cycles, response }), { nil: undefined }),
});

const writer = new CallRecordWriter();
const key = (letter: number, at: number): Uint8Array => new Uint8Array(keyOf(letter, at));

function writtenContext(record: typeof context extends fc.Arbitrary<infer T> ? T : never): Uint8Array {
  const { origin, start, keyed, ...fields } = record;
  const canister = new ScheduledCanister(0, idToText(record.canister));
  const made = new CallContext(canister, { kind: 'system' }, { caller: record.caller, deadlineNs: record.deadlineNs });
  const { cyclesAvailable, hasAnswered, isDeleted, instructions, charge, deletion, fault } = fields;
  Object.assign(made, { cyclesAvailable, hasAnswered, isDeleted, instructions, charge, deletion, fault });
  if (origin === 'client') made.origin = { kind: 'ingress', done: NOBODY, noted: undefined };
  if (typeof origin === 'number') made.origin = { kind: 'canister', call: emptyCall(made) };
  if (start !== undefined) {
    made.pending = { kind: 'start', context: made, call: 'update', ...start };
    if ('storedAs' in start) made.storedAs = start.storedAs;
  }
  if (keyed !== undefined) {
    const { key: its, method, digest } = keyed;
    const keys = new CanisterKeys(canister);
    made.underWay = new UnderWay({ caller: record.caller, method }, its, digest, 0, keys, undefined, () => undefined);
  }
  return writer.context(made, typeof origin === 'number' ? origin : 0).slice();
}

function emptyCall(of: CallContext): OpenCall {
  return new OpenCall(of, new Uint8Array(0), { callbacks: new Uint8Array(0), deadlineMs: 0, cycles: 0n });
}

test('contexts and calls are read as they were written', () => {
  fc.assert(
    fc.property(number, context, call, (at, one, other) => {
      const value = writtenContext(one);
      assert.deepEqual(readRecord([key(CONTEXT, at), value]), {
        kind: 'context',
        record: { number: at, ...structuredClone(one) },
      });
      const of = new CallContext(
        new ScheduledCanister(0, idToText(one.canister)),
        { kind: 'system' },
        { caller: one.caller },
      );
      const { callbacks, deadlineMs, cycles: attached } = other;
      const made = new OpenCall(of, other.callee, { callbacks, deadlineMs, cycles: attached });
      made.madeAs = other.madeAs;
      if (other.response !== undefined) {
        made.pending = { kind: 'response', call: made, ...other.response };
        if ('storedAs' in other.response.response) made.storedAs = other.response.response.storedAs;
      }
      const written = writer.call(made, other.context).slice();
      assert.deepEqual(readRecord([key(CALL, at), written]), {
        kind: 'call',
        record: { number: at, ...structuredClone(other) },
      });
    }),
    { numRuns: cases(300) },
  );
});

test('damaged entries are refused by name, whatever they hold', () => {
  const letter = fc.constantFrom(CONTEXT, CALL, CREDIT);
  fc.assert(
    fc.property(
      letter,
      number,
      context,
      fc.nat(200),
      fc.nat(255),
      fc.boolean(),
      (kind, at, one, where, what, isCut) => {
        const value = writtenContext(one);
        const damaged = isCut ? value.subarray(0, where) : value.with(where % value.length, what);
        const entryKey = key(kind, at);
        try {
          readRecord([entryKey, damaged]);
        } catch (error) {
          assert.ok(error instanceof ServerError && error.code === 'state-corrupt', String(error));
          assert.match(error.message, new RegExp(Buffer.from(entryKey).toString('hex')));
        }
      },
    ),
    { numRuns: cases(2000) },
  );
  for (const entryKey of [new Uint8Array(0), Uint8Array.of(CONTEXT, 1), key(0x7a, 1), key(CREDIT, 0)]) {
    assert.throws(() => readRecord([entryKey, new Uint8Array(64)]), { code: 'state-corrupt' });
  }
  const credit = writer.credit(Uint8Array.of(1), 5n).slice();
  for (let length = 0; length < credit.length; length++) {
    assert.throws(() => readRecord([key(CREDIT, 1), credit.subarray(0, length)]), { code: 'state-corrupt' });
  }
  assert.throws(() => readRecord([key(CREDIT, 1), Buffer.concat([credit, Buffer.of(0)])]), { code: 'state-corrupt' });
});

test('a call whose context is missing, and a context that nothing waits for, are damage', () => {
  const canister = new ScheduledCanister(0, idToText(Uint8Array.of(1)));
  const of = new CallContext(canister, { kind: 'system' }, { caller: new Uint8Array(0) });
  const orphan = writer.call(emptyCall(of), 77).slice();
  const find = (): ScheduledCanister => canister;
  assert.throws(() => restoreCalls([[key(CALL, 3), orphan]], find), /6f000000000003.*context 77/);
  const idle = writer.context(of, 0).slice();
  assert.throws(() => restoreCalls([[key(CONTEXT, 4), idle]], find), /63000000000004.*nothing waits/);
});

test('payloads in rows of their own are put together, and rows that nobody refers to are left', () => {
  const canister = new ScheduledCanister(0, idToText(SENDER));
  const find = (): ScheduledCanister => canister;
  const place = { version: 7, index: 3 };
  const row = (piece: number, index = place.index): Entry => [
    payloadKey(SENDER, { ...place, index, piece }),
    Uint8Array.of(piece, piece + 1),
  ];
  const callee = new CallContext(canister, { kind: 'system' }, { caller: SENDER });
  callee.pending = { kind: 'start', context: callee, call: 'update', method: 'm', argument: bytesOfRows, order: 1 };
  callee.storedAs = payloadKey(SENDER, { ...place, piece: 2 });
  const called: Entry = [key(CONTEXT, 4), writer.context(callee, 0).slice()];
  const waiter = new CallContext(canister, { kind: 'system' }, { caller: SENDER });
  const answered = emptyCall(waiter);
  const reply = { kind: 'reply', data: bytesOfRows } as const;
  answered.pending = { kind: 'response', call: answered, response: reply, refunded: 0n, order: 2 };
  answered.storedAs = payloadKey(SENDER, { ...place, index: QUERY_INDEX, piece: 2 });
  const waiting: Entry = [key(CONTEXT, 5), writer.context(waiter, 0).slice()];
  const open: Entry = [key(CALL, 6), writer.call(answered, 5).slice()];
  assert.ok(called[1].length < 200, 'the record has a reference alone');

  const rows = [row(0), row(1), row(0, QUERY_INDEX), row(1, QUERY_INDEX)];
  const orphans = [row(2), row(0, 10)];
  const restored = restoreCalls([called, waiting, open, ...rows, ...orphans], find);
  assert.equal(restored.number, place.version, 'the number of a context is in use where an answer is stored under it');
  assert.deepEqual(
    restored.waiting.map((each) => (each.kind === 'start' ? each.argument : each.response)),
    [bytesOfRows, { ...reply }],
  );
  assert.deepEqual(
    restored.left,
    orphans.map(([its]) => its),
  );
  assert.throws(() => restoreCalls([called, rows[0] ?? called], find), /63000000000004.*the argument .* is not there/);
  assert.throws(() => restoreCalls([waiting, open, rows[3] ?? open], find), /6f000000000006.*its reply is not there/);
});

const bytesOfRows = Uint8Array.of(0, 1, 1, 2);
