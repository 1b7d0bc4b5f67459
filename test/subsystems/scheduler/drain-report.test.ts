import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Executing } from '../../../subsystems/execution/index.ts';
import type { Task } from '../../../subsystems/ic/index.ts';
import { DrainReport } from '../../../subsystems/scheduler/drain-report.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { MODULE } from './held-execution.ts';

const entry = (exported: string): number => MODULE.entries.get(exported) ?? -1;
const taskOf = (task: object): Task => task as Task;

test('whoever is waited for is named, the longest first, after a second and then after twice as long each time', () => {
  const clock = new FakeClock(100_000);
  let executing: readonly Executing[] = [
    { handle: 1, what: taskOf({ kind: 'update', entry: entry('canister_update m') }), sinceMs: 88_400 },
    { handle: 2, what: 'upgrade', sinceMs: 50_000 },
    { handle: 3, what: taskOf({ kind: 'callback' }), sinceMs: 99_900 },
    { handle: 4, what: taskOf({ kind: 'inspect', method: 'pay' }), sinceMs: 99_990 },
    { handle: 5, what: taskOf({ kind: 'system', entry: entry('canister_heartbeat') }), sinceMs: 99_999 },
  ];
  const lines: string[] = [];
  const report = new DrainReport({
    clock,
    execution: { executing: () => executing },
    canisters: { ifAny: () => ({ module: MODULE }) },
    port: { listener: { nameOf: (handle) => `actor-${handle}` } },
    log: { info: (line) => void lines.push(line) },
  });
  const pass = (ms: number): number => {
    clock.advance(ms);
    return lines.length;
  };
  report.begin();
  report.begin();
  assert.equal(pass(999), 0);
  assert.equal(pass(1), 1);
  assert.equal(
    lines[0],
    'waiting for 5 message(s): upgrade of actor-2 (51 s), update m of actor-1 (13 s), callback of actor-3 (1 s), inspection of pay of actor-4 (1 s), heartbeat of actor-5 (1 s)',
  );
  assert.equal(pass(1999), 1);
  assert.equal(pass(1), 2);
  assert.equal(pass(3999), 2);
  assert.equal(pass(1), 3);
  // No messages execute any more: the drain is about to end.
  const update = executing[0]?.what ?? 'install';
  executing = [];
  assert.equal(pass(8000), 3);
  executing = Array.from({ length: 12 }, (_, handle) => ({ handle, what: update, sinceMs: handle }));
  pass(16_000);
  assert.match(lines[3] ?? '', /^waiting for 12 message\(s\): update m of actor-0 .*actor-9 \(131 s\), 2 more$/);
  for (let gapMs = 32_000; lines.length < 7; gapMs = 60_000) pass(gapMs);
  report.end();
  pass(600_000);
  assert.equal(lines.length, 7);
});
