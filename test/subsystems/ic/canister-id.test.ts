/** Ids of a host that is a service by itself, and of one that has a shard. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CanisterIds, hexOf, idInShard, RESERVED_NUMBERS, shardOf } from '../../../subsystems/ic/index.ts';

test('ids of shard 0 are those of a host that is a service by itself, and each id tells its shard', () => {
  const alone = new CanisterIds();
  const first = new CanisterIds();
  first.inShard(0);
  for (let count = 0; count < 3; count++) assert.deepEqual(first.next(), alone.next());
  assert.equal(hexOf(alone.next()), '80000000001000040101');
  const last = new CanisterIds();
  last.inShard(255);
  assert.equal(hexOf(last.next()), '8000ff00001000010101');
  for (const shard of [0, 1, 255])
    for (const number of [0n, 1n, 2n ** 32n, RESERVED_NUMBERS, RESERVED_NUMBERS + 2n ** 32n])
      assert.equal(shardOf(idInShard(shard, number)), shard);
});

test('an id that no host of this kind gives out is in no shard', () => {
  for (const hex of [
    '',
    '04',
    // Canisters of the Internet Computer, and of other forms.
    '00000000000000020101',
    '7fffffffffffffff0101',
    '80000000001000000101',
    '80010000001000010101',
    '80000000001000010102',
    '8000000000100001010100',
  ])
    assert.equal(shardOf(Buffer.from(hex, 'hex')), undefined, hex);
});

test('an id is chosen of the own shard alone, where there are several, and of those that nobody else gives out', () => {
  const chosen = Buffer.from('00000000000000020101', 'hex');
  const alone = new CanisterIds();
  alone.claim(chosen);
  alone.claim(idInShard(7, 5n));
  const ids = new CanisterIds();
  ids.inShard(2);
  for (const other of [chosen, idInShard(0, 5n), idInShard(3, 5n), idInShard(2, RESERVED_NUMBERS)])
    assert.throws(() => ids.claim(other), { code: 'id-unfit', message: /has shard 2 of a service, .* 800002/ });
  ids.claim(idInShard(2, 0n));
  assert.throws(() => ids.claim(idInShard(2, 0n)), { code: 'id-taken' });
  assert.deepEqual(ids.next(), idInShard(2, 1n), 'one that was chosen is passed over');
  assert.throws(() => ids.claim(idInShard(2, 1n)), { code: 'id-taken' });
  const later = new CanisterIds();
  later.load(ids.save());
  later.inShard(2);
  assert.deepEqual(later.next(), idInShard(2, 2n));
});
