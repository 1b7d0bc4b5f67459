/**
 * Canister ids: 8 bytes of a big-endian number, then 01 01 (an opaque principal). The numbers start where local
 * replicas start, so that no id collides with a mainnet canister that a program has hard-coded.
 */
const FIRST_NUMBER = 0x8000_0000_0010_0001n;
const ID_BYTES = 10;

/** The id of the `index`-th canister of this host, counted from 0. */
export function canisterId(index: number): Uint8Array {
  const id = new Uint8Array(ID_BYTES);
  new DataView(id.buffer).setBigUint64(0, FIRST_NUMBER + BigInt(index));
  id[8] = 1;
  id[9] = 1;
  return id;
}

export function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}
