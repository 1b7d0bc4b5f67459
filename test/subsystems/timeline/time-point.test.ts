import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTimePoint } from '../../../subsystems/timeline/index.ts';

test('points of each kind are read', () => {
  const points = {
    start: { kind: 'start' },
    now: { kind: 'now' },
    'seq:1234': { kind: 'seq', seq: 1234 },
    'unit:99123': { kind: 'unit', unit: 99_123 },
    'time:2026-11-21T20:00:00.000Z': { kind: 'time', timeMs: Date.parse('2026-11-21T20:00:00.000Z') },
    'ago:15m': { kind: 'ago', ms: 900_000 },
    'ago:0ms': { kind: 'ago', ms: 0 },
    'ago:2d': { kind: 'ago', ms: 172_800_000 },
    'label:before-import': { kind: 'label', label: 'before-import' },
  };
  for (const [text, point] of Object.entries(points)) assert.deepEqual(parseTimePoint(text, '?at='), point);
});

test('any other text is refused with the parameter, and with what is wrong', () => {
  const wrong = {
    '': /is no point/,
    latest: /is no point/,
    seq: /is no point/,
    'seq:-1': /names no message/,
    'seq:0': /names no message/,
    'seq:1e3': /names no message/,
    'unit:0': /names no unit/,
    'unit:1.5': /names no unit/,
    'time:yesterday': /is no time/,
    'time:2026-02-30T00:00:00Z': /is no time/,
    'ago:15': /no time span/,
    'ago:-1s': /no time span/,
    'ago:1y': /no time span/,
    'label:../../etc': /is no label/,
    [`label:${'x'.repeat(65)}`]: /is no label/,
    [`label:${'x'.repeat(2 ** 20)}`]: /is no label/,
    [`unit:${'9'.repeat(2 ** 20)}`]: /names no unit/,
  };
  for (const [text, message] of Object.entries(wrong)) {
    const refused = (error: Error): boolean => message.test(error.message) && error.message.length < 300;
    assert.throws(
      () => parseTimePoint(text, '?from='),
      (error: Error) => refused(error) && error.message.startsWith('?from='),
    );
  }
});
