import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CanisterTimes } from '../../../subsystems/execution/pool/canister-times.ts';

const HOUR_MS = 3_600_000;

test('a canister that is ahead goes on from there, slower than the clock, until that has caught up', () => {
  let nowMs = 1_000;
  const times = new CanisterTimes({ nowMs: () => nowMs });
  times.resume(1, 11_000);
  times.resume(2, 999);
  assert.deepEqual([times.nowOf(0), times.nowOf(1), times.nowOf(2)], [1_000, 11_000, 1_000]);
  let lastMs = times.nowOf(1);
  for (let second = 1; second <= 200; second++) {
    nowMs += 1_000;
    const seenMs = times.nowOf(1);
    const stepMs = seenMs - lastMs;
    assert.ok(second <= 100 ? Math.abs(stepMs - 900) < 1e-6 : stepMs === 1_000, `${stepMs} ms in second ${second}`);
    lastMs = seenMs;
  }
  assert.equal(times.aheadOf(1), 0);
  assert.equal(lastMs, nowMs);
});

test('100 hours ahead: a second is 0.9 seconds, also much later, and a canister that is gone leaves nothing', () => {
  let nowMs = 1.8e12;
  const times = new CanisterTimes({ nowMs: () => nowMs });
  times.resume(7, nowMs + 100 * HOUR_MS);
  nowMs += 500 * HOUR_MS;
  const beforeMs = times.nowOf(7);
  assert.ok(Math.abs(times.aheadOf(7) - 50 * HOUR_MS) < 1);
  nowMs += 1_000;
  assert.ok(Math.abs(times.nowOf(7) - beforeMs - 900) < 1);
  times.forget(7);
  assert.equal(times.nowOf(7), nowMs);
});
