import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import type { HistoryEntry } from '../../../subsystems/canisters/index.ts';
import { MessageHistories } from '../../../subsystems/canisters/message-histories.ts';
import { seeded } from '../../support/seeded.ts';

const ANONYMOUS = Uint8Array.of(4);
const reply: Outcome = { kind: 'reply', data: new Uint8Array(0), instructions: 10, charge: 590_004 };

function ended(method: string, argument: Uint8Array = new Uint8Array(0), caller = ANONYMOUS) {
  return { kind: 'update', method, caller, argument, argumentBytes: argument.length, startedMs: 1000 } as const;
}

const entriesOf = (histories: MessageHistories, handle = 0): HistoryEntry[] => [...histories.entriesOf(handle)];

suite('histories', () => {
  test('an entry is read as it was entered', () => {
    const histories = new MessageHistories(50);
    const caller = Uint8Array.from({ length: 29 }, (_, index) => index + 1);
    const argument = Uint8Array.from({ length: 1000 }, (_, index) => index % 251);
    histories.add(
      7,
      { ...ended('greet', argument.slice(0, 256), caller), argumentBytes: 1000, kind: 'call' },
      { kind: 'trap', code: 5, message: 'boom', instructions: 2 ** 40, charge: 2 ** 45 },
      1001.5,
    );
    assert.deepEqual(entriesOf(histories, 7), [
      {
        seq: 1,
        timeMs: 1001.5,
        kind: 'call',
        method: 'greet',
        caller,
        argument: argument.slice(0, 256),
        argumentBytes: 1000,
        outcome: 'trap',
        code: 5,
        message: 'boom',
        instructions: 2 ** 40,
        cycles: 2 ** 45,
        ms: 1.5,
      },
    ]);
    assert.deepEqual(entriesOf(histories, 8), []);
  });

  test('any sequence is kept as a list of the newest would keep it', () => {
    const random = seeded(4711);
    for (const entriesMax of [1, 2, 5, 50, 1000]) {
      const histories = new MessageHistories(entriesMax);
      let expected: { method: string; argument: number[]; message: string | undefined }[] = [];
      for (let count = 0; count < 2500; count++) {
        const length = random.below(4) === 0 ? random.below(257) : random.below(20);
        const argument = Uint8Array.from({ length }, () => random.below(256));
        const message = random.below(3) === 0 ? `failure ${count}` : undefined;
        const outcome: Outcome =
          message === undefined ? reply : { kind: 'reject', code: 4, message, instructions: 1, charge: 2 };
        histories.add(0, ended(`method_number_${count % 30}`, argument), outcome, 1000 + count);
        expected.push({ method: `method_number_${count % 30}`, argument: [...argument], message });
        expected = expected.slice(-entriesMax);
        if (random.below(200) === 0) histories.compact(0);
        if (count % 97 !== 0) continue;
        const found = entriesOf(histories);
        assert.deepEqual(
          found.map(({ method, argument: bytes, message: words }) => ({
            method,
            argument: [...bytes],
            message: words,
          })),
          expected,
        );
        assert.deepEqual(
          found.map(({ seq }) => seq),
          expected.map((_, index) => count + 2 - expected.length + index),
        );
      }
    }
  });

  test('what goes while somebody reads is left out, and what comes is not read', () => {
    const histories = new MessageHistories(4);
    for (let count = 1; count <= 4; count++) histories.add(0, ended(`m${count}`), reply, 1000);
    const reading = histories.entriesOf(0)[Symbol.iterator]();
    const next = (): string | undefined => (reading.next() as { value?: HistoryEntry }).value?.method;
    assert.equal(next(), 'm1');
    histories.add(0, ended('m5'), reply, 1000);
    histories.add(0, ended('m6'), reply, 1000);
    assert.deepEqual([next(), next(), next()], ['m3', 'm4', undefined]);
  });

  test('messages that nobody executed are not entered', () => {
    const histories = new MessageHistories(50);
    histories.add(0, ended('m'), { kind: 'unavailable', code: 2, message: 'full', instructions: 0, charge: 0 }, 1000);
    assert.deepEqual(entriesOf(histories), []);
  });

  test('all together keep to their bound; canisters that are quiet give up their entries first', () => {
    const bytesMax = 4 * 1024 * 1024;
    const histories = new MessageHistories(50, bytesMax);
    const argument = new Uint8Array(256);
    let peak = 0;
    for (let round = 0; round < 50; round++) {
      for (let handle = 0; handle < 1000; handle++) {
        histories.add(handle, ended('m', argument), reply, 1000);
        if (handle % 10 === 0) histories.add(0, ended('busy', argument), reply, 1000);
        peak = Math.max(peak, histories.bytes);
      }
    }
    assert.ok(peak <= bytesMax, `${peak} bytes`);
    assert.ok(histories.bytes > bytesMax / 4, 'it is used');
    assert.ok(entriesOf(histories).length >= 25, `${entriesOf(histories).length} entries of the busy one`);
    for (let handle = 0; handle < 1000; handle++) histories.forget(handle);
    assert.equal(histories.bytes, 0);
  });

  test('10,000 canisters with 50 messages each keep all of them, and one with a million keeps within the bound', () => {
    const histories = new MessageHistories(50);
    for (let handle = 0; handle < 10_000; handle++) {
      for (let count = 0; count < 50; count++) histories.add(handle, ended('inc', new Uint8Array(7)), reply, 1000);
    }
    assert.equal(entriesOf(histories, 0).length, 50);
    assert.equal(entriesOf(histories, 9999).length, 50);
    const one = new MessageHistories(1_000_000);
    for (let count = 0; count < 700_000; count++) one.add(0, ended('inc', new Uint8Array(7)), reply, 1000);
    assert.ok(one.bytes <= 64 * 1024 * 1024);
    assert.ok(entriesOf(one).length > 200_000);
  });

  test('a failure of many words is cut, and so is the name of a method', () => {
    const histories = new MessageHistories(50);
    const message = 'x'.repeat(1_000_000);
    for (let count = 0; count < 50; count++) {
      histories.add(0, ended('m'.repeat(10_000)), { kind: 'trap', code: 5, message, instructions: 0, charge: 0 }, 1000);
    }
    const [entry] = entriesOf(histories);
    assert.equal(entry?.message, `${'x'.repeat(500)}…`);
    assert.equal(entry?.method, `${'m'.repeat(256)}…`);
    assert.ok(histories.bytes < 100_000, `${histories.bytes} bytes`);
  });
});
