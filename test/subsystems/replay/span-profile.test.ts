/** Profiles of many messages, some of which have no state before them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { sharedBytes } from '../../../subsystems/bytes/index.ts';
import type { Execution } from '../../../subsystems/execution/index.ts';
import { profileOfSpan } from '../../../subsystems/replay/span-profile.ts';
import type { PastMessage, Timeline, TimelineEntry } from '../../../subsystems/timeline/index.ts';
import { fakeAmbient } from '../../support/kernel.ts';

const ID = Uint8Array.of(1);
const HEAP_BYTES = 32 * 2 ** 20;
const INSTRUCTIONS = 1000;
/** Messages whose states were asked for. */
const asked: number[] = [];
const METHODS = ['small', 'large', 'small'];

/** Messages 2, 3 and 4; `isLogged` says which of them have no state, because it was kept by its log. */
function profiled(
  isLogged: (seq: number) => boolean,
  { from = 2, to = 4, imageOf = (): unknown => undefined } = {},
): ReturnType<typeof profileOfSpan> {
  const entries = METHODS.map((method, index) => {
    const place = { seq: index + 2, unit: index + 2, timeMs: 0 };
    return {
      ...place,
      bytes: 1,
      note: { kind: 'update', method, instructions: INSTRUCTIONS },
    } as unknown as TimelineEntry;
  });
  const first = { seq: 1, unit: 1, timeMs: 0 };
  const reach = { from: first, to: entries.at(-1) ?? first };
  const timeline: Pick<Timeline, 'messageAt' | 'entries'> = {
    entries: async () => ({ entries: entries.filter(({ seq }) => seq >= from && seq <= to), next: undefined, reach }),
    async messageAt(_id, seq) {
      asked.push(seq);
      if (isLogged(seq)) throw new ServerError('invalid', 'timeline-logged', 'kept by its log');
      // An actor without code has no functions.
      const code = { moduleHash: undefined, wasm: undefined };
      return { before: { ...code, heapBytes: HEAP_BYTES, image: imageOf() } } as unknown as PastMessage;
    },
  };
  const terms = {
    signal: new AbortController().signal,
    lost: (why: string) => new ServerError('unavailable', 'lost', why),
  };
  const { clock } = fakeAmbient();
  return profileOfSpan({ execution: {} as Execution, timeline, clock }, ID, { from, to }, terms);
}

test('one message whose heap was kept by its log is told by its method, and the others have their profile', async () => {
  const { messages, leftOut, profile } = await profiled((seq) => seq === 3);
  assert.deepEqual([messages, leftOut, profile.instructions], [3, 0, 3 * INSTRUCTIONS]);
  const large = profile.samples.filter(({ stack }) => stack[0] === 'large');
  const share = large.reduce((sum, { instructions }) => sum + instructions, 0) / profile.instructions;
  assert.ok(Math.abs(share - 1 / 3) < 0.01, `${share}`);
});

test('the state before a message is read once a round of samples', async () => {
  asked.length = 0;
  const { profile } = await profiled(() => false);
  assert.equal(profile.samples.length, 500);
  // Rounds of 4, 8, 16, 32, 64, 128 and 248 samples.
  assert.deepEqual(asked.slice(0, 6), [2, 3, 4, 2, 3, 4]);
  assert.ok(asked.length <= 7 * METHODS.length, `${asked.length} states`);
});

test('states are freed while a profile reads others', async () => {
  asked.length = 0;
  const before = process.memoryUsage.rss();
  let most = 0;
  const imageOf = (): unknown => {
    most = Math.max(most, process.memoryUsage.rss() - before);
    return { heap: sharedBytes(HEAP_BYTES).fill(1) };
  };
  await profiled(() => false, { imageOf });
  assert.ok(asked.length > 15);
  assert.ok(most < 6 * HEAP_BYTES, `${most / HEAP_BYTES} heaps`);
});

test('a profile of which no state is there is refused with what to do', async () => {
  await assert.rejects(
    profiled(() => true),
    { code: 'timeline-logged' },
  );
});

test('without messages a profile says which were looked for, or that there were none', async () => {
  await assert.rejects(
    profiled(() => false, { from: 7, to: 9 }),
    { code: 'replay-none', message: /from seq:7 to seq:9 there is no update or callback whose state before is kept/ },
  );
  await assert.rejects(
    profiled(() => false, { from: 8, to: 7 }),
    { code: 'replay-none', message: /the actor executed no message in this time/ },
  );
});
