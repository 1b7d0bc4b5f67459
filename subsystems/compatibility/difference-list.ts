/** Largest number of entries in one list of a report: an interface of a mebibyte may differ in each of its parts. */
const LISTED_ENTRIES_MAX = 200;

export class DifferenceList<T> {
  readonly #entries: T[] = [];
  readonly #more: (count: number) => T;
  #left = 0;

  /** `more` makes the last entry of a list that was cut. */
  constructor(more: (count: number) => T) {
    this.#more = more;
  }

  add(entry: () => T): void {
    if (this.#entries.length < LISTED_ENTRIES_MAX) this.#entries.push(entry());
    else this.#left++;
  }

  toArray(): readonly T[] {
    return this.#left === 0 ? this.#entries : [...this.#entries, this.#more(this.#left)];
  }
}

/** Returns the text that replaces the entries that were cut. */
export function moreText(count: number): string {
  return `… and ${count} more`;
}
