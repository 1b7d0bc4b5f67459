/** Canisters count time in nanoseconds since 1970, the host in milliseconds. */
export const NS_PER_MS = 1_000_000;
/** A page of WebAssembly: heaps and stable memory grow by this many bytes. */
export const WASM_PAGE_BYTES = 65_536;
/** Smaller heaps count less than their size where memory for several is held at once. */
export const LARGE_HEAP_BYTES = 16 * 2 ** 20;
