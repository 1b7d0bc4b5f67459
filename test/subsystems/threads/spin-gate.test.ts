import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpinGate } from '../../../subsystems/threads/index.ts';

/** Returns the number of tries that looked; each look has the result `isFound`. */
function looks(gate: SpinGate, times: number, isFound: boolean): number {
  let count = 0;
  for (let k = 0; k < times; k++) {
    const before = count;
    const result = gate.try(() => (count++, isFound));
    assert.equal(result, count > before && isFound);
  }
  return count;
}

test('a gate stays open as long as something is found', () => {
  assert.equal(looks(new SpinGate(true), 1_000, true), 1_000);
});

test('a gate behind which nothing is found is tried a few times in a thousand, also after a good time', () => {
  const gate = new SpinGate(true);
  assert.ok(looks(gate, 1_000, false) <= 24);
  looks(gate, 1_000, true);
  assert.ok(looks(gate, 1_000, false) <= 24);
});

test('a gate opens again within 70 tries when what was never found is found again', () => {
  const gate = new SpinGate(true);
  looks(gate, 10_000, false);
  assert.ok(looks(gate, 100, true) >= 30);
  assert.equal(looks(gate, 100, true), 100);
});

test('a gate behind which something is found one time in three is mostly closed, nine in ten mostly open', () => {
  const share = (isFound: (k: number) => boolean): number => {
    const gate = new SpinGate(true);
    let count = 0;
    for (let k = 0; k < 10_000; k++) gate.try(() => (count++, isFound(count)));
    return count / 10_000;
  };
  assert.ok(share((k) => k % 3 === 0) < 0.1);
  assert.ok(share((k) => k % 10 !== 0) > 0.8);
});

test('on one core nothing is looked for', () => {
  assert.equal(looks(new SpinGate(false), 100, true), 0);
});
