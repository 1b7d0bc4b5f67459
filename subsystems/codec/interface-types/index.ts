/**
 * The types of an interface as a graph, for comparing the interfaces of old and new code. Types with equal text are one
 * node, and recursive ones lead back to themselves; code that walks the graph must limit the walk.
 */
import { parseDid } from '../did-parser.ts';
import { type CandidType, GraphBuilder } from '../types.ts';

export { type CandidField, type CandidType, isBlob, isNullable, isTuple, Op, TYPE_NAMES } from '../types.ts';

export interface InterfaceTypes {
  /** Methods of the service, in the order of the text; each type is a function. */
  readonly methods: readonly { readonly name: string; readonly type: CandidType }[];
  /** Number of nodes in the graph: every `CandidType.index` is below it. */
  readonly nodeCount: number;
}

/** Parses .did text. Throws ServerError `bad-interface` with line and column. */
export function interfaceTypes(did: string): InterfaceTypes {
  const { methods } = parseDid(did);
  const { roots, nodes } = new GraphBuilder().add(methods.map(({ type }) => type));
  return { methods: methods.map(({ name }, at) => ({ name, type: rootAt(roots, at) })), nodeCount: nodes.length };
}

function rootAt(roots: readonly CandidType[], at: number): CandidType {
  const root = roots[at];
  if (root === undefined) throw new Error(`bug in codec: there is no root ${at}`);
  return root;
}
