/** The empty array: what is absent, or has no bytes. Nobody hands its buffer over to another thread. */
export const NO_BYTES: Uint8Array<ArrayBuffer> = new Uint8Array(0);
