/**
 * The types of an interface as a graph: what is compared when an actor gets other code. Types that are equal in the text are
 * one node, and recursive ones lead back to themselves; whoever walks the graph bounds the walk.
 */
import { parseDid } from '../did-parser.ts';
import { type CandidType, GraphBuilder } from '../types.ts';

export { type CandidField, type CandidType, isBlob, isNullable, isTuple, Op, TYPE_NAMES } from '../types.ts';

export interface InterfaceTypes {
  /** Of the service, in the order of the text; each type is a function. */
  readonly methods: readonly { readonly name: string; readonly type: CandidType }[];
  /** Nodes of the graph: every `CandidType.index` is below. */
  readonly nodeCount: number;
}

/** Reads .did text. Throws ServerError `bad-interface` with line and column. */
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
