/** The forms of a profile: what each tool reads, with names of any text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callTreeJson, callTreeOf } from '../../../subsystems/http/profile/call-tree.ts';
import { cpuProfileOf } from '../../../subsystems/http/profile/cpu-profile.ts';
import { flameGraphOf } from '../../../subsystems/http/profile/flame-graph.ts';
import { foldedStacks } from '../../../subsystems/http/profile/folded-stacks.ts';

const HOSTILE = '<script>"&;name\u00e9</script>';
const PROFILE = {
  instructions: 1000,
  samples: [
    { instructions: 100, stack: [] },
    { instructions: 200, stack: ['outer'] },
    { instructions: 300, stack: ['outer', 'inner'] },
    { instructions: 150, stack: ['outer', HOSTILE] },
    { instructions: 250, stack: ['outer', 'inner'] },
  ],
} as const;

test('the tree has the instructions of each function, alone and with its callees, the largest first', () => {
  const leaf = (name: string, self: number): object => ({ name, self, total: self, children: [] });
  const outer = { name: 'outer', self: 200, total: 900, children: [leaf('inner', 550), leaf(HOSTILE, 150)] };
  assert.deepEqual(callTreeJson(callTreeOf('order', PROFILE)), {
    name: 'order',
    self: 100,
    total: 1000,
    children: [outer],
  });
});

test('folded stacks have a line for each stack that executed code', () => {
  const lines = foldedStacks(callTreeOf('order', PROFILE)).trimEnd().split('\n');
  const name = HOSTILE.replaceAll(';', ':');
  assert.deepEqual(lines, ['order 100', 'order;outer 200', 'order;outer;inner 550', `order;outer;${name} 150`]);
});

test('a .cpuprofile has the stacks in the order of execution', () => {
  const { nodes, samples, timeDeltas, endTime } = cpuProfileOf('order', PROFILE) as {
    nodes: { id: number; callFrame: { functionName: string }; hitCount: number; children: number[] }[];
    samples: number[];
    timeDeltas: number[];
    endTime: number;
  };
  const nameOf = (id: number | undefined): string | undefined => nodes[(id ?? 0) - 1]?.callFrame.functionName;
  assert.deepEqual(samples.map(nameOf), ['order', 'outer', 'inner', HOSTILE, 'inner']);
  assert.deepEqual([timeDeltas, endTime], [[0, 100, 200, 300, 150], 1000]);
  assert.deepEqual(
    nodes.map(({ id, hitCount, children }) => [nameOf(id), hitCount, children.map(nameOf)]),
    [
      ['order', 1, ['outer']],
      ['outer', 1, ['inner', HOSTILE]],
      ['inner', 2, []],
      [HOSTILE, 1, []],
    ],
  );
});

test('a flame graph is SVG without scripts, whatever functions are called', () => {
  const svg = flameGraphOf(callTreeOf('order', PROFILE));
  assert.doesNotMatch(svg, /<script|onload|href/);
  const rects = [...svg.matchAll(/<rect x="([\d.]+)" y="(\d+)" width="([\d.]+)"/g)].map((match) =>
    match.slice(1).map(Number),
  );
  assert.deepEqual(rects, [
    [0, 36, 1200],
    [0, 18, 1080],
    [0, 0, 660],
    [660, 0, 180],
  ]);
  assert.match(svg, /<title>inner: 550 instructions, 55\.0 %<\/title>/);
  assert.match(svg, /&lt;script&gt;&quot;&amp;;nameé&lt;\/script&gt;: 150 instructions/);
  // Every tag that is opened is closed.
  for (const tag of ['svg', 'g', 'title', 'text'])
    assert.equal(svg.split(`<${tag}`).length, svg.split(`</${tag}>`).length, tag);
  assert.match(flameGraphOf(callTreeOf('empty', { instructions: 1, samples: [] })), /empty: 0 instructions/);
});

test('many functions give a picture of bounded size', () => {
  const samples = Array.from({ length: 500 }, (_, index) => ({
    instructions: index === 0 ? 1_000_000 : 1,
    stack: Array.from({ length: 33 }, (_each, depth) => `function ${index} ${depth} ${'n'.repeat(90)}`),
  }));
  const svg = flameGraphOf(callTreeOf('many', { instructions: 1_000_499, samples }));
  assert.ok(svg.length < 40_000, `${svg.length}: what is too narrow to be seen is left out`);
});
