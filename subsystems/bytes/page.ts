/** The host counts, saves and stores memory in pages of so many bytes; a page of WebAssembly has 16 of them. */
export const PAGE_BYTES = 4096;
