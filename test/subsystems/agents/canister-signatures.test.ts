/**
 * Senders for whom a canister signs. The trees are written out as the specification has them and signed with keys of
 * the test; certificates under the host's own key come from the host's own certifier.
 */
import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { suite, test, type TestContext } from 'node:test';
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { IC_ROOT_KEY as AGENTS_ROOT_KEY } from 'icp-core-6/agent';
import { systemClock } from '../../../kernel/index.ts';
import { CanisterSignatures } from '../../../subsystems/agents/canister-signatures.ts';
import { readEnvelope } from '../../../subsystems/agents/envelope.ts';
import { IC_ROOT_KEY } from '../../../subsystems/agents/ic-root-key.ts';
import { Senders } from '../../../subsystems/agents/senders.ts';
import {
  BlsVerifier,
  CertificateRounds,
  CertificateSigner,
  type CborValue,
  principalOfKey,
  separated,
} from '../../../subsystems/certification/index.ts';
import { reconstruct, treeOf } from '../certification/specified-tree.ts';
import { FIRST_ID, FIRST_TEXT, startWithActor } from './actor.ts';
import {
  cborOf,
  type Content,
  contentOf,
  delegationTo,
  derOfCanister,
  envelopeOf,
  newSigner,
  send,
} from './raw-agent.ts';

const { shortSignatures } = bls12_381;
const DOMAIN = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_';
const KEY_PREFIX = IC_ROOT_KEY.subarray(0, 37);
const II = Buffer.from('00000000000000070101', 'hex');
const SUBNET = Buffer.from('subnet of the test');
const SEED = Buffer.from('seed of a user');

interface BlsKey {
  readonly der: Buffer;
  sign(message: Uint8Array): Uint8Array;
}

function newBlsKey(): BlsKey {
  const secret = bls12_381.utils.randomSecretKey();
  return {
    der: Buffer.concat([KEY_PREFIX, shortSignatures.getPublicKey(secret).toBytes(true)]),
    sign: (message) => shortSignatures.sign(shortSignatures.hash(message, DOMAIN), secret).toBytes(true),
  };
}

const [ROOT, OTHER_ROOT, SUBNET_KEY] = [newBlsKey(), newBlsKey(), newBlsKey()];
const sha256 = (bytes: Uint8Array): Buffer => hash('sha256', bytes, 'buffer');
const text = (label: string): Buffer => Buffer.from(label);
const leaf = (value: Uint8Array): CborValue => [3n, value];
const at = (path: readonly Uint8Array[], tree: CborValue): CborValue =>
  path.reduceRight<CborValue>((inner, label) => [2n, label, inner], tree);
const fork = (left: CborValue, right: CborValue): CborValue => [1n, left, right];

function certificateBy(key: BlsKey, tree: CborValue, delegation?: CborValue): Uint8Array {
  const signature = key.sign(Buffer.concat([separated('ic-state-root'), reconstruct(treeOf(tree))]));
  const fields: [string, CborValue][] = [
    ['tree', tree],
    ['signature', signature],
  ];
  if (delegation !== undefined) fields.push(['delegation', delegation]);
  return cborOf(new Map(fields));
}

/** Parts of a signature that a test has otherwise. */
interface Changes {
  readonly root?: BlsKey;
  readonly subnetKey?: BlsKey;
  readonly type?: string | undefined;
  readonly ranges?: CborValue;
  readonly shards?: boolean;
  readonly canister?: Uint8Array;
  readonly seed?: Uint8Array;
  readonly mark?: Uint8Array;
  readonly data?: Uint8Array;
  readonly isOfRoot?: boolean;
  readonly isNested?: boolean;
}

/** Returns the delegation of the test's root to the test's subnet. */
function subnetDelegation({
  root = ROOT,
  type = 'system',
  ranges,
  shards = false,
  isNested = false,
}: Changes): CborValue {
  const list = cborOf(
    ranges ?? [[Buffer.from('00000000000000000101', 'hex'), Buffer.from('00000000000fffff0101', 'hex')]],
  );
  const [known, key] = [leaf(list), at([text('public_key')], leaf(SUBNET_KEY.der))];
  const kind = type === '' ? [0n] : at([text('type')], leaf(text(type)));
  const own = shards ? fork(key, kind) : fork(at([text('canister_ranges')], known), fork(key, kind));
  const subnet = at([text('subnet'), SUBNET], own);
  const tree = shards
    ? fork(at([text('canister_ranges'), SUBNET, Buffer.from('00000000000000000101', 'hex')], known), subnet)
    : subnet;
  const above = isNested ? certificateBy(root, tree, subnetDelegation({ root })) : certificateBy(root, tree);
  return new Map<string, CborValue>([
    ['subnet_id', SUBNET],
    ['certificate', above],
  ]);
}

