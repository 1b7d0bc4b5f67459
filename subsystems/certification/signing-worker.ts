/** The thread that signs: one request, one answer. A signature takes some milliseconds, which no other thread has. */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { serveJobs } from '../threads/index.ts';
import type { SigningRequest } from './certificate-signer.ts';

const DOMAIN = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_';
const { shortSignatures } = bls12_381;

/** Returns the compressed signature of the message, or without one the compressed public key. */
function answerTo({ secret, message }: SigningRequest): Uint8Array {
  if (message === undefined) return shortSignatures.getPublicKey(secret).toBytes(true);
  return shortSignatures.sign(shortSignatures.hash(message, DOMAIN), secret).toBytes(true);
}

serveJobs(answerTo);
