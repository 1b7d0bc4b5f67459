/** Canisters count time in nanoseconds since 1970, the host in milliseconds. */
export const NS_PER_MS = 1_000_000;
/** A page of WebAssembly: heaps and stable memory grow by this many bytes. */
export const WASM_PAGE_BYTES = 65_536;
/** Smaller heaps count less than their size where memory for several is held at once. */
export const LARGE_HEAP_BYTES = 16 * 2 ** 20;

/** A deadline has 64 bits, and a double near the largest is one more. */
const TIMER_NS_MAX = 2n ** 64n - 1n;

/** Returns a timer, ms since 1970 or Infinity, in ns; 0: off. */
export function timerNsOf(timerMs: number): bigint {
  if (timerMs === Number.POSITIVE_INFINITY) return 0n;
  const ns = BigInt(Math.round(timerMs * NS_PER_MS));
  return ns > TIMER_NS_MAX ? TIMER_NS_MAX : ns;
}

/** Returns a timer in ms since 1970, some hundred ns off; Infinity: off. */
export function timerMsOf(timerNs: bigint): number {
  return timerNs === 0n ? Number.POSITIVE_INFINITY : Number(timerNs) / NS_PER_MS;
}
