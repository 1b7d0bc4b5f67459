import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { complaintOf, type Series, trendOf } from './flat.ts';
import { pageOf } from './page.ts';

/** Makes a series of one figure a second, with noise that is the same each time. */
function seriesOf(valueAt: (at: number) => number, noise = 0): Series {
  const points = Array.from({ length: 200 }, (_, at) => {
    return { at, value: valueAt(at) + noise * Math.sin(at * 12.9898) };
  });
  return { name: 'Memory', unit: 'MiB', points, mayGrow: 0.05 };
}

suite('what stays flat', () => {
  test('noise, a saw and what shrinks are flat; so is what grows in the first half', () => {
    const flat = [
      seriesOf(() => 100, 10),
      seriesOf((at) => 100 + (at % 20)),
      seriesOf((at) => 300 - at, 1),
      seriesOf((at) => Math.min(at, 90), 1),
      seriesOf((at) => 100 + at / 50),
    ];
    for (const series of flat) assert.equal(complaintOf(series), undefined);
  });

  test('a leak is found beneath noise, and not where the noise is larger than the leak', () => {
    assert.match(
      complaintOf(seriesOf((at) => 100 + at / 4, 5)) ?? '',
      /^Memory grows: by 2[456]\.\d MiB in the second half/,
    );
    assert.equal(complaintOf(seriesOf((at) => 100 + at / 10, 50)), undefined);
  });

  test('a line is found exactly', () => {
    const { mean, growth, noise } = trendOf(seriesOf((at) => 2 * at).points);
    assert.ok(Math.abs(mean - 299) < 1e-6 && Math.abs(growth - 199) < 1e-6 && noise < 1e-6);
    assert.match(complaintOf({ ...seriesOf(() => 1), points: [] }) ?? '', /too few figures/);
  });

  test('the page has a chart for each series, and says which is not flat', () => {
    const page = pageOf('Soak <1>', [seriesOf((at) => 100 + at), seriesOf(() => 5, 1)], [20]);
    assert.equal(page.split('<svg').length, 3);
    assert.equal(page.split('class="bad"').length, 2);
    assert.ok(page.includes('Soak &lt;1>') && !/(?:src|href)=/.test(page));
  });
});
