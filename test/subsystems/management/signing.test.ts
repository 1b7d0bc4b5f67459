import assert from 'node:assert/strict';
import { createHash, createHmac, hkdfSync } from 'node:crypto';
import { describe, test } from 'node:test';
import { ed25519 } from '@noble/curves/ed25519.js';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import fc, { cases } from '../../support/properties.ts';
import { Ed25519Tree } from '../../../subsystems/management/keys/ed25519-tree.ts';
import { Secp256k1Tree, signBip340 } from '../../../subsystems/management/keys/secp256k1-tree.ts';
import { ARGUMENT_VALUES_MAX } from '../../../subsystems/management/argument-values.ts';
import { idOf } from './fake-host.ts';
import { base64, bytesOf, ManagementBench, OWNER, text } from './management-bench.ts';

const A = { sender: idOf(1n), senderIsCanister: true };
const B = { sender: idOf(2n), senderIsCanister: true };
const HASH = createHash('sha256').update('message').digest();
const ECDSA = { curve: { secp256k1: null }, name: 'dfx_test_key' };
const BIP340 = { algorithm: { bip340secp256k1: null }, name: 'key_1' };
const ED25519 = { algorithm: { ed25519: null }, name: 'test_key_1' };

interface PublicKey {
  readonly public_key: string;
  readonly chain_code: string;
}
interface Signed {
  readonly signature: string;
}

const path = (...elements: readonly string[]) => elements.map(base64);

/** One of the three kinds of keys, with ways to get one, to sign and to verify. */
const KINDS = [
  {
    name: 'ecdsa',
    publicKey: 'ecdsa_public_key',
    sign: 'sign_with_ecdsa',
    key_id: ECDSA,
    message: { message_hash: base64(HASH) },
    bytes: 33,
    verify: (signature: Uint8Array, key: Uint8Array) => secp256k1.verify(signature, HASH, key, { prehash: false }),
  },
  {
    name: 'bip340',
    publicKey: 'schnorr_public_key',
    sign: 'sign_with_schnorr',
    key_id: BIP340,
    message: { message: base64('any length of message') },
    bytes: 33,
    verify: (signature: Uint8Array, key: Uint8Array) =>
      schnorr.verify(signature, Buffer.from('any length of message'), key.subarray(1)),
  },
  {
    name: 'ed25519',
    publicKey: 'schnorr_public_key',
    sign: 'sign_with_schnorr',
    key_id: ED25519,
    message: { message: base64('') },
    bytes: 32,
    verify: (signature: Uint8Array, key: Uint8Array) => ed25519.verify(signature, new Uint8Array(0), key),
  },
] as const;

