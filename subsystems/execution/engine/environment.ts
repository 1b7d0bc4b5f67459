/**
 * Environment variables that canisters see: their own, and those that every canister of the host has. The host's root
 * key travels with them, as all canisters have it alike and logs have to know it.
 * Executor thread: immutable, shared by the canisters of the thread.
 */
import { createHash } from 'node:crypto';
import { ROOT_KEY_NAME } from '../wire/root-key-name.ts';

/** Bytes of a root key, DER, and of the principal of its subnet. */
export const ROOT_KEY_BYTES = 133;
export const SUBNET_ID_BYTES = 29;

/**
 * In place of the root key of a host that has none: the form that programs parse (DER, algorithm and curve of BLS keys)
 * with zeros as the key, which no signature verifies against.
 */
const NO_ROOT_KEY_PREFIX = '308182301d060d2b0601040182dc7c0503010201060c2b0601040182dc7c05030201036100';
const NO_ROOT_KEY: Uint8Array = new Uint8Array(Buffer.from(NO_ROOT_KEY_PREFIX.padEnd(2 * ROOT_KEY_BYTES, '0'), 'hex'));

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
  #rootKey: Uint8Array | undefined;
  #subnetId: Uint8Array | undefined;

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

  /** Returns these variables without the root key. */
  withoutRootKey(): Environment {
    return this.#hasRootKey ? new Environment(new Map([...this.#texts].filter(([name]) => isVariable(name)))) : this;
  }

  get size(): number {
    return this.#texts.size - (this.#hasRootKey ? 1 : 0);
  }

  get #hasRootKey(): boolean {
    return this.#texts.has(ROOT_KEY_NAME);
  }

  /** DER of the host's root key. */
  get rootKey(): Uint8Array {
    const hex = this.#texts.get(ROOT_KEY_NAME);
    return (this.#rootKey ??= hex === undefined ? NO_ROOT_KEY : new Uint8Array(Buffer.from(hex, 'hex')));
  }

  /** The subnet's principal, derived from its key as a network does it: SHA-224 of the DER key and the byte 2. */
  get subnetId(): Uint8Array {
    return (this.#subnetId ??= new Uint8Array([...createHash('sha224').update(this.rootKey).digest(), 2]));
  }

  /** Variables by name, and the root key. */
  get texts(): ReadonlyMap<string, string> {
    return this.#texts;
  }

  get(name: string): EnvironmentVariable | undefined {
    return this.#variables.get(name);
  }

  has(name: string): boolean {
    return isVariable(name) && this.#texts.has(name);
  }

  at(index: number): EnvironmentVariable | undefined {
    this.#inOrder ??= [...this.#variables.values()].sort((a, b) => Buffer.compare(a.name, b.name));
    return this.#inOrder[index];
  }

  get #variables(): ReadonlyMap<string, EnvironmentVariable> {
    this.#byName ??= new Map(
      [...this.#texts]
        .filter(([name]) => isVariable(name))
        .map(([name, value]) => [name, { name: Buffer.from(name), value: Buffer.from(value) }]),
    );
    return this.#byName;
  }
}

function isVariable(name: string): boolean {
  return name !== ROOT_KEY_NAME;
}
