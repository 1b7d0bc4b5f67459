/**
 * Certificates of random rounds, read by a verifier that was written from the specification, and beside it by the
 * agents' own decoder and lookups: what a client asked for is there or proven absent, what others asked for in the same
 * round is neither shown nor denied.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { Cbor, type HashTree, lookup_path, LookupPathStatus } from 'icp-core-6/agent';
import { systemClock } from '../../../kernel/index.ts';
import { factsOfRequest } from '../../../subsystems/agents/answers.ts';
import { CertificateRounds, type Fact, type Path } from '../../../subsystems/certification/index.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import { type Found, lookup, reconstruct, type Tree, treeOf } from './specified-tree.ts';

const ROUNDS = 500;
const ASKED_MAX = 40;
const FACTS = ['status', 'reply', 'reject_code', 'reject_message', 'error_code'];

type Random = ReturnType<typeof seeded>;

/** A client's question, and the truth. */
interface Asked {
  readonly facts: readonly Fact[];
  readonly paths: readonly Path[];
  /** Every path that it may look up. */
  readonly looked: readonly Path[];
}

const label = (text: string): Buffer => Buffer.from(text);
const drawn = (random: Random, length: number): Buffer => Buffer.from(Array.from({ length }, () => random.below(256)));

/** Draws the status of a request that was replied to, rejected, is under way, or unknown. */
function requestOf(random: Random): Asked {
  const id = drawn(random, 32);
  const kind = random.below(4);
  const secret = `secret ${drawn(random, 12).toString('hex')}`;
  const rejection = { code: 1 + random.below(5), message: secret, errorCode: `IC0${random.below(1000)}` };
  const result = [Buffer.from(secret), rejection, 'processing' as const, undefined][kind];
  const facts = result === undefined ? [] : factsOfRequest(id, result);
  const path = [label('request_status'), id];
  return { facts, paths: [path], looked: [...FACTS, 'nothing'].map((name) => [...path, label(name)]) };
}

/** Draws sections of a canister, some of which are not there. */
function sectionsOf(random: Random): Asked {
  const id = drawn(random, 10);
  const nameOf = (): Buffer => Buffer.from(Array.from({ length: 1 + random.below(3) }, () => 97 + random.below(4)));
  const below = (name: Uint8Array): Path => [label('canister'), id, label('metadata'), name];
  const facts = new Map<string, Fact>();
  for (let count = random.below(8); count > 0; count--) {
    const path = below(nameOf());
    facts.set(textOf(path), { path, value: label(`secret ${drawn(random, 12).toString('hex')}`) });
  }
  const paths = [...facts.values()].filter(() => random.oneIn(2)).map(({ path }) => path);
  for (let count = 1 + random.below(3); count > 0; count--) paths.push(below(nameOf()));
  return { facts: [...facts.values()], paths, looked: paths };
}

const textOf = (path: Path): string => path.map((each) => Buffer.from(each).toString('hex')).join('/');

interface Read {
  readonly tree: Tree;
  readonly agents: HashTree;
  readonly bytes: Buffer;
}

/** Decodes as agents do, and checks that the tree has the root hash that was signed. */
function read(certificate: Uint8Array): Read {
  // Decoding a Buffer would return views, which the agents' lookups read wrongly.
  const plain = new Uint8Array(certificate);
  const { tree, signature } = Cbor.decode<{ tree: HashTree; signature: Uint8Array }>(plain);
  const specified = treeOf(tree as unknown as Parameters<typeof treeOf>[0]);
  assert.deepEqual(Buffer.from(signature), signatureOf(reconstruct(specified)));
  return { tree: specified, agents: tree, bytes: Buffer.from(certificate) };
}

/** Stands for the signature, which other tests verify: rounds of one signature take 4 ms each. */
function signatureOf(rootHash: Uint8Array): Buffer {
  const message = Buffer.concat([Buffer.of(13), label('ic-state-root'), rootHash]);
  return createHash('sha384').update(message).digest();
}

const tally = { found: 0, absent: 0, foreign: 0, 'agreed by agents': 0, 'changed bytes': 0 };

/** Compares both readers with the truth at a path. Agents may call unknown what is proven absent (ADR 109). */
function compare({ tree, agents }: Read, path: Path, truth: Uint8Array | 'absent'): void {
  const found: Found = lookup(tree, path);
  const theirs = lookup_path([...path], agents);
  if (truth === 'absent') {
    assert.equal(found, 'absent', textOf(path));
    assert.notEqual(theirs.status, LookupPathStatus.Found);
    tally.absent++;
    if (theirs.status === LookupPathStatus.Absent) tally['agreed by agents']++;
  } else {
    assert.deepEqual(found, Buffer.from(truth), textOf(path));
    tally.found++;
    if (theirs.status !== LookupPathStatus.Found) return;
    assert.deepEqual(Buffer.from(theirs.value), Buffer.from(truth));
    tally['agreed by agents']++;
  }
}

/** Checks that a foreign request, or section, of the same round is hidden. */
function expectHidden({ tree, agents, bytes }: Read, { facts }: Asked): void {
  for (const { path, value } of facts) {
    assert.equal(lookup(tree, path), 'unknown', textOf(path));
    assert.notEqual(lookup_path([...path], agents).status, LookupPathStatus.Found);
    if (value.length > 16) assert.ok(!bytes.includes(value), textOf(path));
    tally.foreign++;
  }
}

/** Changes one byte: the certificate is no CBOR of a tree any more, says the same, or is not believed. */
function expectSealed(random: Random, { bytes, tree }: Read): void {
  const changed = Buffer.from(bytes);
  const at = random.below(changed.length);
  changed[at] = (changed[at] ?? 0) ^ (1 << random.below(8));
  tally['changed bytes']++;
  let other: Read;
  try {
    other = read(changed);
  } catch {
    return;
  }
  assert.deepEqual(other.tree, tree, `byte ${at}`);
}

test('10,000 random witnesses: found, absent, of foreign senders, with pruned siblings', async () => {
  const seeds = new ProofSeeds(ROUNDS);
  let witnesses = 0;
  for (const seed of seeds) {
    const random = seeded(seed);
    const signer = { sign: (message: Uint8Array) => Promise.resolve(signatureOf(message.subarray(14))) };
    const rounds = new CertificateRounds(signer, systemClock);
    const all = Array.from({ length: 1 + random.below(ASKED_MAX) }, () =>
      random.oneIn(3) ? sectionsOf(random) : requestOf(random),
    );
    const certificates = await Promise.all(all.map(({ facts, paths }) => rounds.certify(facts, paths)));
    for (const [index, certificate] of certificates.entries()) {
      const its = read(certificate);
      const asked = all[index] ?? assert.fail();
      for (const path of asked.looked) {
        const fact = asked.facts.find((each) => textOf(each.path) === textOf(path));
        compare(its, path, fact?.value ?? 'absent');
      }
      const other = all[random.below(all.length)] ?? assert.fail();
      if (other !== asked) expectHidden(its, other);
      expectSealed(random, its);
      witnesses++;
    }
  }
  seeds.saw({ witnesses, ...tally });
  for (const [what, count] of Object.entries(tally)) assert.ok(count > seeds.count, `${count} ${what}`);
  if (!seeds.isLong) assert.ok(witnesses >= 10_000, `${witnesses} witnesses`);
});
