import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { chartScale } from '../../../../subsystems/inspector/page/chart-scale.ts';
import { bytesText, largeText } from '../../../../subsystems/inspector/page/format.ts';
import type { Point } from '../../../../subsystems/inspector/page/samples.ts';

const pointsOf = (values: readonly number[]): readonly Point[] =>
  values.map((value, index) => ({ atMs: 1_000_000 + index * 2_000, value }));
/** A point's height, as a share of the chart's. */
const heightOf = (value: number, { bottom, top }: { readonly bottom: number; readonly top: number }): number =>
  (value - bottom) / (top - bottom);

suite('scales of charts', () => {
  test('hold every value, begin at zero or leave no more than a cliff is worth', () => {
    const values = fc.array(fc.double({ min: 0, max: 1e24, noNaN: true }), { maxLength: 150 });
    fc.assert(
      fc.property(values, fc.boolean(), fc.constantFrom(1000 as const, 1024 as const), (drawn, isFromZero, base) => {
        const scale = chartScale(pointsOf(drawn), { isFromZero, base });
        assert.ok(scale.top > scale.bottom && scale.bottom >= 0, JSON.stringify(scale));
        for (const value of drawn) {
          const height = heightOf(value, scale);
          assert.ok(height >= -1e-9 && height <= 1 + 1e-9, `${value} in ${JSON.stringify(scale)}`);
        }
        if (isFromZero) assert.equal(scale.bottom, 0);
        const most = Math.max(0, ...drawn);
        // The top is not so far away that the line lies on the ground.
        if (isFromZero && most > 1e-9) assert.ok(most / scale.top >= 0.5, `${most} of ${scale.top}`);
      }),
      { numRuns: 500 },
    );
  });

  test('0.02 % of a balance is a flat line, and half of it is not', () => {
    const scale = chartScale(pointsOf([100e12, 99.98e12]), { isFromZero: false, base: 1000 });
    assert.ok(heightOf(100e12, scale) - heightOf(99.98e12, scale) < 0.003, JSON.stringify(scale));
    const spent = chartScale(pointsOf([100e12, 50e12]), { isFromZero: false, base: 1000 });
    assert.ok(heightOf(100e12, spent) - heightOf(50e12, spent) > 0.8, JSON.stringify(spent));
  });

  for (const [values, base, text] of [
    [[], 1000, '1'],
    [[0, 0], 1000, '1'],
    [[0.3], 1000, '0.3'],
    [[7], 1000, '8'],
    [[101], 1000, '150'],
    [[1_234], 1000, '1.5 k'],
    [[999], 1000, '1 k'],
  ] as const) {
    test(`the top above ${values.join(', ') || 'nothing'} is ${text}`, () => {
      assert.equal(largeText(chartScale(pointsOf(values), { isFromZero: true, base }).top), text);
    });
  }

  for (const [bytes, text] of [
    [3.1 * 1024 ** 2, '4 MiB'],
    [1024 ** 3 - 1, '1 GiB'],
    [700, '800 B'],
  ] as const) {
    test(`the top above ${bytes} bytes is ${text}, round in its unit`, () => {
      const { top } = chartScale(pointsOf([bytes]), { isFromZero: true, base: 1024 });
      assert.equal(bytesText(top), text);
    });
  }

  test('the time that is shown is a round one, up to five minutes', () => {
    for (const [count, spanMs] of [
      [1, 30_000],
      [16, 30_000],
      [17, 60_000],
      [50, 120_000],
      [62, 180_000],
      [92, 240_000],
      [122, 300_000],
      [150, 300_000],
    ] as const) {
      assert.equal(chartScale(pointsOf(Array(count).fill(1)), { isFromZero: true, base: 1000 }).spanMs, spanMs);
    }
  });
});
