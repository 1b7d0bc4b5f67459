/** A message that came out otherwise than it was recorded is told by the first difference. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CanisterImage } from '../../../subsystems/execution/index.ts';
import { NOTHING_RAN, type ToldStep } from '../../../subsystems/ic/index.ts';
import { compareMessage } from '../../../subsystems/replay/compared-message.ts';
import type { PastMessage, PastPages } from '../../../subsystems/timeline/index.ts';

const WASM_PAGE = 65_536;
const PAGE = 4_096;
const NOTE = { kind: 'update', outcome: 'done', instructions: 10, charge: 7, version: 3, timerNs: 5n } as const;
const BALANCE = 1_000n;

type State = CanisterImage;

function state(change: (heap: Buffer, stable: Buffer) => void = () => undefined, other: Partial<State> = {}): State {
  const [heap, stable] = [Buffer.alloc(3 * WASM_PAGE), Buffer.alloc(8_192)];
  change(heap, stable);
  const pieces = [
    { offset: 4_096, bytes: stable.subarray(0, 4_096) },
    { offset: 40_960, bytes: stable.subarray(4_096) },
  ];
  const rest = { globals: Buffer.from('globals'), certifiedData: Buffer.from('data'), module: undefined };
  return { heap, stable: pieces, stablePages: 1, ...rest, ...other };
}

/** All pages count as changed. */
function pagesOf(pieces: State['stable']): PastPages {
  const numbers = pieces.flatMap(({ offset, bytes }) =>
    Array.from({ length: bytes.length / PAGE }, (_, at) => offset / PAGE + at),
  );
  return { numbers: Uint32Array.from(numbers), bytes: Buffer.concat(pieces.map(({ bytes }) => bytes)) };
}

function messageOf(other: object = {}, recorded: State = state()): PastMessage {
  const before = { image: state(), balance: BALANCE, version: 2 };
  const { heap, stable, stablePages, ...image } = recorded;
  const sizes = { heapBytes: heap.length, stableBytes: stablePages * WASM_PAGE };
  const changed = { heap: pagesOf([{ offset: 0, bytes: heap }]), stable: pagesOf(stable) };
  const after = { image, changed, isNew: false, ...sizes, balance: BALANCE - 7n };
  const entry = { seq: 2, unit: 2, timeMs: 0, bytes: 0, note: NOTE };
  return { entry, before, after, isAlone: true, otherServer: undefined, ...other } as unknown as PastMessage;
}

function playedWith(is: State = state(), step: object = {}, told: object = {}): Parameters<typeof compareMessage>[1] {
  const executed = { ...NOTHING_RAN, instructions: 10, charge: 7, timerNs: 5n, ...step };
  const end = { outcome: 'done', reply: undefined, message: undefined, instructions: executed.instructions } as const;
  return { end, told: { version: 3, step: executed, ...told } as unknown as ToldStep, state: is };
}

test('what is the same is exact, and bytes that are others than before are counted', async () => {
  const { verdict, changedBytes } = await compareMessage(messageOf(), playedWith());
  assert.deepEqual([verdict, changedBytes], [{ kind: 'exact' }, 0]);
  const written = state((heap, stable) => {
    heap.fill(1, 100, 110);
    heap.fill(1, 3 * WASM_PAGE - 1);
    stable.fill(1, 8_000, 8_005);
  });
  const counted = await compareMessage(messageOf({}, written), playedWith(written));
  assert.deepEqual([counted.verdict.kind, counted.changedBytes], ['exact', 16]);
});

