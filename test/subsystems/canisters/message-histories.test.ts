import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import type { HistoryEntry } from '../../../subsystems/canisters/index.ts';
import { MessageHistories } from '../../../subsystems/canisters/message-histories.ts';
import { seeded } from '../../support/seeded.ts';

const ANONYMOUS = Uint8Array.of(4);
const TRACE = { number: 1, cause: 0, root: 1 };
const reply: Outcome = { kind: 'reply', data: new Uint8Array(0), instructions: 10, charge: 590_004 };

function ended(method: string, argument: Uint8Array = new Uint8Array(0), caller = ANONYMOUS) {
  return {
    kind: 'update',
    method,
    caller,
    argument,
    argumentBytes: argument.length,
    startedMs: 1000,
    trace: TRACE,
  } as const;
}

type Expected = Pick<HistoryEntry, 'method' | 'message' | 'isReplyCut' | 'trace'> & {
  readonly argument: number[];
  readonly reply: number[];
};

const entriesOf = (histories: MessageHistories, handle = 0): HistoryEntry[] => [...histories.entriesOf(handle)];

suite('histories', () => {
  test('an entry is read as it was entered', () => {
    const histories = new MessageHistories(50);
    const caller = Uint8Array.from({ length: 29 }, (_, index) => index + 1);
    const argument = Uint8Array.from({ length: 1000 }, (_, index) => index % 251);
    histories.add(
      7,
      { ...ended('greet', argument.slice(0, 256), caller), argumentBytes: 1000, kind: 'call' },
      { kind: 'trap', code: 5, message: 'boom', stack: 'inner\nouter', instructions: 2 ** 40, charge: 2 ** 45 },
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
        stack: 'inner\nouter',
        instructions: 2 ** 40,
        cycles: 2 ** 45,
        ms: 1.5,
        trace: TRACE,
        reply: new Uint8Array(0),
        isReplyCut: false,
      },
    ]);
    assert.deepEqual(entriesOf(histories, 8), []);
  });

  test('the latest failures of all canisters are those that the histories still have, newest first', () => {
    const histories = new MessageHistories(5);
    const trap: Outcome = { kind: 'trap', code: 5, message: 'boom', instructions: 1, charge: 2 };
    const failures = (): string[] =>
      Array.from(histories.failures(), ({ handle, entry }) => `${handle} ${entry.method}`);
    for (let count = 0; count < 40; count++) histories.add(count % 20, ended(`m${count}`), trap, 1000 + count);
    for (let count = 0; count < 4; count++) histories.add(19, ended('fine'), reply, 2000);
    // The newer entries of canister 19 have displaced one of its two failures.
    const expected = Array.from({ length: 40 }, (_, back) => 39 - back).filter((count) => count !== 19);
    assert.deepEqual(
      failures(),
      expected.map((count) => `${count % 20} m${count}`),
    );
    histories.forget(3);
    assert.ok(!failures().some((failure) => failure.startsWith('3 ')));
    for (let count = 0; count < 200; count++) histories.add(100 + count, ended('late'), trap, 3000);
    assert.equal(failures().length, 50);
    assert.equal(failures()[0], '299 late');
  });

  test('any sequence is kept as a list of the newest would keep it', () => {
    const random = seeded(4711);
    for (const entriesMax of [1, 2, 5, 50, 1000]) {
      const histories = new MessageHistories(entriesMax);
      let expected: Expected[] = [];
      for (let count = 0; count < 2500; count++) {
        const bytes = (): Uint8Array => {
          const length = random.below(4) === 0 ? random.below(300) : random.below(20);
          return Uint8Array.from({ length }, () => random.below(256));
        };
        const argument = bytes().subarray(0, 256);
        const data = bytes();
        const message = random.below(3) === 0 ? `failure ${count}` : undefined;
        const outcome: Outcome =
          message === undefined ? { ...reply, data } : { kind: 'reject', code: 4, message, instructions: 1, charge: 2 };
        const number = 2 ** 40 + count;
        const root = random.below(2) === 0 ? number : number - 1 - random.below(2 ** 26 - 1);
        const cause = root === number ? 0 : number - 1 - random.below(number - root);
        const method = `method_number_${count % 30}`;
        histories.add(0, { ...ended(method, argument), trace: { number, cause, root } }, outcome, 1000 + count);
        const kept = message === undefined ? [...data.subarray(0, 256)] : [];
        const isReplyCut = message === undefined && data.length > 256;
        const trace = { number, cause, root };
        expected.push({ method, argument: [...argument], message, reply: kept, isReplyCut, trace });
        expected = expected.slice(-entriesMax);
        if (random.below(200) === 0) histories.compact(0);
        if (count % 97 !== 0) continue;
        const found = entriesOf(histories);
        assert.deepEqual(
          found.map((entry) => ({
            method: entry.method,
            argument: [...entry.argument],
            message: entry.message,
            reply: [...entry.reply],
            isReplyCut: entry.isReplyCut,
            trace: entry.trace,
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

  test('a message whose root is too many messages ago is the top of what it has caused', () => {
    const histories = new MessageHistories(3);
    const far = 2 ** 26;
    for (const [number, cause, root] of [
      [far, 1, 1],
      [far + 1, far, 1],
      [far + 2, far + 1, far + 1],
    ] as const)
      histories.add(0, { ...ended('m'), trace: { number, cause, root } }, reply, 1000);
    assert.deepEqual(
      entriesOf(histories).map(({ trace }) => trace),
      [
        { number: far, cause: 1, root: 1 },
        { number: far + 1, cause: 0, root: far + 1 },
        { number: far + 2, cause: far + 1, root: far + 1 },
      ],
    );
  });

  test('any forest of messages over many canisters is found as it grew, and goes with its histories', async () => {
    const random = seeded(815);
    const histories = new MessageHistories(20);
    const all: { number: number; cause: number; root: number; handle: number }[] = [];
    const ofHandle = new Map<number, number[]>();
    const ending: typeof all = [];
    for (let number = 1; number <= 3000; number++) {
      const above = random.below(3) === 0 ? undefined : all.at(-1 - random.below(Math.min(all.length, 30)));
      const handle = random.below(40);
      const message = { number, cause: above?.number ?? 0, root: above?.root ?? number, handle };
      all.push(message);
      ending.push(message);
      // Messages end in another order than they come.
      while (ending.length > 10) {
        const [ended1] = ending.splice(random.below(ending.length), 1);
        if (ended1 === undefined) break;
        const { handle: of, ...trace } = ended1;
        histories.add(of, { ...ended('m'), trace }, reply, 1000);
        ofHandle.set(of, [...(ofHandle.get(of) ?? []), trace.number].slice(-20));
        if (random.below(300) === 0) {
          histories.forget(of);
          ofHandle.delete(of);
        }
      }
      if (number % 100 !== 0) continue;
      const kept = new Set([...ofHandle.values()].flat());
      for (const { number: asked, root } of all.slice(-60)) {
        assert.equal(await histories.rootOf(asked), kept.has(asked) ? root : undefined);
        const found = (await histories.below(root)).map(({ handle: of, entry }) => ({ handle: of, ...entry.trace }));
        const expected = all.filter((each) => each.root === root && kept.has(each.number));
        assert.deepEqual(
          found,
          expected.map(({ handle: of, number: own, cause, root: top }) => ({
            handle: of,
            number: own,
            cause,
            root: top,
          })),
        );
      }
    }
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
