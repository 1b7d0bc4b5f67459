import type { MessageProfile } from '../../replay/index.ts';

/** A function, as its caller called it. */
export interface CallNode {
  readonly name: string;
  /** Instructions of its own code. */
  self: number;
  /** Instructions of it and all that it called. */
  total: number;
  /** In the order in which they were first seen. */
  readonly children: Map<string, CallNode>;
}

/** Returns the functions below a root that has the name of the message. */
export function callTreeOf(name: string, { samples }: MessageProfile): CallNode {
  const root = nodeOf(name);
  for (const { instructions, stack } of samples) {
    let node = root;
    node.total += instructions;
    for (const open of stack) {
      let child = node.children.get(open);
      if (child === undefined) node.children.set(open, (child = nodeOf(open)));
      child.total += instructions;
      node = child;
    }
    node.self += instructions;
  }
  return root;
}

function nodeOf(name: string): CallNode {
  return { name, self: 0, total: 0, children: new Map() };
}

/** Returns the tree as JSON has it: the callees with the most instructions first. */
export function callTreeJson({ name, self, total, children }: CallNode): object {
  const sorted = Array.from(children.values()).toSorted((one, other) => other.total - one.total);
  return { name, self, total, children: sorted.map(callTreeJson) };
}
