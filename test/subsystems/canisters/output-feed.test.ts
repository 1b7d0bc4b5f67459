import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DebugBuffer } from '../../../subsystems/canisters/debug-buffer.ts';
import type { DebugLine, OutputReader } from '../../../subsystems/canisters/index.ts';
import { OutputFeed } from '../../../subsystems/canisters/output-feed.ts';
import { FakeClock } from '../../support/fake-clock.ts';

class Reader implements OutputReader {
  hasRoom = false;
  readonly seqs: number[] = [];

  write(lines: readonly DebugLine[]): void {
    this.seqs.push(...lines.map(({ seq }) => seq));
  }

  ended(): void {}
}

test('who comes back gets the lines of the reader that it was, though another one has dropped older and newer ones', async () => {
  const buffer = new DebugBuffer();
  const feed = new OutputFeed(buffer, new FakeClock(), () => undefined);
  const [many, few] = [new Reader(), new Reader()];
  const [manyFollows, fewFollows] = [feed.follow(many, undefined), feed.follow(few, undefined)];
  const print = async (reader: Reader, bytes: number): Promise<void> => {
    for (const each of [many, few]) each.hasRoom = each === reader;
    manyFollows.resume();
    fewFollows.resume();
    buffer.append(0, 'x'.repeat(bytes), 0);
    feed.printed();
    await Promise.resolve();
  };
  await print(many, 50_000);
  await print(few, 10);
  // More than is kept for one reader: its first line is dropped.
  await print(many, 20_000);
  await print(few, 10);
  assert.deepEqual(
    [many.seqs, few.seqs],
    [
      [1, 3],
      [2, 4],
    ],
  );
  manyFollows.end();
  fewFollows.end();

  for (const [lastSeq, expected] of [
    [2, [4]],
    [1, [3]],
  ] as const) {
    const again = new Reader();
    again.hasRoom = true;
    feed.follow(again, lastSeq).end();
    assert.deepEqual(again.seqs, expected, `behind line ${lastSeq}`);
  }
});
