import assert from 'node:assert/strict';
import { test } from 'node:test';
import { histogramText } from '../../../subsystems/metrics/exposition.ts';
import { Histogram, SECONDS_BOUNDS } from '../../../subsystems/figures/index.ts';
import { parseExposition } from '../../support/exposition-parser.ts';

test('a value belongs to the first bucket whose bound it does not pass', () => {
  const histogram = new Histogram([1, 2, 4]);
  for (const value of [0, 1, 1.5, 2, 3, 4, 4.5, 1000]) histogram.observe(value);
  assert.deepEqual(histogram.figures, { bounds: [1, 2, 4], counts: [2, 2, 2, 2], sum: 1016 });
});

test('figures do not change afterwards, and cross threads as they are', () => {
  const histogram = new Histogram([1]);
  histogram.observe(1);
  const { figures } = histogram;
  histogram.observe(1);
  assert.deepEqual(structuredClone(figures), { bounds: [1], counts: [1, 0], sum: 1 });
});

test('as text its buckets are cumulative', () => {
  const histogram = new Histogram([0.001, 1]);
  for (const value of [0.0005, 0.5, 0.5, 20]) histogram.observe(value);
  const text = histogramText('x_seconds', 'How long.', histogram.figures);
  assert.equal(
    text,
    `# HELP x_seconds How long.
# TYPE x_seconds histogram
x_seconds_bucket{le="0.001"} 1
x_seconds_bucket{le="1"} 3
x_seconds_bucket{le="+Inf"} 4
x_seconds_sum 21.0005
x_seconds_count 4
`,
  );
  assert.equal(parseExposition(text).get('x_seconds')?.type, 'histogram');
});

test('bounds of seconds ascend', () => {
  assert.deepEqual(
    SECONDS_BOUNDS,
    SECONDS_BOUNDS.toSorted((a, b) => a - b),
  );
  assert.equal(new Set(SECONDS_BOUNDS).size, SECONDS_BOUNDS.length);
});
