/** Signatures of BLS12-381 in G1, by arithmetic in WebAssembly: 6 ms of BigInt are 0.9 here (ADR 133). */
import { putHash } from './map-to-curve.ts';
import { compressed, multiplyPoint, pointRoom } from './points.ts';

const point = pointRoom();

/** Returns the signature of a message, 48 bytes, by a secret of 32 that is below the group's order and not 0. */
export function signatureOf(message: Uint8Array, secret: Uint8Array): Uint8Array {
  putHash(point, message);
  multiplyPoint(point, secret);
  return compressed(point);
}
