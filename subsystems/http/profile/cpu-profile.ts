import type { MessageProfile } from '../../replay/index.ts';

interface ProfileNode {
  readonly id: number;
  readonly callFrame: object;
  hitCount: number;
  readonly children: number[];
}

/**
 * Returns the samples as a `.cpuprofile` of Chrome's tools, in the order of execution. An instruction is shown as a
 * microsecond.
 */
export function cpuProfileOf(name: string, { instructions, samples }: MessageProfile): object {
  const nodes: ProfileNode[] = [];
  /** Ids by the id of the caller and the name. */
  const ids = new Map<string, number>();
  const idOf = (parent: ProfileNode | undefined, functionName: string): ProfileNode => {
    const key = `${parent?.id ?? 0} ${functionName}`;
    const known = nodes[(ids.get(key) ?? 0) - 1];
    if (known !== undefined) return known;
    const callFrame = { functionName, scriptId: '0', url: '', lineNumber: -1, columnNumber: -1 };
    const node = { id: nodes.length + 1, callFrame, hitCount: 0, children: [] };
    nodes.push(node);
    ids.set(key, node.id);
    parent?.children.push(node.id);
    return node;
  };
  const root = idOf(undefined, name);
  const leaves = samples.map(({ stack }) => {
    const leaf = stack.reduce(idOf, root);
    leaf.hitCount++;
    return leaf.id;
  });
  return {
    nodes,
    startTime: 0,
    endTime: instructions,
    samples: leaves,
    timeDeltas: samples.map((_, index) => samples[index - 1]?.instructions ?? 0),
  };
}
