/** Rounds of certificates: whoever waits for one shares its signature, and gets a witness of its own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CborMap, CertificateRounds, decodeCbor, type Path } from '../../../subsystems/certification/index.ts';
import { lookup, treeOf } from './specified-tree.ts';

function dataOf(id: string): Path {
  return ['canister', id, 'certified_data'].map((label) => Buffer.from(label));
}

test('the data of two actors is certified by one signature, each without the other', async () => {
  const signed: Uint8Array[] = [];
  const sign = (message: Uint8Array): Promise<Uint8Array> => {
    signed.push(message);
    return Promise.resolve(new Uint8Array(48));
  };
  const rounds = new CertificateRounds({ sign }, { nowMs: () => 1 });
  const certified = (id: string): Promise<Uint8Array> =>
    rounds.certify([{ path: dataOf(id), value: Buffer.from(`of ${id}`) }], [dataOf(id)]);
  const [a, b] = await Promise.all([certified('a'), certified('b')]);
  assert.equal(signed.length, 1);
  for (const [own, other, certificate] of [
    ['a', 'b', a],
    ['b', 'a', b],
  ] as const) {
    const tree = treeOf((decodeCbor(certificate) as CborMap).get('tree'));
    assert.deepEqual(lookup(tree, dataOf(own)), Buffer.from(`of ${own}`));
    assert.equal(lookup(tree, dataOf(other)), 'unknown');
  }
});
