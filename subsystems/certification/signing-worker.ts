/** The thread that signs: one request, one answer. A signature takes a millisecond, which no other thread has. */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { serveJobs } from '../threads/index.ts';
import { signatureOf } from './curve/index.ts';
import type { SigningRequest } from './certificate-signer.ts';

/** Returns the compressed signature of the message, or without one the compressed public key. */
function answerTo({ secret, message }: SigningRequest): Uint8Array {
  if (message === undefined) return bls12_381.shortSignatures.getPublicKey(secret).toBytes(true);
  return signatureOf(message, secret);
}

serveJobs(answerTo);
