/** What the browser remembers, where it may: with storage turned off for the site, reading it throws. */
type Store = 'localStorage' | 'sessionStorage';

export function recall(store: Store, key: string): string | undefined {
  try {
    return window[store].getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Undefined: forget it. */
export function remember(store: Store, key: string, value: string | undefined): void {
  try {
    if (value === undefined) window[store].removeItem(key);
    else window[store].setItem(key, value);
  } catch {
    // Then it is asked for again.
  }
}