describe('keys and signatures', () => {
  for (const { name, publicKey, sign, key_id, message, bytes, verify } of KINDS) {
    test(`${name}: a signature is valid for the sender's own key and path, and for no other`, async () => {
      const bench = new ManagementBench();
      const keyOf = async (derivation_path: readonly string[], from = A) => {
        const key = await bench.ok<PublicKey>(publicKey, { canister_id: null, derivation_path, key_id }, from);
        assert.equal(bytesOf(key.chain_code).length, 32);
        return bytesOf(key.public_key);
      };
      for (const derivation_path of [path(), path('a'), path('a', 'b'), path('', 'a', '')]) {
        const { signature } = await bench.ok<Signed>(sign, { ...message, derivation_path, key_id }, A);
        const key = await keyOf(derivation_path);
        assert.equal(key.length, bytes);
        assert.equal(bytesOf(signature).length, 64);
        assert.ok(verify(bytesOf(signature), key));
        assert.ok(!verify(bytesOf(signature), await keyOf(derivation_path, B)));
        assert.ok(!verify(bytesOf(signature), await keyOf([...derivation_path, base64('z')])));
      }
    });

    test(`${name}: keys differ by canister, path and name, and not by who asks`, async () => {
      const bench = new ManagementBench();
      const ask = async (argument: object, from = A) =>
        (await bench.ok<PublicKey>(publicKey, { canister_id: null, derivation_path: [], key_id, ...argument }, from))
          .public_key;
      const keys = [
        await ask({}),
        await ask({}, B),
        await ask({ derivation_path: path('a') }),
        await ask({ derivation_path: path('b') }),
        await ask({ derivation_path: path('a', 'b') }),
        await ask({ derivation_path: path('ab') }),
        await ask({ key_id: { ...key_id, name: key_id.name === 'key_1' ? 'test_key_1' : 'key_1' } }),
      ];
      assert.equal(new Set(keys).size, keys.length);
      assert.equal(await ask({ canister_id: text(A.sender) }, B), keys[0]);
    });

    test(`${name}: unknown names, long paths and wrong messages are refused`, async () => {
      const bench = new ManagementBench();
      const good = { derivation_path: [], key_id };
      for (const [method, rest] of [
        [publicKey, {}],
        [sign, message],
      ] as const) {
        const unknown = { ...good, ...rest, key_id: { ...key_id, name: 'key_2' } };
        const { code, message: reason } = await bench.refused(method, unknown, A);
        assert.equal(code, 4);
        assert.match(reason, /there is no key "key_2": use dfx_test_key, test_key_1, key_1/);
        const long = { ...good, ...rest, derivation_path: Array.from({ length: 256 }, () => '') };
        assert.match((await bench.refused(method, long, A)).message, /256 elements: at most 255/);
        const wide = { ...good, ...rest, derivation_path: [base64(new Uint8Array(70_000))] };
        assert.equal((await bench.refused(method, wide, A)).code, 4);
        await bench.ok(method, { ...good, ...rest, derivation_path: Array.from({ length: 255 }, () => '') }, A);
      }
    });
  }

  test('a path of as many elements as an argument has room for is refused before they are looked at', async () => {
    const bench = new ManagementBench();
    const argument = (elements: number) => ({
      canister_id: null,
      derivation_path: Array(elements).fill(''),
      key_id: ECDSA,
    });
    // Values besides the elements: two of the record, one of the key.
    const most = ARGUMENT_VALUES_MAX - 3;
    assert.match((await bench.refused('ecdsa_public_key', argument(most), A)).message, /65533 elements: at most 255/);
    assert.match(
      (await bench.refused('ecdsa_public_key', argument(most + 1), A)).message,
      /IC0408: the argument has more than 65536 values/,
    );
    assert.match((await bench.refused('ecdsa_public_key', argument(1_000_000), A)).message, /more than 65536 values/);
  });

  test('the same seed gives the same keys, another one others', async () => {
    const keyOf = async (seed: Uint8Array | undefined) => {
      const argument = { derivation_path: [], key_id: ECDSA };
      return (await new ManagementBench({ seed }).ok<PublicKey>('ecdsa_public_key', argument, A)).public_key;
    };
    assert.equal(await keyOf(Buffer.alloc(32, 1)), await keyOf(Buffer.alloc(32, 1)));
    assert.notEqual(await keyOf(Buffer.alloc(32, 1)), await keyOf(Buffer.alloc(32, 2)));
    assert.notEqual(await keyOf(undefined), await keyOf(Buffer.alloc(32, 1)));
  });

  test('no cycles are taken', async () => {
    const bench = new ManagementBench();
    const argument = { message_hash: base64(HASH), derivation_path: [], key_id: ECDSA };
    assert.equal((await bench.paid('sign_with_ecdsa', argument, { ...A, cycles: 30n })).refunded, 30n);
  });

  test('a hash has 32 bytes, and only BIP-340 knows aux', async () => {
    const bench = new ManagementBench();
    const ecdsa = { message_hash: base64(HASH.subarray(1)), derivation_path: [], key_id: ECDSA };
    assert.match((await bench.refused('sign_with_ecdsa', ecdsa, A)).message, /31 bytes: 32 are needed/);
    const aux = { bip341: { merkle_root_hash: base64(HASH) } };
    const edwards = { message: '', derivation_path: [], key_id: ED25519, aux };
    assert.equal((await bench.refused('sign_with_schnorr', edwards, A)).code, 4);
    const short = { message: '', derivation_path: [], key_id: BIP340, aux: { bip341: { merkle_root_hash: 'AAAA' } } };
    assert.match((await bench.refused('sign_with_schnorr', short, A)).message, /0 or 32/);
  });

  test('with a merkle root the signature is that of the taproot output key', async () => {
    const bench = new ManagementBench();
    const { Point } = secp256k1;
    // Keys of either parity, with and without scripts.
    for (const element of ['a', 'b', 'c', 'd']) {
      const place = { derivation_path: path(element), key_id: BIP340 };
      const { public_key } = await bench.ok<PublicKey>('schnorr_public_key', place, A);
      const internal = schnorr.utils.lift_x(
        BigInt(`0x${Buffer.from(bytesOf(public_key).subarray(1)).toString('hex')}`),
      );
      for (const root of [HASH, new Uint8Array(0)]) {
        const aux = { bip341: { merkle_root_hash: base64(root) } };
        const { signature } = await bench.ok<Signed>('sign_with_schnorr', { ...place, message: base64('m'), aux }, A);
        const tweak = schnorr.utils.taggedHash('TapTweak', bytesOf(public_key).subarray(1), root);
        const output = internal.add(Point.BASE.multiply(BigInt(`0x${Buffer.from(tweak).toString('hex')}`)));
        assert.ok(schnorr.verify(bytesOf(signature), Buffer.from('m'), output.toBytes(true).subarray(1)));
      }
    }
  });
});

