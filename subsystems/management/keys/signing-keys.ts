import { hexOf } from '../../ic/index.ts';
import { hkdfSync } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { REFUSE } from '../refusal.ts';
import type { DerivedKey, KeyTree } from './key-tree.ts';

export type SigningAlgorithm = 'ecdsa' | 'bip340' | 'ed25519';

/** Names of keys that programs ask for; all of them mean the same key here. */
const KEY_NAMES: readonly string[] = ['dfx_test_key', 'test_key_1', 'key_1'];
/** Limit on the bytes of a path: indexes are hashed, but cached keys are looked up by them. */
const PATH_BYTES_MAX = 64 * 1024;
/** Each step takes some 0.2 ms; after this many steps other work gets its turn. */
const STEPS_PER_TURN = 16;
/** Programs sign with few keys again and again. */
const CACHED_KEYS_MAX = 256;
const CACHED_PATH_BYTES_MAX = 1024;

/**
 * Keys that canisters sign with. They live in this process and are as safe as its memory: good for testing, and for
 * nothing of value. The same seed gives the same keys.
 */
export class SigningKeys {
  #seed: Uint8Array;
  readonly #trees = new Map<string, KeyTree>();
  readonly #derived = new Map<string, DerivedKey>();

  constructor(seed: Uint8Array) {
    this.#seed = seed;
  }

  get seed(): Uint8Array {
    return this.#seed;
  }

  /** Replaces all keys by those of this seed. */
  reseed(seed: Uint8Array): void {
    this.#seed = seed;
    this.#trees.clear();
    this.#derived.clear();
  }

  /** Derives a key. Refuses unknown names, and paths of too many bytes. */
  async derive(
    algorithm: SigningAlgorithm,
    name: string,
    canisterId: Uint8Array,
    path: readonly Uint8Array[],
  ): Promise<DerivedKey> {
    if (!KEY_NAMES.includes(name))
      throw REFUSE.notOffered(`there is no key ${JSON.stringify(name.slice(0, 100))}: use ${KEY_NAMES.join(', ')}`);
    const bytes = path.reduce((sum, { length }) => sum + length, 0);
    if (bytes > PATH_BYTES_MAX)
      throw REFUSE.badArgument(`the derivation path has ${bytes} bytes: at most ${PATH_BYTES_MAX} are allowed`);
    const place = [algorithm, name, hexOf(canisterId), ...path.map(hexOf)].join('/');
    const cached = this.#derived.get(place);
    const key = cached ?? (await walk(await this.#tree(algorithm, name), [canisterId, ...path]));
    if (bytes <= CACHED_PATH_BYTES_MAX) this.#keep(place, key);
    return key;
  }

  async #tree(algorithm: SigningAlgorithm, name: string): Promise<KeyTree> {
    const place = `${algorithm} ${name}`;
    const known = this.#trees.get(place);
    if (known !== undefined) return known;
    const Tree = await treeOf(algorithm);
    const seed = new Uint8Array(hkdfSync('sha512', this.#seed, new Uint8Array(0), `svc master key ${place}`, 64));
    const tree = new Tree(seed);
    this.#trees.set(place, tree);
    return tree;
  }

  /** Keeps the key. The map is in order of use: its first key is the least recently used. */
  #keep(place: string, key: DerivedKey): void {
    this.#derived.delete(place);
    this.#derived.set(place, key);
    if (this.#derived.size <= CACHED_KEYS_MAX) return;
    const [oldest] = this.#derived.keys();
    if (oldest !== undefined) this.#derived.delete(oldest);
  }
}

/** Loads the code when the first key is needed: few servers ever sign, and loading takes 20 ms of CPU time. */
async function treeOf(algorithm: SigningAlgorithm): Promise<new (seed: Uint8Array) => KeyTree> {
  return algorithm === 'ed25519'
    ? (await import('./ed25519-tree.ts')).Ed25519Tree
    : (await import('./secp256k1-tree.ts')).Secp256k1Tree;
}

async function walk(tree: KeyTree, path: readonly Uint8Array[]): Promise<DerivedKey> {
  let key = tree.master;
  for (const [step, index] of path.entries()) {
    if (step % STEPS_PER_TURN === STEPS_PER_TURN - 1) await nextTurn();
    key = tree.child(key, index);
  }
  return key;
}
