/** JavaScript Promise Integration, which TypeScript's library does not know yet (WebAssembly JS API, "JSPI"). */
declare namespace WebAssembly {
  /** An import that suspends the calling wasm, back to `promising`, while a promise that `imported` returned is pending. */
  const Suspending: new (imported: (...args: never[]) => unknown) => object;
  /** `exported` on a stack of its own: the promise resolves with its result, or rejects with its trap. */
  function promising<Args extends unknown[], Result>(
    exported: (...args: Args) => Result,
  ): (...args: Args) => Promise<Result>;
}
