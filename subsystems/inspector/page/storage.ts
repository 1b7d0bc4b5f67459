/** Values that the browser remembers, if it may: reading throws if storage is turned off for the site. */
type Store = 'localStorage' | 'sessionStorage';

export function recall(store: Store, key: string): string | undefined {
  try {
    return globalThis[store].getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Stores the value; undefined removes it. */
export function remember(store: Store, key: string, value: string | undefined): void {
  try {
    if (value === undefined) globalThis[store].removeItem(key);
    else globalThis[store].setItem(key, value);
  } catch {
    // Storage is turned off: the value is asked for again next time.
  }
}
