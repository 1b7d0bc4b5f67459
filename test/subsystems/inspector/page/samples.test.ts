import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Actor } from '../../../../subsystems/inspector/page/api.ts';
import { levels, rates, runsOf, Samples } from '../../../../subsystems/inspector/page/samples.ts';

function actor(id: string, messages: number): Actor {
  return {
    id,
    principal: 'aaaaa-aa',
    name: id,
    status: 'running',
    live: true,
    cycles: '100000000000000',
    dry: false,
    heapBytes: 1000,
    stableBytes: 24,
    messages,
    traps: 0,
    queued: 7,
    moduleHash: null,
    methods: [],
    candid: null,
    candidProblem: null,
    idleMs: 0,
  };
}

test('counts become rates, and a count that began anew is no negative one', () => {
  const samples = new Samples();
  for (const [atMs, messages] of [
    [0, 10],
    [2000, 14],
    [4000, 1],
  ] as const)
    samples.add([actor('a', messages)], atMs);
  assert.deepEqual(
    rates(samples.of('a'), ({ messages }) => messages),
    [
      { atMs: 2000, value: 2 },
      { atMs: 4000, value: 0 },
    ],
  );
  assert.deepEqual(
    levels(samples.of('a'), ({ memoryBytes }) => memoryBytes).map(({ value }) => value),
    [1024, 1024, 1024],
  );
  assert.deepEqual(
    levels(samples.of('a'), ({ queued }) => queued).map(({ value }) => value),
    [7, 7, 7],
  );
});

test('samples that come right behind each other are one', () => {
  const samples = new Samples();
  for (const atMs of [0, 100, 499, 600]) samples.add([actor('a', 0)], atMs);
  assert.deepEqual(
    samples.of('a').map(({ atMs }) => atMs),
    [0, 600],
  );
});

test('samples that are older than five minutes go, however many there are', () => {
  const samples = new Samples();
  const timesOf = (): readonly number[] => samples.of('a').map(({ atMs }) => atMs);
  for (const atMs of [0, 2_000, 200_000, 301_000]) samples.add([actor('a', 0)], atMs);
  assert.deepEqual(timesOf(), [2_000, 200_000, 301_000]);
  samples.add([actor('a', 0)], 900_000);
  assert.deepEqual(timesOf(), [900_000]);
});

test('when the clock goes back the samples begin anew', () => {
  const samples = new Samples();
  for (const atMs of [10_000, 12_000, 11_900, 5_000, 7_000]) samples.add([actor('a', 0)], atMs);
  assert.deepEqual(
    samples.of('a').map(({ atMs }) => atMs),
    [5_000, 7_000],
  );
});

test('a pause parts the points before it from those behind it', () => {
  const points = [0, 2_000, 17_000, 60_000, 62_000].map((atMs) => ({ atMs, value: 1 }));
  assert.deepEqual(
    runsOf(points).map((run) => run.map(({ atMs }) => atMs)),
    [
      [0, 2_000, 17_000],
      [60_000, 62_000],
    ],
  );
  assert.deepEqual(runsOf([]), []);
});

test('of each actor the last five minutes are kept, and of the actors those that were looked at last', () => {
  const samples = new Samples();
  for (let at = 0; at < 400; at++) samples.add([actor('a', at)], at * 2000);
  assert.equal(samples.of('a').length, 150);
  assert.equal(samples.of('a').at(-1)?.messages, 399);
  for (let index = 0; index < 499; index++) samples.add([actor(`b${index}`, 0)], 0);
  assert.equal(samples.of('a').length, 150);
  samples.add([actor('one too many', 0)], 0);
  assert.equal(samples.of('a').length, 0);
  assert.equal(samples.of('b0').length, 1);
});
