import type { CallNode } from './call-tree.ts';

/**
 * Returns the tree as folded stacks, as tools for flame graphs read them: a line for each stack that executed code of
 * its own, `outer;inner 1234`.
 */
export function foldedStacks(root: CallNode): string {
  const lines: string[] = [];
  const visit = (node: CallNode, above: string): void => {
    const path = `${above}${node.name.replaceAll(';', ':')}`;
    if (node.self > 0) lines.push(`${path} ${node.self}\n`);
    for (const child of node.children.values()) visit(child, `${path};`);
  };
  visit(root, '');
  return lines.join('');
}
