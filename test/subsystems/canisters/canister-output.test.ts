import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { CanisterOutput, type OutputNeeds } from '../../../subsystems/canisters/canister-output.ts';
import { SharedBudget } from '../../../subsystems/canisters/shared-budget.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RecordingLog } from '../http/counter-host.ts';

const KIB = 1024;
const LINE = 'x'.repeat(32 * KIB);

class CountingOutput extends CanisterOutput {
  static shrunk = 0;

  override shrink(): void {
    CountingOutput.shrunk++;
    super.shrink();
  }
}

function needs(bytesMax: number, takenBytesMax = bytesMax): OutputNeeds {
  return {
    clock: new FakeClock(),
    log: new RecordingLog(),
    forwardDebugOutput: false,
    outputBudget: new SharedBudget(bytesMax),
    takenBudget: new SharedBudget(takenBytesMax),
    store: { isDurable: false, afterwards: (work: () => void) => work() },
  };
}

const print = (output: CanisterOutput, text: string): void => output.stepEnded([{ text, record: text }], 0);

suite('the output of all actors', () => {
  test('keeps its bound though each has one long line, and a further line costs a few looks', () => {
    const shared = needs(4096 * KIB);
    const outputs = Array.from({ length: 300 }, (_, index) => new CountingOutput(`actor${index}`, shared));
    for (const output of outputs) print(output, LINE);
    assert.ok(shared.outputBudget.bytes <= 4096 * KIB, `${shared.outputBudget.bytes} bytes are kept`);
    CountingOutput.shrunk = 0;
    for (const output of outputs) print(output, LINE);
    assert.ok(shared.outputBudget.bytes <= 4096 * KIB, `${shared.outputBudget.bytes} bytes are kept`);
    assert.ok(CountingOutput.shrunk < 10 * outputs.length, `${CountingOutput.shrunk} times was something given up`);
    assert.deepEqual(
      outputs
        .at(-1)
        ?.take()
        .map(({ text }) => text.slice(0, 40)),
      ['(1 older line was dropped: nobody read them in time)'.slice(0, 40), LINE.slice(0, 40)],
      'what was printed last is there',
    );
  });

  test('who gives up its last line tells so with the next one', () => {
    const shared = needs(1024 * KIB);
    const output = new CanisterOutput('actor', shared);
    print(output, 'first');
    print(output, 'second');
    output.shrink();
    assert.deepEqual(
      output.log.records.map(({ content }) => Buffer.from(content).toString()),
      ['second'],
    );
    output.shrink();
    assert.deepEqual(output.log.records, []);
    assert.deepEqual(output.take(), []);
    print(output, 'third');
    assert.deepEqual(
      output.take().map(({ seq, text }) => [seq, text]),
      [
        [2, '(2 older lines were dropped: nobody read them in time)'],
        [3, 'third'],
      ],
    );
    output.compact();
    output.end();
    assert.equal(shared.outputBudget.bytes, 0);
  });

  test('lines that somebody has taken share a bound of their own, and the others stay', () => {
    const shared = needs(64 * 1024 * KIB, 1024 * KIB);
    const outputs = Array.from({ length: 300 }, (_, index) => new CanisterOutput(`actor${index}`, shared));
    for (let round = 1; round <= 3; round++) {
      for (const output of outputs) {
        print(output, 'x'.repeat(5 * KIB));
        assert.equal(output.take().length, 1);
      }
      const { bytes } = shared.takenBudget;
      assert.ok(bytes <= 1024 * KIB, `${bytes} bytes of taken lines`);
      assert.ok(bytes > 512 * KIB, `only ${bytes} bytes of taken lines`);
      const kept = outputs.flatMap((output) => [...output.linesAfter(0)]);
      const counted = kept.reduce((sum, { text }) => sum + text.length, 0);
      assert.ok(counted > 0.9 * bytes && counted <= bytes, `${counted} of ${bytes}`);
    }
    assert.deepEqual(
      [...(outputs.at(-1)?.linesAfter(0) ?? [])].map(({ seq }) => seq),
      [3],
      'the newest line of the last actor is there',
    );
    const [first] = outputs;
    assert.ok(first);
    print(first, 'not taken');
    for (const output of outputs.slice(1)) {
      print(output, LINE);
      output.take();
    }
    assert.deepEqual(
      first.take().map(({ text }) => text),
      ['not taken'],
    );
    for (const output of outputs) output.end();
    assert.deepEqual([shared.takenBudget.bytes, shared.outputBudget.bytes], [0, 0]);
  });

  test('a log of short lines holds no more than they count for', () => {
    const shared = needs(1024 * 1024 * KIB);
    const outputs = Array.from({ length: 50 }, (_, index) => new CanisterOutput(`actor${index}`, shared));
    const before = process.memoryUsage().arrayBuffers;
    for (let line = 0; line < 100; line++) {
      // Other work of a server takes the rest of each piece of Node's pool.
      for (const output of outputs) {
        print(output, `line ${line}`);
        for (let n = 0; n < 16; n++) Buffer.from('x'.repeat(4000));
      }
    }
    const held = process.memoryUsage().arrayBuffers - before;
    const counted = outputs.reduce((sum, { log }) => sum + log.bytes, 0);
    assert.ok(held < 50 * 2 ** 20, `${held >> 20} MiB are held for ${counted} bytes`);
  });

  test('a log of empty lines is bounded, and the newest stay', () => {
    const output = new CanisterOutput('actor', needs(1024 * 1024 * KIB));
    for (let line = 0; line < 20_000; line++) print(output, '');
    assert.ok(output.log.records.length <= 4096, `${output.log.records.length} lines`);
    assert.equal(output.log.records.at(-1)?.index, 19_999);
  });

  test('of a long line the first 64 KiB are kept, as bytes', () => {
    const output = new CanisterOutput('actor', needs(1024 * 1024 * KIB));
    print(output, 'ä'.repeat(100_000));
    assert.deepEqual(
      output.log.records.map(({ content }) => content.length),
      [64 * KIB],
    );
  });
});
