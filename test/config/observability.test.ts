/**
 * The dashboard and the rules of config/observability: they fit together and match docs/metrics.md. Tests of a real
 * Prometheus with them are in test/system.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { expressionsOf, familiesIn, readDashboard, readObservability } from '../support/dashboard.ts';

const DOCUMENT = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
const OPERATIONS = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
const FAMILIES = new Map(
  [...DOCUMENT.matchAll(/^\| `(\w+)` \| (gauge|counter|histogram) \|/gm)].map(([, name = '', type = '']) => [
    name,
    type,
  ]),
);
const RULES = readObservability('alerts.yml');

/** Asserts that the use of a family fits its type. */
function checkUse(expression: string): void {
  for (const name of familiesIn(expression)) {
    const type = FAMILIES.get(name);
    assert.ok(type !== undefined, `${name} of "${expression}" is on no page`);
    const use = new RegExp(`(\\w+)?\\(?\\b${name}(_bucket|_sum|_count)?\\b`).exec(expression);
    assert.equal(use?.[2] !== undefined, type === 'histogram', `${name} is a ${type}: ${expression}`);
    // The growth of a counter has a meaning, and so has the value of a gauge.
    const grows = ['rate', 'increase'].includes(use?.[1] ?? '');
    assert.equal(grows, type !== 'gauge', `${name} is a ${type}: ${expression}`);
  }
}

test('the dashboard is one that Grafana takes: numbered panels that do not lie upon each other, one source of data', () => {
  const { panels, templating, schemaVersion, uid } = readDashboard();
  assert.ok(schemaVersion >= 30 && uid !== '');
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  assert.deepEqual(
    templating.list.map(({ name, type }) => `${name} ${type}`),
    ['datasource datasource', 'instance query'],
  );
  const taken = new Map<string, string>();
  for (const { title, type, gridPos, datasource, targets = [] } of panels) {
    const { x, y, w, h } = gridPos;
    assert.ok(x >= 0 && w > 0 && h > 0 && x + w <= 24, title);
    for (let column = x; column < x + w; column++) {
      for (let line = y; line < y + h; line++) {
        const place = `${column} ${line}`;
        assert.equal(taken.get(place), undefined, `${title} lies upon ${taken.get(place)}`);
        taken.set(place, title);
      }
    }
    if (type === 'row') continue;
    assert.ok(['stat', 'timeseries', 'bargauge'].includes(type), type);
    assert.ok(targets.length > 0, `${title} shows nothing`);
    assert.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
    for (const source of [datasource, ...targets.map((target) => target.datasource)])
      assert.deepEqual(source, { type: 'prometheus', uid: '${datasource}' }, title);
  }
});

test('the dashboard asks for numbers that the page has, by their types, of the chosen server', () => {
  const expressions = expressionsOf(readDashboard());
  assert.ok(expressions.length > 40);
  for (const { title, expr } of expressions) {
    checkUse(expr);
    const selectors = [...expr.matchAll(/\b(?:svc|process|nodejs)_\w+(\{[^}]*\})?/g)];
    for (const [selector, labels = ''] of selectors)
      assert.ok(labels.includes('instance=~"$instance"'), `${title}: ${selector}`);
  }
});

test('the dashboard shows all families but the start time, which the alerts have', () => {
  const shown = familiesIn(
    expressionsOf(readDashboard())
      .map(({ expr }) => expr)
      .join('\n'),
  );
  assert.deepEqual(
    [...FAMILIES.keys()].filter((name) => !shown.has(name)),
    ['process_start_time_seconds'],
  );
});

test('every alert has a test in which it fires, and one in which it is silent', () => {
  const tests = readObservability('alerts.test.yml');
  const alerts = [...RULES.matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name);
  assert.ok(alerts.length >= 15);
  assert.equal(new Set(alerts).size, alerts.length);
  for (const alert of alerts) {
    const group = tests.split(/^ {2}- name: /m).find((text) => text.startsWith(`${alert}\n`));
    assert.ok(group !== undefined, `${alert} has no test`);
    assert.ok(group.includes(`alertname="${alert}"`), `the test of ${alert} does not see it fire`);
    assert.match(group, /exp_samples: \[\]/, `the test of ${alert} does not see it silent`);
  }
});

test('alerts ask for numbers that the page has, and the document lists them', () => {
  for (const name of familiesIn(RULES)) assert.ok(FAMILIES.has(name), `${name} is on no page`);
  const listed = [...DOCUMENT.matchAll(/^\| `(Svc\w+)` \|/gm)].map(([, name]) => name);
  const alerts = [...RULES.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  assert.deepEqual(listed, alerts);
  const handled = [...OPERATIONS.matchAll(/^\| `(Svc\w+)` \| \S/gm)].map(([, name]) => name);
  assert.deepEqual(handled, alerts, 'docs/operations.md says what to do about each alert');
});
