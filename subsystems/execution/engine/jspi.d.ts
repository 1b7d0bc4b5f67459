/** JavaScript Promise Integration, which TypeScript's library does not know yet (WebAssembly JS API, "JSPI"). */
declare namespace WebAssembly {
  /**
   * Wraps an import. The wrapped import suspends the calling wasm, back to `promising`, while a promise that `imported`
   * returned is pending.
   */
  const Suspending: new (imported: (...args: never[]) => unknown) => object;
  /** Runs `exported` on a stack of its own: the promise resolves with the result, or rejects with the trap. */
  function promising<Args extends unknown[], Result>(
    exported: (...args: Args) => Result,
  ): (...args: Args) => Promise<Result>;
}
