/**
 * Witnesses of hash trees from outside (interface specification, "Certification"): what they say at a path, and the
 * hash of the tree that they are of. Trees that are no such tree are refused before anything is looked up.
 */
import { hash } from 'node:crypto';
import { ServerError } from '../../kernel/index.ts';
import type { CborValue } from './cbor-reader.ts';
import { separated } from './hash-tree.ts';

const HASH_BYTES = 32;
const DOMAIN = {
  fork: separated('ic-hashtree-fork'),
  labeled: separated('ic-hashtree-labeled'),
  leaf: separated('ic-hashtree-leaf'),
};

const EMPTY_HASH = hash('sha256', separated('ic-hashtree-empty'), 'buffer');

type Node =
  | { readonly kind: 'empty' | 'pruned'; readonly hash: Buffer }
  | { readonly kind: 'fork'; readonly hash: Buffer; readonly left: Node; readonly right: Node }
  | { readonly kind: 'labeled'; readonly hash: Buffer; readonly label: Buffer; readonly part: Node }
  | { readonly kind: 'leaf'; readonly hash: Buffer; readonly value: Uint8Array };

export class Witness {
  readonly #root: Node;

  /** `tree` is decoded CBOR, so that quotas have bounded it. Throws ServerError `cbor-bad` for what is no tree. */
  constructor(tree: CborValue | undefined) {
    this.#root = nodeOf(tree);
  }

  get rootHash(): Uint8Array {
    return this.#root.hash;
  }

  /** Returns the value at the path; undefined: none is shown there. Of labels that are there twice the first counts. */
  valueAt(path: readonly Uint8Array[]): Uint8Array | undefined {
    let node: Node | undefined = this.#root;
    for (const label of path) node = node && partOf(node, label);
    return node?.kind === 'leaf' ? node.value : undefined;
  }

  /** Returns the labels that are shown right below the path. */
  labelsAt(path: readonly Uint8Array[]): readonly Uint8Array[] {
    let node: Node | undefined = this.#root;
    for (const label of path) node = node && partOf(node, label);
    return node === undefined ? [] : labelsOf(node);
  }
}

function partOf(node: Node, label: Uint8Array): Node | undefined {
  if (node.kind === 'labeled') return node.label.equals(label) ? node.part : undefined;
  return node.kind === 'fork' ? (partOf(node.left, label) ?? partOf(node.right, label)) : undefined;
}

function labelsOf(node: Node): readonly Uint8Array[] {
  if (node.kind === 'labeled') return [node.label];
  return node.kind === 'fork' ? [...labelsOf(node.left), ...labelsOf(node.right)] : [];
}

function nodeOf(value: CborValue | undefined): Node {
  if (!Array.isArray(value)) throw notATree();
  const [kind, first, second] = value as readonly CborValue[];
  const shape = typeof kind === 'bigint' ? `${kind} of ${value.length}` : '';
  switch (shape) {
    case '0 of 1':
      return { kind: 'empty', hash: EMPTY_HASH };
    case '1 of 3': {
      const [left, right] = [nodeOf(first), nodeOf(second)];
      return { kind: 'fork', hash: hashed(DOMAIN.fork, left.hash, right.hash), left, right };
    }
    case '2 of 3': {
      const [label, part] = [bytesOf(first), nodeOf(second)];
      return { kind: 'labeled', hash: hashed(DOMAIN.labeled, label, part.hash), label, part };
    }
    case '3 of 2': {
      const leaf = bytesOf(first);
      return { kind: 'leaf', hash: hashed(DOMAIN.leaf, leaf), value: leaf };
    }
    case '4 of 2': {
      const pruned = bytesOf(first);
      if (pruned.length !== HASH_BYTES) throw notATree();
      return { kind: 'pruned', hash: pruned };
    }
    default:
      throw notATree();
  }
}

function bytesOf(value: CborValue | undefined): Buffer {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length);
  throw notATree();
}

function hashed(...parts: readonly Uint8Array[]): Buffer {
  return hash('sha256', Buffer.concat(parts), 'buffer');
}

function notATree(): ServerError {
  return new ServerError('invalid', 'cbor-bad', 'a witness is no hash tree');
}
