import type { SchnorrKeyJson } from '../candid-types.ts';
import { toBlob, toBytes, toPrincipal } from '../candid-values.ts';
import type { DerivedKey } from '../keys/key-tree.ts';
import type { SigningAlgorithm } from '../keys/signing-keys.ts';
import type { Call, MethodContext, Methods } from '../method-context.ts';
import { REFUSE } from '../refusal.ts';

const HASH_BYTES = 32;
const AUXILIARY_BYTES = 32;
const PATH_ELEMENTS_MAX = 255;

/**
 * Methods for public keys, and for signatures with the sender's own keys. They cost no cycles, as
 * `ic0.cost_sign_with_…` says.
 */
export function signingMethods(
  context: MethodContext,
): Pick<Methods, 'ecdsa_public_key' | 'sign_with_ecdsa' | 'schnorr_public_key' | 'sign_with_schnorr'> {
  const derive = (algorithm: SigningAlgorithm, name: string, owner: Uint8Array, path: readonly string[]) =>
    context.keys.derive(algorithm, name, owner, elementsOf(path));
  return {
    async ecdsa_public_key({ canister_id: id, derivation_path: path, key_id: key }, call) {
      return publicKeyJson(await derive('ecdsa', key.name, ownerOf(id, call), path));
    },

    async sign_with_ecdsa({ message_hash: blob, derivation_path: path, key_id: key }, call) {
      const hash = toBytes(blob);
      if (hash.length !== HASH_BYTES)
        throw REFUSE.badArgument(`message_hash has ${hash.length} bytes: ${HASH_BYTES} are needed`);
      const derived = await derive('ecdsa', key.name, call.sender, path);
      const { signEcdsa } = await import('../keys/secp256k1-tree.ts');
      return { signature: toBlob(signEcdsa(derived, hash)) };
    },

    async schnorr_public_key({ canister_id: id, derivation_path: path, key_id: key }, call) {
      return publicKeyJson(await derive(algorithmOf(key), key.name, ownerOf(id, call), path));
    },

    async sign_with_schnorr({ message: blob, derivation_path: path, key_id: key, aux }, call) {
      const message = toBytes(blob);
      const algorithm = algorithmOf(key);
      const merkleRoot = aux?.bip341 === undefined ? undefined : toBytes(aux.bip341.merkle_root_hash);
      if (merkleRoot !== undefined && algorithm === 'ed25519')
        throw REFUSE.badArgument('aux is for bip340secp256k1 only: leave it out');
      if (merkleRoot !== undefined && merkleRoot.length !== 0 && merkleRoot.length !== HASH_BYTES)
        throw REFUSE.badArgument(`merkle_root_hash has ${merkleRoot.length} bytes: 0 or ${HASH_BYTES} are allowed`);
      const derived = await derive(algorithm, key.name, call.sender, path);
      if (algorithm === 'ed25519') {
        const { signEd25519 } = await import('../keys/ed25519-tree.ts');
        return { signature: toBlob(signEd25519(derived, message)) };
      }
      const { signBip340, tweakForTaproot } = await import('../keys/secp256k1-tree.ts');
      const signer = merkleRoot === undefined ? derived : tweakForTaproot(derived, merkleRoot);
      return { signature: toBlob(signBip340(signer, message, context.random.bytes(AUXILIARY_BYTES))) };
    },
  };
}

/** Decodes the elements, after checking their number. */
function elementsOf(path: readonly string[]): readonly Uint8Array[] {
  if (path.length > PATH_ELEMENTS_MAX)
    throw REFUSE.badArgument(
      `the derivation path has ${path.length} elements: at most ${PATH_ELEMENTS_MAX} are allowed`,
    );
  return path.map(toBytes);
}

/** Returns the owner of the key. Any canister's public key may be asked for, even of one that is not on this host. */
function ownerOf(id: string | null, call: Call): Uint8Array {
  return id === null ? call.sender : toPrincipal(id);
}

function algorithmOf({ algorithm }: SchnorrKeyJson): SigningAlgorithm {
  return algorithm.ed25519 === undefined ? 'bip340' : 'ed25519';
}

function publicKeyJson({ publicKey, chainCode }: DerivedKey) {
  return { public_key: toBlob(publicKey), chain_code: toBlob(chainCode) };
}
