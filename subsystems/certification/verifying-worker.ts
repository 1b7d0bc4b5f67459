/** The thread that verifies: one signature a request, some 30 ms each. */
import { bls12_381 } from '@noble/curves/bls12-381.js';
import { serveJobs } from '../threads/index.ts';
import type { VerifyingRequest } from './bls-verifier.ts';

const DOMAIN = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_';
const { shortSignatures } = bls12_381;

/** Returns true for a right signature; false also for bytes that are no points of the curve, or of no subgroup. */
function verified({ point, message, signature }: VerifyingRequest): boolean {
  try {
    const key = bls12_381.G2.Point.fromBytes(point);
    key.assertValidity();
    const signed = shortSignatures.Signature.fromBytes(signature);
    signed.assertValidity();
    return shortSignatures.verify(signed, shortSignatures.hash(message, DOMAIN), key);
  } catch {
    return false;
  }
}

serveJobs(verified);
