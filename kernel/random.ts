import { randomFillSync } from 'node:crypto';
import { defineCapability } from './capability.ts';

/** Source of randomness, so that tests and replay can replace it. */
export interface Random {
  /** Returns `length` fresh random bytes. */
  bytes(length: number): Uint8Array;
}
export const Random = defineCapability<Random>('random');

/** The operating system's generator. */
export const systemRandom: Random = { bytes: (length) => randomFillSync(new Uint8Array(length)) };
