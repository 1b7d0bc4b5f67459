/**
 * Content of payloads: words that depend on their position and on their owner, so that any loss, duplication, move or
 * mix-up shows. Each byte is ASCII, so payloads are also texts. The ledger makes and checks the same words in wasm.
 */
export const SEED_FACTOR = 0x85ebca6b | 0;
export const WORD_FACTOR = 0x9e3779b1 | 0;
export const WORD_MASK = 0x7f7f7f7f;
export const SUM_FACTOR = 31;

/** Roles of payloads, each with the number that distinguishes its seed. */
export const ROLES = { argument: 0, reply: 1, call: 2, answer: 3, reject: 4, heap: 5, stable: 6, debug: 7 } as const;
export type Role = keyof typeof ROLES;

/** Returns the seed of a message's payload. */
export function payloadSeed(number: number, role: Role): number {
  return number * Object.keys(ROLES).length + ROLES[role];
}

/** Returns the number of the message to which a payload with this seed belongs. */
export function payloadNumber(seed: number): number {
  return Math.floor(seed / Object.keys(ROLES).length);
}

export function payload(seed: number, bytes: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(bytes / 4));
  const base = Math.imul(seed, SEED_FACTOR);
  for (let index = 0; index < words.length; index++) words[index] = Math.imul(base + index, WORD_FACTOR) & WORD_MASK;
  return new Uint8Array(words.buffer, 0, bytes);
}

/** Returns the sum of all words; missing bytes of the last one are zeros. */
export function payloadSum(bytes: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 4) {
    const word =
      (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24);
    sum = (Math.imul(sum, SUM_FACTOR) + word) | 0;
  }
  return sum >>> 0;
}
