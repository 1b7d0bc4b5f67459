/**
 * Hash trees as the interface specification has them: a reader of witnesses that was written from its text, and shares
 * nothing with the server's.
 */
import { createHash } from 'node:crypto';
import type { CborValue } from '../../../subsystems/certification/index.ts';

export type Tree =
  | { readonly kind: 'empty' }
  | { readonly kind: 'fork'; readonly left: Tree; readonly right: Tree }
  | { readonly kind: 'labeled'; readonly label: Buffer; readonly tree: Tree }
  | { readonly kind: 'leaf'; readonly value: Buffer }
  | { readonly kind: 'pruned'; readonly hash: Buffer };

export function treeOf(value: CborValue | undefined): Tree {
  if (!Array.isArray(value)) throw new Error('a tree is an array');
  const [kind, first, second] = value as CborValue[];
  switch (Number(kind)) {
    case 0:
      return { kind: 'empty' };
    case 1:
      return { kind: 'fork', left: treeOf(first), right: treeOf(second) };
    case 2:
      return { kind: 'labeled', label: bytesOf(first), tree: treeOf(second) };
    case 3:
      return { kind: 'leaf', value: bytesOf(first) };
    case 4:
      return { kind: 'pruned', hash: bytesOf(first) };
    default:
      throw new Error(`no tree of kind ${JSON.stringify(kind)}`);
  }
}

function bytesOf(value: CborValue | undefined): Buffer {
  if (!(value instanceof Uint8Array)) throw new Error('bytes are expected');
  return Buffer.from(value);
}

export function reconstruct(tree: Tree): Buffer {
  switch (tree.kind) {
    case 'empty':
      return hashed('ic-hashtree-empty');
    case 'fork':
      return hashed('ic-hashtree-fork', reconstruct(tree.left), reconstruct(tree.right));
    case 'labeled':
      return hashed('ic-hashtree-labeled', tree.label, reconstruct(tree.tree));
    case 'leaf':
      return hashed('ic-hashtree-leaf', tree.value);
    case 'pruned':
      return tree.hash;
  }
}

function hashed(domain: string, ...parts: readonly Buffer[]): Buffer {
  const hasher = createHash('sha256')
    .update(Buffer.from([domain.length]))
    .update(domain, 'latin1');
  for (const part of parts) hasher.update(part);
  return hasher.digest();
}

export type Found = Buffer | 'absent' | 'unknown' | 'branch';

/** The specification's `lookup`. */
export function lookup(tree: Tree, path: readonly Uint8Array[]): Found {
  const [label, ...rest] = path;
  if (label === undefined) {
    if (tree.kind === 'leaf') return tree.value;
    return tree.kind === 'pruned' ? 'unknown' : tree.kind === 'empty' ? 'absent' : 'branch';
  }
  const parts = flattened(tree);
  const found = parts.find((part) => part.kind === 'labeled' && part.label.equals(label));
  if (found?.kind === 'labeled') return lookup(found.tree, rest);
  if (parts.some(({ kind }) => kind === 'leaf')) return 'absent';
  // Provably absent if the label's place lies between two that are shown, or at an end that is shown.
  const before = parts.findLastIndex((part) => part.kind === 'labeled' && Buffer.compare(part.label, label) < 0);
  const after = parts.findIndex((part) => part.kind === 'labeled' && Buffer.compare(part.label, label) > 0);
  const from = before < 0 ? 0 : before + 1;
  const to = after < 0 ? parts.length : after;
  return parts.slice(from, to).some(({ kind }) => kind === 'pruned') ? 'unknown' : 'absent';
}

function flattened(tree: Tree): Tree[] {
  if (tree.kind === 'empty') return [];
  return tree.kind === 'fork' ? [...flattened(tree.left), ...flattened(tree.right)] : [tree];
}
