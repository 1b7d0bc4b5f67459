/** Decisions about rehearsed upgrades. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlayedEnd } from '../../../subsystems/copies/index.ts';
import type { Difference, RehearsalReport } from '../../../subsystems/rehearsal/index.ts';
import { judgeRehearsal } from '../../../subsystems/rehearsal/judge-rehearsal.ts';

const BYTES = new Uint8Array();
const FIGURES = { p50: 1, most: 1 };
const REPLY: PlayedEnd = { outcome: 'reply', reply: BYTES, message: undefined, instructions: 1 };
const TRAP: PlayedEnd = { outcome: 'trap', reply: undefined, message: 'assertion failed', instructions: 1 };

function difference(seq: number, is: PlayedEnd, isBehindDivergence = false): Difference {
  const message = { seq, kind: 'update', method: 'price', caller: BYTES, argument: BYTES } as const;
  return { ...message, was: REPLY, is, calls: { notMade: [], added: [] }, isBehindDivergence };
}

function reportOf(broken: number, differences: readonly Difference[]): RehearsalReport {
  const hooks = { outcome: 'done', message: undefined, instructions: 1, logs: [] } as const;
  const counts = { count: 9, same: 6, different: 3, diverged: 0, leftOut: 0, broken, inexact: 0 };
  const instructions = { was: FIGURES, is: FIGURES };
  const replayed = { span: undefined, hooks, ...counts, differences, instructions, probes: [], why: undefined };
  return { hooks, replayed, ms: 1 };
}

test('the message that an upgrade is refused with is one that the new code breaks, not one that it answers otherwise', () => {
  const report = reportOf(1, [difference(3, REPLY), difference(5, TRAP)]);
  const { refusal } = judgeRehearsal('shop', report, false, 'refuse');
  assert.match(refusal?.message ?? '', /fails in 1 of the last 9 messages .*, first in seq:5: assertion failed;/);
  const [warning] = judgeRehearsal('shop', report, false, 'warn').warnings;
  assert.match(warning ?? '', /first in seq:5: assertion failed$/);
  const late = judgeRehearsal('shop', reportOf(1, [difference(3, REPLY), difference(7, TRAP, true)]), false, 'refuse');
  assert.doesNotMatch(late.refusal?.message ?? '', /seq:\d/, 'the broken message is beyond those that are told');
});

test('code that breaks nothing is not refused, and a forced upgrade neither', () => {
  assert.equal(judgeRehearsal('shop', reportOf(0, [difference(3, REPLY)]), false, 'refuse').refusal, undefined);
  assert.equal(judgeRehearsal('shop', reportOf(1, [difference(3, TRAP)]), true, 'refuse').refusal, undefined);
});
