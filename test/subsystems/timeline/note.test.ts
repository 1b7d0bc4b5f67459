import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import type { Note } from '../../../subsystems/timeline/index.ts';
import { decodeNote, encodeNote, idOfNote } from '../../../subsystems/timeline/note.ts';

const ID = Buffer.from('80000000001000010101', 'hex');
const NOTE: Note = {
  kind: 'callback',
  outcome: 'reply',
  instantMs: 1_800_000_000_000.5,
  instructions: 4_951,
  charge: 591_981,
  version: 7,
  heapBytes: 131_072,
  stableBytes: 65_536,
  openCalls: 2,
  balance: 2n ** 100n + 3n,
  timerNs: 5n,
  caller: Buffer.from([4]),
  method: 'größe',
  argument: Buffer.from('DIDL\0\0'),
  call: {
    canAnswer: true,
    cyclesAvailable: 2n ** 90n,
    deadlineNs: 9n,
    answered: { callbacks: Buffer.alloc(56, 3), rejectCode: 5, refunded: 2n ** 70n },
  },
};
const BARE = { balance: undefined, timerNs: undefined, caller: Buffer.alloc(0), method: '', argument: Buffer.alloc(0) };
const SHORT = { canAnswer: false, cyclesAvailable: 0n, deadlineNs: 0n, answered: undefined };

test('a note is read as it was written, with and without each optional part', () => {
  const notes: readonly Note[] = [
    NOTE,
    { ...NOTE, ...BARE, call: undefined },
    { ...NOTE, ...BARE, call: SHORT },
    { ...NOTE, timerNs: undefined, call: { ...SHORT, canAnswer: true, deadlineNs: 1n } },
    { ...NOTE, balance: undefined, call: { ...SHORT, answered: NOTE.call?.answered } },
    { ...NOTE, kind: 'upgrade', call: undefined, upgrade: { keepsHeap: true, skipsPreUpgrade: false } },
    { ...NOTE, ...BARE, kind: 'upgrade', call: undefined, upgrade: { keepsHeap: false, skipsPreUpgrade: true } },
  ];
  for (const note of notes) {
    const bytes = encodeNote(ID, note);
    assert.deepEqual(Buffer.from(idOfNote(bytes)), ID);
    const { caller, argument, call, ...rest } = decodeNote(bytes);
    const { caller: wasCaller, argument: wasArgument, call: wasCall, ...was } = note;
    assert.deepEqual(rest, was);
    assert.deepEqual([Buffer.from(caller), Buffer.from(argument)], [wasCaller, wasArgument]);
    assert.deepEqual(call, wasCall);
  }
});

test('a note of version 1 is read, without the call', () => {
  // As svc 0.1.0 wrote it before notes told of calls: update inc, reply, a balance and no timer.
  const bytes = encodeNote(ID, { ...NOTE, kind: 'update', timerNs: undefined, call: undefined });
  bytes[10] = 1;
  const { method, call, balance } = decodeNote(bytes);
  assert.deepEqual([method, call, balance], ['größe', undefined, NOTE.balance]);
});

test('a note of version 2 does not say how an upgrade was done', () => {
  const bytes = encodeNote(ID, { ...NOTE, kind: 'upgrade', call: undefined });
  assert.equal(bytes[10], 2);
  assert.ok(!('upgrade' in decodeNote(bytes)));
});

test('a note that is cut, or of a later version, is told', () => {
  const bytes = encodeNote(ID, NOTE);
  const later = Buffer.from(bytes);
  later[10] = 4;
  const isTold = (error: unknown): boolean => error instanceof ServerError && error.code === 'timeline-damaged';
  assert.throws(() => decodeNote(later), isTold);
  for (let length = 0; length < bytes.length - NOTE.argument.length; length++)
    assert.throws(() => decodeNote(bytes.subarray(0, length)), isTold, String(length));
});
