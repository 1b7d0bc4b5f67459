import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { answerJsonArray } from '../../../subsystems/http/json-array.ts';

/** Makes a responder that keeps the answer, and takes each piece at once. */
function keepingResponder() {
  const kept = { text: '', pieces: 0 };
  const keep = (bytes: Uint8Array): void => {
    kept.text += Buffer.from(bytes).toString('utf8');
    kept.pieces++;
  };
  return {
    kept,
    bytes: (_response: ServerResponse, _status: number, _type: string, body: Uint8Array) => keep(body),
    stream: async (_response: ServerResponse, _type: string, pieces: AsyncIterable<Uint8Array>) => {
      for await (const piece of pieces) keep(piece);
      return 0;
    },
  };
}
const NO_RESPONSE = {} as ServerResponse;

test('an array is made in slices, between which others have their turns, however fast it is taken', async () => {
  const responder = keepingResponder();
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  count();
  const items = Array.from({ length: 400 }, (_, index) => index);
  await answerJsonArray(responder, NO_RESPONSE, items, (item) => {
    const untilMs = performance.now() + 0.25;
    while (performance.now() < untilMs) continue;
    return String(item);
  });
  isOver = true;
  assert.deepEqual(JSON.parse(responder.kept.text), items);
  // 16 items a slice at least: 25 slices.
  assert.ok(turns > 10, `${turns} turns for 100 ms of work`);
});

test('items may be left out, also all of them', async () => {
  for (const [items, expected] of [
    [[], []],
    [[1, 3], []],
    [
      [1, 2, 3, 4, 5],
      [2, 4],
    ],
  ] as const) {
    const responder = keepingResponder();
    const textOf = (item: number): string | undefined => (item % 2 === 0 ? String(item) : undefined);
    await answerJsonArray(responder, NO_RESPONSE, items, textOf);
    assert.deepEqual(JSON.parse(responder.kept.text), expected);
    assert.equal(responder.kept.pieces, 1, 'what is quickly made leaves at once');
  }
});