test('the first difference is told: of the end, then of sizes, globals and certified data, then of memories', async () => {
  const cases: readonly (readonly [difference: object, played: ReturnType<typeof playedWith>])[] = [
    [{ what: 'instructions', was: 10, is: 11 }, playedWith(state(), { instructions: 11, charge: 8 })],
    [{ what: 'cycles', was: 7, is: 8 }, playedWith(state(), { charge: 8 })],
    [{ what: 'timer', was: '5', is: null }, playedWith(state(), { timerNs: undefined })],
    [{ what: 'version', was: 3, is: 4 }, playedWith(state(), {}, { version: 4 })],
    [
      { what: 'heap bytes', was: 3 * WASM_PAGE, is: 4 * WASM_PAGE },
      playedWith(state(undefined, { heap: Buffer.alloc(4 * WASM_PAGE) })),
    ],
    [{ what: 'stable bytes', was: WASM_PAGE, is: 2 * WASM_PAGE }, playedWith(state(undefined, { stablePages: 2 }))],
    [{ what: 'globals', was: '676c6f62616c73', is: '78' }, playedWith(state(undefined, { globals: Buffer.from('x') }))],
    [
      { what: 'certified data', was: '64617461', is: '' },
      playedWith(state(undefined, { certifiedData: Buffer.alloc(0) })),
    ],
    [
      { what: 'heap at byte 196600', was: '0000000000000000', is: '0500000000000000' },
      playedWith(state((heap) => void heap.writeUInt8(5, 196_600))),
    ],
    [
      { what: 'stable at byte 40962', was: '00'.repeat(16), is: `09${'00'.repeat(15)}` },
      playedWith(state((_heap, stable) => void stable.writeUInt8(9, 4_098))),
    ],
  ];
  for (const [difference, played] of cases) {
    const { verdict } = await compareMessage(messageOf(), played);
    assert.deepEqual(verdict, { kind: 'different', difference });
  }
});

test('a page of zeros is the same as one that is not there', async () => {
  const { verdict } = await compareMessage(messageOf(), playedWith(state(undefined, { stable: [] })));
  assert.deepEqual(verdict, { kind: 'exact' });
});

test('memories that are new hold zeros where nothing was recorded', async () => {
  const none = { numbers: new Uint32Array(), bytes: new Uint8Array() };
  const full = state((heap) => void heap.fill(3, WASM_PAGE, WASM_PAGE + 10));
  const message = messageOf({ before: { image: full, balance: BALANCE } });
  for (const [isNew, is, wanted] of [
    [true, state(), 'exact'],
    [true, full, 'different'],
    [false, full, 'exact'],
    [false, state(), 'different'],
  ] as const) {
    const after = { ...message.after, isNew, changed: { heap: none, stable: none } };
    const { verdict } = await compareMessage({ ...message, after }, playedWith(is));
    assert.equal(verdict.kind, wanted, `${isNew}`);
  }
});

test('a difference that may come from something else is unsure, with the reason', async () => {
  const played = playedWith(state((heap) => void heap.writeUInt8(5, 9)));
  const upgrade = { note: { ...NOTE, kind: 'upgrade' }, seq: 2, unit: 2, timeMs: 0, bytes: 0 };
  const cases: readonly (readonly [RegExp, PastMessage])[] = [
    [/settings, or the whole state/, messageOf({ isAlone: false })],
    [/another server executed the message: V8 was 1 and is 2/, messageOf({ otherServer: 'V8 was 1 and is 2' })],
    [/cycles came to the actor/, messageOf({ after: { ...messageOf().after, balance: BALANCE } })],
    [/not whether the heap was kept/, messageOf({ entry: upgrade })],
  ];
  for (const [why, message] of cases) {
    const { verdict } = await compareMessage(message, played);
    assert.equal(verdict.kind, 'unsure');
    assert.match(verdict.kind === 'unsure' ? verdict.why : '', why);
    assert.equal((await compareMessage(message, playedWith())).verdict.kind, 'exact', 'the same is the same');
  }
  // The version before the message is that behind it: a change of settings has overtaken the message.
  const overtaken = messageOf({ before: { ...messageOf().before, version: 3 } });
  const told = { version: 4 };
  assert.equal((await compareMessage(overtaken, playedWith(state(), {}, told))).verdict.kind, 'exact');
  const { verdict: other } = await compareMessage(overtaken, playedWith(played.state, {}, told));
  assert.match(other.kind === 'unsure' ? other.why : '', /while the message waited/);
  // A change of code stores settings and whole memories of its own.
  const known = { ...upgrade, note: { ...upgrade.note, upgrade: { keepsHeap: true, skipsPreUpgrade: false } } };
  assert.equal((await compareMessage(messageOf({ entry: known, isAlone: false }), played)).verdict.kind, 'different');
});
