/** What of V8's stack the guest's may come to (`metering/guest-stack.ts` keeps frames to it), for who sizes threads. */

/** Bytes of V8's stack for a byte of the guest's, at most. */
export const NATIVE_PER_GUEST = 64;
/** For a system call that runs on top of a message, and as much for what stands below it in a thread. */
const HOST_BYTES = 2 ** 20;

/** Bytes of V8's stack that one message may take whose guest stack is `wasmStackBytes`, on whichever stack it runs. */
export function messageStackBytes(wasmStackBytes: number): number {
  return wasmStackBytes * NATIVE_PER_GUEST + HOST_BYTES;
}

/** Megabytes of V8's stack (`resourceLimits.stackSizeMb`) for a thread that executes such messages on its own. */
export function threadStackMb(wasmStackBytes: number): number {
  return Math.ceil((messageStackBytes(wasmStackBytes) + HOST_BYTES) / 2 ** 20);
}
