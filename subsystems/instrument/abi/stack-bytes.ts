/**
 * Bounds on V8's stack for a guest's stack (`metering/guest-stack.ts` keeps frames within them), for code that sizes
 * threads.
 */

/** Largest number of bytes of V8's stack for one byte of the guest's. */
export const NATIVE_PER_GUEST = 64;
/** Bytes for a system call that runs on top of a message, and the same again for the frames below it in a thread. */
const HOST_BYTES = 2 ** 20;

/**
 * Returns the bytes of V8's stack that a message with a guest stack of `wasmStackBytes` may use, on whichever stack it
 * runs.
 */
export function messageStackBytes(wasmStackBytes: number): number {
  return wasmStackBytes * NATIVE_PER_GUEST + HOST_BYTES;
}

/**
 * Returns the stack (`resourceLimits.stackSizeMb`, in megabytes) of a thread that executes such messages on its own
 * stack.
 */
export function threadStackMb(wasmStackBytes: number): number {
  return Math.ceil((messageStackBytes(wasmStackBytes) + HOST_BYTES) / 2 ** 20);
}