function signatureOf(message: Uint8Array, changes: Changes = {}): Uint8Array {
  const { canister = II, seed = SEED, mark = Buffer.alloc(0), subnetKey = SUBNET_KEY, isOfRoot = false } = changes;
  const tree = fork(
    at([text('other')], [4n, randomBytes(32)]),
    at([text('sig'), sha256(seed), sha256(message)], leaf(mark)),
  );
  const data = changes.data ?? reconstruct(treeOf(tree));
  const state = at([text('canister'), canister, text('certified_data')], leaf(data));
  const certificate = isOfRoot
    ? certificateBy(changes.root ?? ROOT, state)
    : certificateBy(subnetKey, state, subnetDelegation(changes));
  return cborOf(
    new Map<string, CborValue>([
      ['certificate', certificate],
      ['tree', tree],
    ]),
  );
}

const canisterKey = (canister: Uint8Array = II, seed: Uint8Array = SEED): Buffer => derOfCanister(canister, seed);

function sendersOf(t: TestContext, own: Uint8Array, ic: Uint8Array | undefined): Senders {
  const verifier = new BlsVerifier();
  t.after(() => verifier.close());
  return new Senders(systemClock, new CanisterSignatures({ own, ic }, verifier));
}

const DER = canisterKey();
const callOf = (): Content => contentOf('call', FIRST_ID, 'inc', principalOfKey(DER));
const signerOf = (changes: Changes = {}): ReturnType<typeof newSigner> => ({
  der: DER,
  principal: principalOfKey(DER),
  sign: (message: Uint8Array) => signatureOf(message, changes),
});

async function check(senders: Senders, envelope: Content): Promise<void> {
  await senders.check(await readEnvelope(cborOf(envelope), 'call'), FIRST_ID);
}

