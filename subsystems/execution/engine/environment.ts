/**
 * The environment variables that canisters see: their own, and those that every canister of the host has.
 * Executor thread: immutable, shared by the canisters of the thread.
 */

export interface EnvironmentVariable {
  /** UTF-8. */
  readonly name: Uint8Array;
  readonly value: Uint8Array;
}

/** By name, and the same in the order of the names' bytes; made when somebody looks. */
export class Environment {
  readonly #texts: ReadonlyMap<string, string>;
  #byName: ReadonlyMap<string, EnvironmentVariable> | undefined;
  #inOrder: readonly EnvironmentVariable[] | undefined;

  constructor(texts: ReadonlyMap<string, string>) {
    this.#texts = texts;
  }

  /** `own` over what all have. Those that have none of their own share one object: there may be thousands of each. */
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
