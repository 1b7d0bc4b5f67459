/** Names that stand for one thing each: where one is taken, the next gets a number behind it. */
export class FreeNames {
  readonly #taken = new Set<string>();
  /** By the name that was wanted, the number to try next: thousands may want the same. */
  readonly #numbers = new Map<string, number>();

  /** The name itself if it is free, else `name_2`, `name_3` …. */
  take(wanted: string): string {
    let name = wanted;
    let number = this.#numbers.get(wanted) ?? 2;
    for (; this.#taken.has(name); number++) name = `${wanted}_${number}`;
    this.#numbers.set(wanted, number);
    this.#taken.add(name);
    return name;
  }
}
