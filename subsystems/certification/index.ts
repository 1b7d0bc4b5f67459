/**
 * Certification as on the Internet Computer: CBOR with quotas, hashes of structured data, hash trees with witnesses,
 * and certificates that the host's own root key signs, in rounds. Clients verify them against the root key that
 * `GET /api/v2/status` names; they vouch for this host and for nobody else.
 */
export { BlsVerifier } from './bls-verifier.ts';
export { type CborMap, type CborValue, decodeCbor } from './cbor-reader.ts';
export { CborWriter } from './cbor-writer.ts';
export { CertificateRounds } from './certificate-rounds.ts';
export { CertificateSigner, type HostIdentity, principalOfKey } from './certificate-signer.ts';
export { type Fact, type Path, separated } from './hash-tree.ts';
export { keptSecret, type SecretService, type SecretStorage } from './kept-secret.ts';
export { QuerySignatures } from './query-signatures.ts';
export { hashInTurns, hashOfMap, leb128 } from './representation-hash.ts';
export { Witness } from './witness-reader.ts';
