import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MessageTraces } from '../../../subsystems/canisters/message-traces.ts';

test('numbers go up, and a message below another one has its root', () => {
  const traces = new MessageTraces(1_000);
  const top = traces.next();
  const below = traces.next(top);
  assert.deepEqual(top, { number: 1, cause: 0, root: 1 });
  assert.deepEqual(below, { number: 2, cause: 1, root: 1 });
  assert.deepEqual(traces.next(below), { number: 3, cause: 2, root: 1 });
});

test('only an id that was given in this process has a number', () => {
  const traces = new MessageTraces(1_764_000_000_000.5);
  for (let count = 1; count <= 100; count++) {
    const { number } = traces.next();
    assert.equal(traces.numberOf(traces.idOf(number)), number);
  }
  const [process] = traces.idOf(1).split('-');
  for (const id of ['', '-', '1', `${process}`, `${process}-`, `${process}-0`, `${process}-2t`, `${process}-01`])
    assert.equal(traces.numberOf(id), undefined, id);
  for (const id of [
    `${process}-1 `,
    `${process}-1\n`,
    `${process}--1`,
    `${process}-1e1x`,
    `${process}-${'1'.repeat(12)}`,
  ])
    assert.equal(traces.numberOf(id), undefined, id);
  assert.equal(traces.numberOf(new MessageTraces(1_764_000_000_001).idOf(1)), undefined);
  assert.equal(traces.numberOf(`${process}-A`), undefined);
});