suite('a canister signs for a sender', () => {
  test('the root key of the Internet Computer is the one that agents have', () => {
    assert.equal(Buffer.from(IC_ROOT_KEY).toString('hex'), AGENTS_ROOT_KEY);
  });

  test('by itself and in a chain, of a subnet with ranges of either place, and of the root subnet', async (t) => {
    const senders = sendersOf(t, OTHER_ROOT.der, ROOT.der);
    const session = newSigner();
    for (const changes of [{}, { shards: true }, { isOfRoot: true }]) {
      await check(senders, envelopeOf(callOf(), signerOf(changes)));
      const chain = [delegationTo(signerOf(changes), session)];
      await check(senders, envelopeOf(callOf(), session, signerOf(changes), chain));
    }
  });

  test('counts under the root that is trusted alone, and under the own one without a subnet', async (t) => {
    const [without, other] = [sendersOf(t, OTHER_ROOT.der, undefined), sendersOf(t, SUBNET_KEY.der, OTHER_ROOT.der)];
    for (const isOfRoot of [true, false])
      for (const senders of [without, other])
        await assert.rejects(check(senders, envelopeOf(callOf(), signerOf({ isOfRoot }))), /sender_sig is not the/);
    const own = sendersOf(t, ROOT.der, undefined);
    await check(own, envelopeOf(callOf(), signerOf({ isOfRoot: true })));
    await assert.rejects(check(own, envelopeOf(callOf(), signerOf())), /sender_sig is not the signature/);
  });

  test("counts if the host's own certifier has certified the canister's data", async (t) => {
    const signer = new CertificateSigner(randomBytes(32));
    t.after(() => signer.close());
    const rounds = new CertificateRounds(signer, systemClock);
    const senders = sendersOf(t, (await signer.identity()).rootKey, undefined);
    const content = callOf();
    const envelope = envelopeOf(content, signerOf());
    const { requestId } = await readEnvelope(cborOf(envelope), 'call');
    const message = Buffer.concat([separated('ic-request'), requestId]);
    const tree = at([text('sig'), sha256(SEED), sha256(message)], leaf(Buffer.alloc(0)));
    const path = [text('canister'), II, text('certified_data')];
    const certificate = await rounds.certify([{ path, value: reconstruct(treeOf(tree)) }], [path]);
    const signature: CborValue = new Map<string, CborValue>([
      ['certificate', certificate],
      ['tree', tree],
    ]);
    envelope.set('sender_sig', cborOf(signature));
    await check(senders, envelope);
  });

  test('what differs in one part is refused', async (t) => {
    const senders = sendersOf(t, OTHER_ROOT.der, ROOT.der);
    const foreign: CborValue = [
      [Buffer.from('00000000000000080101', 'hex'), Buffer.from('00000000000fffff0101', 'hex')],
    ];
    const cases: readonly Changes[] = [
      { root: OTHER_ROOT },
      { subnetKey: OTHER_ROOT },
      { type: '' },
      { type: 'cloud_engine' },
      { ranges: foreign },
      { ranges: foreign, shards: true },
      { ranges: [] },
      { ranges: 'all' },
      { ranges: [[II]] },
      { canister: FIRST_ID },
      { seed: text('another') },
      { mark: text('x') },
      { data: randomBytes(32) },
      { isNested: true },
      { isOfRoot: true, data: randomBytes(32) },
    ];
    for (const changes of cases)
      await assert.rejects(check(senders, envelopeOf(callOf(), signerOf(changes))), /sender_sig is not the signature/);
    const other = callOf();
    const envelope = envelopeOf(callOf(), signerOf());
    envelope.set('content', other);
    await assert.rejects(check(senders, envelope), /sender_sig is not the signature/);
  });

  test('more signatures than can wait are 503, and who needs none is served meanwhile', async (t) => {
    const server = await startWithActor(t, ['--trust-ic-root']);
    const path = `/api/v4/canister/${FIRST_TEXT}/call`;
    const point = ROOT.sign(text('something else'));
    // Everything about them is right but the last signature, which is looked at last.
    const forger = { der: ROOT.der, sign: () => point };
    const forged = Array.from({ length: 100 }, () => envelopeOf(callOf(), signerOf({ root: forger, isOfRoot: true })));
    let answered = 0;
    const asked = forged.map(async (envelope) => {
      const answer = await send(server, path, envelope);
      answered++;
      return answer;
    });
    const call = envelopeOf(contentOf('call', FIRST_ID, 'inc'));
    assert.equal((await send(server, path, call)).status, 200);
    assert.ok(answered < forged.length, 'they were not all looked at before');
    const answers = await Promise.all(asked);
    const busy = answers.filter(({ status }) => status === 503);
    assert.ok(busy.length > 0 && busy.length < forged.length, `${busy.length} were refused`);
    for (const each of busy) assert.equal(each.text, 'too many certificates are verified; try again later');
    assert.ok(answers.every(({ status }) => status === 503 || status === 403));
  });

  test('hostile bytes are 403 at /api, and the host serves on', async (t) => {
    const server = await startWithActor(t, ['--trust-ic-root']);
    const path = `/api/v4/canister/${FIRST_TEXT}/call`;
    const content = callOf();
    const deep = Buffer.concat([Buffer.alloc(2000, 0x81), Buffer.from([0])]);
    const good = signatureOf(text('another message'));
    const tree = (value: CborValue): Uint8Array =>
      cborOf(
        new Map<string, CborValue>([
          ['certificate', Buffer.alloc(0)],
          ['tree', value],
        ]),
      );
    const hostile: readonly Uint8Array[] = [
      Buffer.alloc(0),
      good,
      good.subarray(0, -1),
      deep,
      Buffer.from('bf', 'hex'),
      Buffer.from('9bffffffffffffffff', 'hex'),
      Buffer.alloc(64 * 1024 + 1, 0x80),
      cborOf(5n),
      cborOf(new Map()),
      tree([9n]),
      tree(['0']),
      tree([['0']]),
      tree([4n, Buffer.alloc(31)]),
      tree([2n, 'text', [0n]]),
      tree([1n, [0n]]),
      tree(at([text('sig'), sha256(SEED)], leaf(Buffer.alloc(0)))),
    ];
    for (const signature of hostile) {
      const envelope = envelopeOf(content, signerOf());
      envelope.set('sender_sig', signature);
      const { status, text: said } = await send(server, path, envelope);
      assert.deepEqual([status, said], [403, 'sender_sig is not the signature of this request']);
    }
    for (const key of [canisterKey(Buffer.alloc(0)), canisterKey(Buffer.alloc(30, 1)), DER.subarray(0, -1)]) {
      const { status, text: said } = await send(server, path, envelopeOf(content, { ...signerOf(), der: key }));
      assert.equal(status, 403);
      assert.match(said, /^sender_pubkey is no(t the key of the sender|.* canister key)/);
    }
    assert.equal((await send(server, path, envelopeOf(contentOf('call', FIRST_ID, 'inc')))).status, 200);
  });
});
