/**
 * Of which sleeping canisters executors have said that they keep them: an entry may be out of date, and then whoever asks is told
 * so. Main thread; plain data.
 */
export class PackedHandles {
  readonly #hashOf = new Map<number, string>();
  /** Those that have a module, by its hash; none is ''. */
  readonly #ofModule = new Map<string, Set<number>>();

  add(handle: number, hash = ''): void {
    this.delete(handle);
    this.#hashOf.set(handle, hash);
    const handles = this.#ofModule.get(hash);
    if (handles === undefined) this.#ofModule.set(hash, new Set([handle]));
    else handles.add(handle);
  }

  /** Whether it was there. */
  delete(handle: number): boolean {
    const hash = this.#hashOf.get(handle);
    if (hash === undefined) return false;
    this.#hashOf.delete(handle);
    const handles = this.#ofModule.get(hash);
    handles?.delete(handle);
    if (handles?.size === 0) this.#ofModule.delete(hash);
    return true;
  }

  /** Executors have dropped a module, and with it what they kept of its canisters. */
  forget(hash: string): void {
    for (const handle of this.#ofModule.get(hash) ?? []) this.#hashOf.delete(handle);
    this.#ofModule.delete(hash);
  }
}
