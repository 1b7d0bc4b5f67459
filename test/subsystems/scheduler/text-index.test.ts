import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TextIndex } from '../../../subsystems/scheduler/text-index.ts';

test('finds what a map finds, whatever comes and goes', () => {
  const texts: (string | undefined)[] = [];
  const index = new TextIndex((handle) => texts[handle]);
  const expected = new Map<string, number>();
  let seed = 1;
  const random = (below: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (seed >>> 8) % below;
  };
  for (let step = 0; step < 20_000; step++) {
    const text = `actor${random(2_000)}`;
    const handle = expected.get(text);
    if (handle === undefined) {
      expected.set(text, texts.length);
      index.add(texts.push(text) - 1);
    } else if (random(3) > 0) {
      index.delete(text);
      texts[handle] = undefined;
      expected.delete(text);
    }
    assert.equal(index.find(text), expected.get(text));
  }
  for (let k = 0; k < 2_000; k++) assert.equal(index.find(`actor${k}`), expected.get(`actor${k}`));
  assert.ok(expected.size > 500);
});

test('the newer one of two with the same text is found, and none after a deletion', () => {
  const index = new TextIndex(() => 'same');
  index.add(0);
  index.add(1);
  assert.equal(index.find('same'), 1);
  index.delete('same');
  index.delete('same');
  assert.equal(index.find('same'), undefined);
});
