/**
 * A parsed interface as it comes from the worker: without closures, and without references between objects, because
 * copying a graph between threads recurses as deep as its chains of types are long.
 */
import type { ParsedInterface } from './did-parser.ts';
import { unreachable } from './faults.ts';
import type { MethodKind } from './index.ts';
import { CandidType, type FuncAnnotation, GraphBuilder, type Op, type TypeGraph } from './types.ts';

/**
 * Interfaces with more parts than this are used in the worker only, because the closures of a large record's fields
 * take some µs each. The largest known interfaces written by people have some 2,000.
 */
const COMPILED_PARTS_MAX = 4_000;

/** Number of a node. */
type Place = number;

/** A CandidType that refers to other nodes by their numbers. */
interface FlatType {
  readonly op: Op;
  readonly element: Place | undefined;
  readonly fields: readonly { readonly id: number; readonly label: string; readonly type: Place }[];
  readonly parameters: readonly Place[];
  readonly results: readonly Place[];
  readonly annotations: readonly FuncAnnotation[];
  readonly methods: readonly { readonly name: string; readonly type: Place }[];
}

/** The types of all methods in one graph. */
interface FlatTypes {
  readonly nodes: readonly FlatType[];
  /** Types of each method's arguments, in order of the methods. */
  readonly args: readonly (readonly Place[])[];
  readonly results: readonly (readonly Place[])[];
  readonly initArgs: readonly Place[] | undefined;
}

export interface FlatInterface {
  readonly names: readonly string[];
  readonly kinds: readonly MethodKind[];
  readonly hasInitArgs: boolean;
  /** Undefined if there are too many types for the main thread. */
  readonly types: FlatTypes | undefined;
}

export function flattenInterface(parsed: ParsedInterface): FlatInterface {
  const { methods, init, parts } = parsed;
  return {
    names: methods.map(({ name }) => name),
    kinds: methods.map(({ annotation }) => annotation ?? 'update'),
    hasInitArgs: init !== undefined,
    types: parts > COMPILED_PARTS_MAX ? undefined : flattenTypes(parsed),
  };
}

function flattenTypes({ methods, init }: ParsedInterface): FlatTypes {
  const builder = new GraphBuilder();
  const placesOf = (types: Parameters<GraphBuilder['add']>[0]): Place[] => builder.add(types).roots.map(placeOf);
  const args = methods.map(({ parameters }) => placesOf(parameters));
  const results = methods.map((method) => placesOf(method.results));
  const initArgs = init === undefined ? undefined : placesOf(init.types);
  return { nodes: builder.add([]).nodes.map(flattenType), args, results, initArgs };
}

function placeOf({ index }: CandidType): Place {
  return index;
}

function flattenType({ op, element, fields, parameters, results, annotations, methods }: CandidType): FlatType {
  return {
    op,
    element: element?.index,
    fields: fields.map(({ id, label, type }) => ({ id, label, type: type.index })),
    parameters: parameters.map(placeOf),
    results: results.map(placeOf),
    annotations,
    methods: methods.map(({ name, type }) => ({ name, type: type.index })),
  };
}

/** Restores the graph; returns a function that gives it the roots it is called with. */
export function restoreGraph({ nodes: flat }: FlatTypes): (roots: readonly Place[]) => TypeGraph {
  const nodes = flat.map(({ op }, index) => new CandidType(op, index));
  const nodeAt = (place: Place): CandidType => nodes[place] ?? unreachable('a type is missing');
  for (const [index, { element, fields, parameters, results, annotations, methods }] of flat.entries()) {
    const node = nodeAt(index);
    if (element !== undefined) node.element = nodeAt(element);
    node.fields = fields.map(({ id, label, type }) => ({ id, label, type: nodeAt(type) }));
    node.parameters = parameters.map(nodeAt);
    node.results = results.map(nodeAt);
    node.annotations = annotations;
    node.methods = methods.map(({ name, type }) => ({ name, type: nodeAt(type) }));
  }
  return (roots) => ({ roots: roots.map(nodeAt), nodes });
}
