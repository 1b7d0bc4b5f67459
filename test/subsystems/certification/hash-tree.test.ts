import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type HashTree as AgentsTree, lookup_path, LookupPathStatus } from 'icp-core-6/agent';
import { CborWriter, decodeCbor, type Fact, hashOfMap } from '../../../subsystems/certification/index.ts';
import { HashTree } from '../../../subsystems/certification/hash-tree.ts';
import { seeded } from '../../support/seeded.ts';
import { lookup, reconstruct, treeOf } from './specified-tree.ts';

const bytes = (text: string): Buffer => Buffer.from(text);

function witnessOf(tree: HashTree, paths: readonly (readonly Uint8Array[])[]): Uint8Array {
  const out = new CborWriter();
  tree.writeWitness(out, paths);
  return out.done();
}

suite('hash trees', () => {
  test('the example of the specification has the root hash that it says', () => {
    const empty = { kind: 'empty' } as const;
    const leaf = (value: string) => ({ kind: 'leaf', value: bytes(value) }) as const;
    const labeled = <T>(label: string, tree: T) => ({ kind: 'labeled', label: bytes(label), tree }) as const;
    const fork = <L, R>(left: L, right: R) => ({ kind: 'fork', left, right }) as const;
    const a = labeled('a', fork(fork(labeled('x', leaf('hello')), empty), labeled('y', leaf('world'))));
    const tree = fork(fork(a, labeled('b', leaf('good'))), fork(labeled('c', empty), labeled('d', leaf('morning'))));
    assert.equal(reconstruct(tree).toString('hex'), 'eb5c5b2195e62d996b84c9bcc8259d19a83786a2f59e0878cec84c811f669aa0');
  });

  test('the request id of the specification', () => {
    const content = new Map<string, string | bigint | Uint8Array>([
      ['request_type', 'call'],
      ['sender', Uint8Array.of(4)],
      ['ingress_expiry', 1_685_570_400_000_000_000n],
      ['canister_id', Buffer.from('00000000000004d2', 'hex')],
      ['method_name', 'hello'],
      ['arg', Buffer.from('4449444c00fd2a', 'hex')],
    ]);
    assert.equal(
      hashOfMap(content).toString('hex'),
      '1d1091364d6bb8a6c16b203ee75467d59ead468f523eb058880ae8ec80e2b101',
    );
  });

  test('witnesses of random trees prove what is there and what is not, and show nothing else', () => {
    const random = seeded(20_261_128);
    // Agents compare labels of several bytes wrongly, so they are asked of absent ones in every second round only.
    let isShort = true;
    const label = (): Buffer =>
      Buffer.from(Array.from({ length: isShort ? 1 : 1 + random.below(2) }, () => 97 + random.below(6)));
    let [found, absent] = [0, 0];
    for (let round = 0; round < 5000; round++) {
      isShort = round % 2 === 0;
      // Values at depth 3, so that none is above another.
      const facts: Fact[] = Array.from({ length: random.below(12) }, (_, index) => ({
        path: [label(), label(), label()],
        value: Buffer.from(`secret ${index};`),
      }));
      const tree = new HashTree(facts);
      const known = facts.length > 0 && random.oneIn(2) ? facts[random.below(facts.length)]?.path : undefined;
      const asked = [known ?? [label(), label(), label()], [label(), label(), label()]];
      const witness = witnessOf(tree, asked);
      const read = treeOf(decodeCbor(witness));
      assert.equal(reconstruct(read).toString('hex'), Buffer.from(tree.rootHash).toString('hex'));
      const agents = agentsTree(witness);
      for (const path of asked) {
        const fact = facts.findLast((each) =>
          Buffer.concat(each.path.map(framed)).equals(Buffer.concat(path.map(framed))),
        );
        const result = lookup(read, path);
        const theirs = lookup_path([...path], agents);
        if (fact === undefined) {
          absent++;
          assert.equal(result, 'absent');
          assert.ok(isShort ? theirs.status === LookupPathStatus.Absent : theirs.status !== LookupPathStatus.Found);
        } else {
          found++;
          assert.deepEqual(result, fact.value);
          if (theirs.status === LookupPathStatus.Found) assert.deepEqual(Buffer.from(theirs.value), fact.value);
          else assert.ok(!isShort, theirs.status);
        }
      }
      // Values of others are hashes.
      const shown = Buffer.from(witness).toString('latin1');
      for (const { path, value } of facts) {
        const isAsked = asked.some((each) => Buffer.concat(each.map(framed)).equals(Buffer.concat(path.map(framed))));
        const isSame = asked.some((each) => lookup(read, each).toString() === value.toString());
        if (!isAsked && !isSame) assert.ok(!shown.includes(value.toString()));
      }
    }
    assert.ok(found > 1000 && absent > 1000, `${found} found, ${absent} absent`);
  });
});

/** Returns a label with its length, so that paths can be compared. */
function framed(label: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([label.length]), label]);
}

/** Returns the witness as the agent's own lookups take it. */
function agentsTree(witness: Uint8Array): AgentsTree {
  const convert = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.map(convert)
      : typeof value === 'bigint'
        ? Number(value)
        : new Uint8Array(value as Uint8Array);
  return convert(decodeCbor(witness)) as AgentsTree;
}
