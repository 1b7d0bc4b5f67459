/**
 * Environment variables that canisters see: their own, and those that every canister of the host has.
 * Executor thread: immutable, shared by the canisters of the thread.
 */

export interface EnvironmentVariable {
  /** UTF-8. */
  readonly name: Uint8Array;
  readonly value: Uint8Array;
}

/** Variables by name, and in the byte order of their names; both are built at the first look-up. */
export class Environment {
  readonly #texts: ReadonlyMap<string, string>;
  #byName: ReadonlyMap<string, EnvironmentVariable> | undefined;
  #inOrder: readonly EnvironmentVariable[] | undefined;

  constructor(texts: ReadonlyMap<string, string>) {
    this.#texts = texts;
  }

  /**
   * Returns `own` over these variables. Canisters without variables of their own share one object: there may be
   * thousands of both canisters and variables.
   */
  with(own: ReadonlyMap<string, string>): Environment {
    return own.size === 0 ? this : new Environment(new Map([...this.#texts, ...own]));
  }

  get size(): number {
    return this.#texts.size;
  }

  get texts(): ReadonlyMap<string, string> {
    return this.#texts;
  }

  get(name: string): EnvironmentVariable | undefined {
    return this.#variables.get(name);
  }

  has(name: string): boolean {
    return this.#texts.has(name);
  }

  at(index: number): EnvironmentVariable | undefined {
    this.#inOrder ??= [...this.#variables.values()].sort((a, b) => Buffer.compare(a.name, b.name));
    return this.#inOrder[index];
  }

  get #variables(): ReadonlyMap<string, EnvironmentVariable> {
    this.#byName ??= new Map(
      [...this.#texts].map(([name, value]) => [name, { name: Buffer.from(name), value: Buffer.from(value) }]),
    );
    return this.#byName;
  }
}
