/**
 * The thread that signs: one request, one answer. A signature of the root key takes a millisecond, one of the node's 25
 * µs, which no other thread has.
 */
import type { KeyObject } from 'node:crypto';
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { serveJobs } from '../threads/index.ts';
import { signatureOf } from './curve/index.ts';
import { nodeKeyOf, nodeSignatures, type SigningRequest } from './certificate-signer.ts';

/** The node's key, which is the same in all requests. */
let node: KeyObject | undefined;

/** Returns the compressed signature of a message, without one the compressed public key; or the node's signatures. */
function answerTo(request: SigningRequest): Uint8Array {
  if ('hashes' in request) return nodeSignatures((node ??= nodeKeyOf(request.nodeKey)), request.hashes);
  const { secret, message } = request;
  if (message === undefined) return bls12_381.shortSignatures.getPublicKey(secret).toBytes(true);
  return signatureOf(message, secret);
}

serveJobs(answerTo);
