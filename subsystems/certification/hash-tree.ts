/**
 * Hash trees with witnesses (interface specification, "Certification"). A tree is made of facts, values at paths of
 * labels; a witness of it has the values that were asked for, proofs that others are not there, and hashes in place of
 * everything else. Labels are strictly sorted, forks balanced.
 */
import type { CborWriter } from './cbor-writer.ts';
import { bytesOfLatin1, Domain } from './digest.ts';

/** Labels from the root to a value, or to a part of the tree. */
export type Path = readonly Uint8Array[];

/** A value at its path. */
export interface Fact {
  readonly path: Path;
  readonly value: Uint8Array;
}

const NODE = { empty: 0, fork: 1, labeled: 2, leaf: 3, pruned: 4 } as const;

const LEAF = new Domain('ic-hashtree-leaf');
const LABELED = new Domain('ic-hashtree-labeled');
const FORK = new Domain('ic-hashtree-fork');
const EMPTY_DIGEST = new Domain('ic-hashtree-empty').ofLatin1('');

/** Inner nodes of a branch over the labels `from` to `to`, the last one excluded. */
interface Fork {
  readonly from: number;
  readonly to: number;
  readonly digest: string;
  readonly left: Fork | undefined;
  readonly right: Fork | undefined;
}

/** A part of the tree: a value, or a branch with labels in their order. */
type Node =
  | { readonly kind: 'leaf'; readonly digest: string; readonly value: Uint8Array }
  | {
      readonly kind: 'branch';
      readonly digest: string;
      /** A character a byte, so that their order is that of the bytes. */
      readonly labels: readonly string[];
      readonly parts: readonly Node[];
      readonly root: Fork | undefined;
    };

/** Paths as they are asked for: all of a part, or some labels of it. */
class Wanted {
  isWhole = false;
  readonly labels = new Map<string, Wanted>();
}

class Draft {
  value: Uint8Array | undefined;
  readonly parts = new Map<string, Draft>();
}

export class HashTree {
  readonly #root: Node;

  /** The last of several facts with the same path counts. A value is never above another one. */
  constructor(facts: Iterable<Fact>) {
    const draft = new Draft();
    for (const { path, value } of facts) {
      let at = draft;
      for (const label of path) {
        const name = latin1(label);
        let part = at.parts.get(name);
        if (part === undefined) at.parts.set(name, (part = new Draft()));
        at = part;
      }
      at.value = value;
    }
    this.#root = nodeOf(draft);
  }

  get rootHash(): Uint8Array {
    return bytesOfLatin1(this.#root.digest);
  }

  /**
   * Writes the witness for these paths: everything at and below them, and for one that is not there the labels beside
   * its place.
   */
  writeWitness(out: CborWriter, paths: readonly Path[]): void {
    const wanted = new Wanted();
    for (const path of paths) {
      let at = wanted;
      for (const label of path) {
        const name = latin1(label);
        let next = at.labels.get(name);
        if (next === undefined) at.labels.set(name, (next = new Wanted()));
        at = next;
      }
      at.isWhole = true;
    }
    writeNode(out, this.#root, wanted);
  }
}

function nodeOf({ value, parts }: Draft): Node {
  if (value !== undefined) return { kind: 'leaf', digest: LEAF.ofBytes(value), value };
  const labels = [...parts.keys()].toSorted();
  // Sorting by characters, each of which is a byte, is sorting by bytes.
  const nodes = labels.map((label) => nodeOf(parts.get(label) ?? new Draft()));
  const root = labels.length === 0 ? undefined : forkOf(labels, nodes, 0, labels.length);
  return { kind: 'branch', digest: root?.digest ?? EMPTY_DIGEST, labels, parts: nodes, root };
}

function forkOf(labels: readonly string[], parts: readonly Node[], from: number, to: number): Fork {
  if (to - from === 1) {
    const digest = LABELED.ofLatin1(labels[from] ?? '', parts[from]?.digest ?? EMPTY_DIGEST);
    return { from, to, digest, left: undefined, right: undefined };
  }
  const middle = (from + to) >>> 1;
  const left = forkOf(labels, parts, from, middle);
  const right = forkOf(labels, parts, middle, to);
  return { from, to, digest: FORK.ofLatin1(left.digest, right.digest), left, right };
}

function writeNode(out: CborWriter, node: Node, wanted: Wanted): void {
  if (node.kind === 'leaf') {
    out.array(2).unsigned(NODE.leaf).bytes(node.value);
    return;
  }
  if (node.root === undefined) {
    out.array(1).unsigned(NODE.empty);
    return;
  }
  const shown = wanted.isWhole ? undefined : shownOf(node.labels, wanted);
  writeFork(out, node, node.root, shown);
}

/** Returns what is shown of each label by its place: parts of it, or its name alone (undefined). */
function shownOf(labels: readonly string[], wanted: Wanted): ReadonlyMap<number, Wanted | undefined> {
  const shown = new Map<number, Wanted | undefined>();
  for (const [name, part] of wanted.labels) {
    const place = placeOf(labels, name);
    if (labels[place] === name) {
      shown.set(place, part);
      continue;
    }
    for (const beside of [place - 1, place])
      if (beside >= 0 && beside < labels.length && !shown.has(beside)) shown.set(beside, undefined);
  }
  return shown;
}

/** Returns the place of the first label that is not below `name`. */
function placeOf(labels: readonly string[], name: string): number {
  let [from, to] = [0, labels.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((labels[middle] ?? '') < name) from = middle + 1;
    else to = middle;
  }
  return from;
}

const ALL = new Wanted();
ALL.isWhole = true;

/** Writes a range of labels; without `shown` all of it. */
function writeFork(
  out: CborWriter,
  node: Extract<Node, { kind: 'branch' }>,
  fork: Fork,
  shown: ReadonlyMap<number, Wanted | undefined> | undefined,
): void {
  const { from, to, digest, left, right } = fork;
  if (shown !== undefined && !hasAny(shown, from, to)) {
    out.array(2).unsigned(NODE.pruned).latin1(digest);
    return;
  }
  if (left !== undefined && right !== undefined) {
    out.array(3).unsigned(NODE.fork);
    writeFork(out, node, left, shown);
    writeFork(out, node, right, shown);
    return;
  }
  out
    .array(3)
    .unsigned(NODE.labeled)
    .latin1(node.labels[from] ?? '');
  const part = node.parts[from];
  if (part === undefined) throw new Error('a label has its part');
  const wanted = shown === undefined ? ALL : shown.get(from);
  if (wanted === undefined) out.array(2).unsigned(NODE.pruned).latin1(part.digest);
  else writeNode(out, part, wanted);
}

function hasAny(shown: ReadonlyMap<number, unknown>, from: number, to: number): boolean {
  if (to - from <= shown.size) {
    for (let place = from; place < to; place++) if (shown.has(place)) return true;
    return false;
  }
  for (const place of shown.keys()) if (place >= from && place < to) return true;
  return false;
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}

/** Returns a domain separator: its length in one byte, and its name. */
export function separated(domain: string): Buffer {
  return bytesOfLatin1(String.fromCharCode(domain.length) + domain);
}
