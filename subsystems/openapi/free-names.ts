/** Unique names: if a name is taken, the next use gets a number appended. */
export class FreeNames {
  readonly #taken = new Set<string>();
  /** The number to try next for each wanted name: thousands may want the same. */
  readonly #numbers = new Map<string, number>();

  /** Returns the name itself if it is free, otherwise `name_2`, `name_3` …. */
  take(wanted: string): string {
    let name = wanted;
    let number = this.#numbers.get(wanted) ?? 2;
    for (; this.#taken.has(name); number++) name = `${wanted}_${number}`;
    this.#numbers.set(wanted, number);
    this.#taken.add(name);
    return name;
  }
}
