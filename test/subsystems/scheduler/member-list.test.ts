import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Member, MemberList } from '../../../subsystems/scheduler/member-list.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';

class Item implements Member<Item> {
  earlier: Item | undefined = undefined;
  later: Item | undefined = undefined;
  place = 0;
}

/** Makes the same changes to a list and to a Set. */
class Pair {
  readonly list = new MemberList<Item>();
  readonly set = new Set<Item>();

  change(item: Item, random: Seeded): void {
    if (random.oneIn(2)) {
      this.list.add(item);
      this.set.add(item);
    } else assert.equal(this.list.delete(item), this.set.delete(item));
  }
}

test('holds what a Set holds, in its order, whatever comes and goes, also while it is read', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seeded(seed);
    const pair = new Pair();
    const items: [Item, ...Item[]] = [new Item(), ...Array.from({ length: random.below(12) }, () => new Item())];
    for (let step = 0; step < 60; step++) {
      pair.change(random.pick(items), random);
      assert.equal(pair.list.size, pair.set.size);
      assert.deepEqual(
        items.map((item) => pair.list.has(item)),
        items.map((item) => pair.set.has(item)),
      );
      const inSet = pair.set.values();
      let visits = 0;
      for (const item of pair.list) {
        assert.equal(item, inSet.next().value, `seed ${seed}, step ${step}`);
        // A loop that adds what it has just removed never ends, in either list.
        if (++visits > 50) break;
        for (let changes = random.below(4); changes > 0; changes--) pair.change(random.pick(items), random);
      }
      if (visits <= 50) assert.ok(inSet.next().done === true, `seed ${seed}, step ${step}: the list ended too early`);
    }
  }
});

test('refers to nothing from a member that has gone, so that what is dead keeps nothing alive', () => {
  const list = new MemberList<Item>();
  const items = Array.from({ length: 5 }, () => new Item());
  for (const item of items) list.add(item);
  for (const gone of [2, 0, 4, 1, 3]) {
    const item = items[gone];
    assert.ok(item !== undefined && list.delete(item));
    assert.deepEqual([item.earlier, item.later, item.place], [undefined, undefined, 0]);
  }
  assert.deepEqual([...list], []);
});
