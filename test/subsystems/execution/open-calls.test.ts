import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { cases } from '../../support/properties.ts';
import {
  OPEN_CALLS_MAX,
  OPEN_CALLS_PER_CALLEE_MAX,
  OpenCalls,
} from '../../../subsystems/execution/engine/open-calls.ts';
import type { OpenCallsEntry } from '../../../subsystems/ic/index.ts';

const step = fc.record({ callee: fc.nat(4), isRaise: fc.boolean() });

test('open calls are counted by callee, slots are used again, and no count is lost', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const calls = new OpenCalls();
      const slots = new Map<number, number[]>();
      for (const { callee, isRaise } of steps) {
        const own = slots.get(callee) ?? [];
        slots.set(callee, own);
        if (isRaise) {
          const slot = calls.raise(new Uint8Array([callee]));
          assert.ok(slot > 0 && slot <= 5, `slot ${slot}`);
          if (own.length > 0) assert.equal(slot, own[0]);
          for (const [other, theirs] of slots) if (other !== callee) assert.ok(!theirs.includes(slot));
          own.push(slot);
        } else {
          calls.lower(own.pop() ?? 0);
        }
        assert.equal(
          calls.total,
          [...slots.values()].reduce((sum, { length }) => sum + length, 0),
        );
      }
    }),
    { numRuns: cases(300) },
  );
});

test('what there was when a message began is known until the next one begins', () => {
  const bySlot = (entries: readonly OpenCallsEntry[]): OpenCallsEntry[] => entries.toSorted((a, b) => a.slot - b.slot);
  const messages = fc.array(fc.array(step, { maxLength: 12 }), { maxLength: 12 });
  fc.assert(
    fc.property(messages, (all) => {
      const calls = new OpenCalls();
      const open: { readonly callee: number; readonly slot: number }[] = [];
      for (const steps of all) {
        calls.mark();
        const before = bySlot(calls.entries());
        for (const { callee, isRaise } of steps) {
          if (isRaise) open.push({ callee, slot: calls.raise(new Uint8Array([callee])) });
          else {
            const at = open.findIndex((each) => each.callee === callee);
            if (at >= 0) calls.lower(open.splice(at, 1)[0]?.slot ?? 0);
          }
          assert.deepEqual(bySlot(calls.entriesAtMark()), before);
        }
      }
    }),
    { numRuns: cases(500) },
  );
});

test('there are bounds for one callee and for all, and what is forgotten frees both', () => {
  const calls = new OpenCalls();
  const callee = (k: number): Uint8Array => new Uint8Array([k & 255, k >> 8]);
  for (let k = 0; calls.total < OPEN_CALLS_MAX; k++) {
    for (let n = 0; n < OPEN_CALLS_PER_CALLEE_MAX; n++) assert.notEqual(calls.raise(callee(k)), 0);
    assert.equal(calls.raise(callee(k)), 0);
  }
  assert.equal(calls.raise(callee(60_000)), 0);
  calls.lower(1);
  assert.notEqual(calls.raise(callee(60_000)), 0);
  calls.clear();
  assert.equal(calls.total, 0);
  calls.lower(3);
  assert.equal(calls.total, 0, 'a late response to a forgotten call changes nothing');
  assert.equal(calls.raise(callee(0)), 1);
});

test('a new callee gets the lowest free slot, and loaded counts go on as the ones they were taken from', () => {
  const callee = (k: number): Uint8Array => new Uint8Array([k & 255, k >> 8]);
  fc.assert(
    fc.property(fc.array(fc.record({ callee: fc.nat(99), isRaise: fc.boolean() }), { maxLength: 300 }), (steps) => {
      const calls = new OpenCalls();
      let open: { readonly k: number; readonly slot: number }[] = [];
      for (const { callee: k, isRaise } of steps) {
        if (isRaise) {
          const used = new Set(open.map(({ slot }) => slot));
          let expected = open.find((each) => each.k === k)?.slot ?? 1;
          if (!open.some((each) => each.k === k)) while (used.has(expected)) expected++;
          const slot = calls.raise(callee(k));
          assert.equal(slot, expected);
          open.push({ k, slot });
        } else {
          const one = open.find((each) => each.k === k);
          calls.lower(one?.slot ?? 0);
          open = open.filter((each) => each !== one);
        }
      }
      const counts = new Map<number, { callee: Uint8Array; slot: number; count: number }>();
      for (const { k, slot } of open) {
        const entry = counts.get(slot) ?? { callee: callee(k), slot, count: 0 };
        entry.count++;
        counts.set(slot, entry);
      }
      const loaded = new OpenCalls();
      loaded.raise(callee(7));
      loaded.load([...counts.values()].toReversed());
      assert.equal(loaded.total, calls.total);
      for (let k = 0; k < 100; k++) assert.equal(loaded.raise(callee(k)), calls.raise(callee(k)), `callee ${k}`);
      for (const { slot } of open) {
        loaded.lower(slot);
        calls.lower(slot);
      }
      assert.equal(loaded.total, calls.total);
    }),
    { numRuns: cases(200) },
  );
});
