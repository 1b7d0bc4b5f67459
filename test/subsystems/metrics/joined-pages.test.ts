/** Pages of numbers of several processes as one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinPages } from '../../../subsystems/metrics/joined-pages.ts';
import { parseExposition } from '../../support/exposition-parser.ts';

const FIRST = `# HELP svc_a A.
# TYPE svc_a gauge
svc_a 1
# HELP svc_b_seconds B.
# TYPE svc_b_seconds histogram
svc_b_seconds_bucket{le="+Inf"} 2
svc_b_seconds_sum 0.5
svc_b_seconds_count 2
# HELP svc_actor_total Names may have spaces and braces.
# TYPE svc_actor_total counter
svc_actor_total{actor="a {b} é"} 3
`;
const OTHER = `# HELP svc_a A.
# TYPE svc_a gauge
svc_a 4
# HELP svc_new Only there.
# TYPE svc_new gauge
svc_new{actor="x"} 5
`;

test('samples of other processes have their shard, and each family stays in one piece', async () => {
  const pages = [[2, Buffer.from(OTHER)] as const, [5, Buffer.from(FIRST)] as const];
  const text = Buffer.concat(
    await joinPages([Buffer.from(FIRST.slice(0, 30)), Buffer.from(FIRST.slice(30))], pages),
  ).toString();
  assert.deepEqual(text.match(/^(?:svc_a|svc_actor_total|svc_new|svc_b_seconds_sum).*$/gm), [
    'svc_a 1',
    'svc_a{shard="2"} 4',
    'svc_a{shard="5"} 1',
    'svc_b_seconds_sum 0.5',
    'svc_b_seconds_sum{shard="5"} 0.5',
    'svc_actor_total{actor="a {b} é"} 3',
    'svc_actor_total{shard="5",actor="a {b} é"} 3',
    'svc_new{shard="2",actor="x"} 5',
  ]);
  assert.equal(text.match(/^# TYPE/gm)?.length, 4);
  assert.equal(parseExposition(text).size, 4);
});

test('a page without others is that page', async () => {
  assert.equal(Buffer.concat(await joinPages([Buffer.from(FIRST)], [])).toString(), FIRST);
});