describe('key trees', () => {
  test('public keys follow from the parent’s public key and chain code alone, as in BIP-32', () => {
    const tree = new Secp256k1Tree(Buffer.alloc(64, 3));
    // BIP-32: HMAC-SHA512(chain code, key ‖ index); the left half is the offset.
    const index = Buffer.from([0, 0, 0, 1]);
    const digest = createHmac('sha512', tree.master.chainCode).update(tree.master.publicKey).update(index).digest();
    const offset = secp256k1.Point.BASE.multiply(BigInt(`0x${digest.subarray(0, 32).toString('hex')}`));
    const child = tree.child(tree.master, index);
    assert.deepEqual(child.publicKey, secp256k1.Point.fromBytes(tree.master.publicKey).add(offset).toBytes(true));
    assert.deepEqual(Buffer.from(child.chainCode), digest.subarray(32));
  });

  test('BIP-340 signatures are those of @noble/curves, for the same chance', () => {
    const tree = new Secp256k1Tree(Buffer.alloc(64, 4));
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 100 }),
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        (message, chance) => {
          const key = tree.child(tree.master, chance);
          const secret = Buffer.from(key.secret.toString(16).padStart(64, '0'), 'hex');
          assert.deepEqual(
            Buffer.from(signBip340(key, message, chance)),
            Buffer.from(schnorr.sign(message, secret, chance)),
          );
        },
      ),
      { numRuns: cases(30) },
    );
  });

  test('Ed25519 children follow from HKDF over the parent’s public key', () => {
    const tree = new Ed25519Tree(Buffer.alloc(64, 3));
    const material = Buffer.concat([tree.master.publicKey, OWNER]);
    const okm = Buffer.from(hkdfSync('sha512', material, tree.master.chainCode, 'Ed25519', 96));
    const { Point } = ed25519;
    const tweak = BigInt(`0x${okm.subarray(0, 64).toString('hex')}`) % Point.Fn.ORDER;
    const child = tree.child(tree.master, OWNER);
    const expected = Point.fromBytes(tree.master.publicKey).add(Point.BASE.multiply(tweak));
    assert.deepEqual(Buffer.from(child.publicKey), Buffer.from(expected.toBytes()));
    assert.deepEqual(Buffer.from(child.chainCode), okm.subarray(64));
  });
});
