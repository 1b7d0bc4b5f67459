import { IDL } from '@dfinity/candid';
import { unreachable } from './faults.ts';

/*
 * Candid types as a graph.
 *
 * The types of an interface are @dfinity/candid's IDL types; the types of a message are its type table. Both are turned
 * into the same graph of `CandidType` nodes, on which all other code works. A graph may be cyclic (recursive types) and
 * shared; each node has a number that is unique within its graph, so that pairs of nodes can be memoised cheaply.
 * Nothing here recurses, because a chain of definitions may be as long as an interface allows.
 */

/** Type constructors by their code in a message's type table; the code of every composite one is at most `OPT`. */
export const Op = {
  NULL: -1,
  BOOL: -2,
  NAT: -3,
  INT: -4,
  NAT8: -5,
  NAT16: -6,
  NAT32: -7,
  NAT64: -8,
  INT8: -9,
  INT16: -10,
  INT32: -11,
  INT64: -12,
  FLOAT32: -13,
  FLOAT64: -14,
  TEXT: -15,
  RESERVED: -16,
  EMPTY: -17,
  OPT: -18,
  VEC: -19,
  RECORD: -20,
  VARIANT: -21,
  FUNC: -22,
  SERVICE: -23,
  PRINCIPAL: -24,
  /** Any code below `PRINCIPAL`: a type of a later version, which can be skipped. */
  FUTURE: -25,
} as const;
export type Op = (typeof Op)[keyof typeof Op];

/** A field of a record or a tag of a variant. */
export interface CandidField {
  readonly id: number;
  /** Name of the field, or `_123_` if only the id is known. */
  readonly label: string;
  readonly type: CandidType;
}

/** Annotation of a function type; the numbers are those in messages, 0 for none. */
export type FuncAnnotation = 0 | 1 | 2 | 3;

/** One node of a type graph; `op` decides which members have a meaning. */
export class CandidType {
  readonly op: Op;
  /** Number that is unique within the graph. */
  readonly index: number;
  /** Element type of `opt` and `vec`. */
  element: CandidType | undefined;
  /** Fields of records and variants, in increasing order of id. */
  fields: readonly CandidField[] = [];
  /** Parameter types of functions. */
  parameters: readonly CandidType[] = [];
  results: readonly CandidType[] = [];
  annotations: readonly FuncAnnotation[] = [];
  /** Methods of services, by name. */
  methods: readonly { readonly name: string; readonly type: CandidType }[] = [];

  constructor(op: Op, index: number) {
    this.op = op;
    this.index = index;
  }

  /** Returns the type inside `opt` or `vec`. */
  get inner(): CandidType {
    return this.element ?? unreachable(`${TYPE_NAMES[this.op]} without an element type`);
  }
}

/** The types of a tuple, and all nodes of their graph, each at its index. */
export interface TypeGraph {
  readonly roots: readonly CandidType[];
  readonly nodes: readonly CandidType[];
}

/** Bytes of a value of each fixed-size integer type. */
export const INTEGER_BYTES: ReadonlyMap<Op, number> = new Map<Op, number>([
  [Op.NAT8, 1],
  [Op.NAT16, 2],
  [Op.NAT32, 4],
  [Op.NAT64, 8],
  [Op.INT8, 1],
  [Op.INT16, 2],
  [Op.INT32, 4],
  [Op.INT64, 8],
]);

/** Names of types in messages for people. */
export const TYPE_NAMES: Readonly<Record<Op, string>> = {
  [Op.NULL]: 'null',
  [Op.BOOL]: 'bool',
  [Op.NAT]: 'nat',
  [Op.INT]: 'int',
  [Op.NAT8]: 'nat8',
  [Op.NAT16]: 'nat16',
  [Op.NAT32]: 'nat32',
  [Op.NAT64]: 'nat64',
  [Op.INT8]: 'int8',
  [Op.INT16]: 'int16',
  [Op.INT32]: 'int32',
  [Op.INT64]: 'int64',
  [Op.FLOAT32]: 'float32',
  [Op.FLOAT64]: 'float64',
  [Op.TEXT]: 'text',
  [Op.RESERVED]: 'reserved',
  [Op.EMPTY]: 'empty',
  [Op.OPT]: 'opt',
  [Op.VEC]: 'vec',
  [Op.RECORD]: 'record',
  [Op.VARIANT]: 'variant',
  [Op.FUNC]: 'func',
  [Op.SERVICE]: 'service',
  [Op.PRINCIPAL]: 'principal',
  [Op.FUTURE]: 'a type of a later Candid version',
};

/** Primitive types by their names in .did files and values; `principal` is a keyword there. */
export const PRIMITIVE_TYPES: ReadonlyMap<string, IDL.Type> = new Map<string, IDL.Type>([
  ['bool', IDL.Bool],
  ['nat', IDL.Nat],
  ['int', IDL.Int],
  ['nat8', IDL.Nat8],
  ['nat16', IDL.Nat16],
  ['nat32', IDL.Nat32],
  ['nat64', IDL.Nat64],
  ['int8', IDL.Int8],
  ['int16', IDL.Int16],
  ['int32', IDL.Int32],
  ['int64', IDL.Int64],
  ['float32', IDL.Float32],
  ['float64', IDL.Float64],
  ['text', IDL.Text],
  ['reserved', IDL.Reserved],
  ['empty', IDL.Empty],
]);

const PRIMITIVE_OPS = new Map<IDL.Type, Op>([
  [IDL.Null, Op.NULL],
  [IDL.Bool, Op.BOOL],
  [IDL.Nat, Op.NAT],
  [IDL.Int, Op.INT],
  [IDL.Nat8, Op.NAT8],
  [IDL.Nat16, Op.NAT16],
  [IDL.Nat32, Op.NAT32],
  [IDL.Nat64, Op.NAT64],
  [IDL.Int8, Op.INT8],
  [IDL.Int16, Op.INT16],
  [IDL.Int32, Op.INT32],
  [IDL.Int64, Op.INT64],
  [IDL.Float32, Op.FLOAT32],
  [IDL.Float64, Op.FLOAT64],
  [IDL.Text, Op.TEXT],
  [IDL.Reserved, Op.RESERVED],
  [IDL.Empty, Op.EMPTY],
  [IDL.Principal, Op.PRINCIPAL],
]);

const ANNOTATIONS: Readonly<Record<string, FuncAnnotation>> = { query: 1, oneway: 2, composite_query: 3 };

/** Returns the id of a name in messages. */
export function hashName(name: string): number {
  let hash = 0;
  for (const byte of Buffer.from(name, 'utf8')) hash = (Math.imul(hash, 223) + byte) >>> 0;
  return hash;
}

const ID_LABEL = /^_(0|[1-9]\d{0,9})_$/;

/** Returns the id of a label: `_123_` is 123, anything else a name. */
export function labelToId(label: string): number {
  const match = ID_LABEL.exec(label);
  if (match !== null) {
    const id = Number(match[1]);
    if (id <= 0xffff_ffff) return id;
  }
  return hashName(label);
}

/** Returns the label of an id whose name is unknown. */
export function idToLabel(id: number): string {
  return `_${id}_`;
}

/** Returns true if the ids are 0, 1, 2 …: such a record is a tuple. The empty record is none. */
export function isTuple(type: CandidType): boolean {
  return type.fields.length > 0 && type.fields.every((field, index) => field.id === index);
}

/** Returns true if a value of this type can print as `null`, so that an `opt` of it must be wrapped. */
export function isNullable(type: CandidType): boolean {
  return type.op === Op.NULL || type.op === Op.OPT || type.op === Op.RESERVED;
}

export function isBlob(type: CandidType): boolean {
  return type.op === Op.VEC && type.inner.op === Op.NAT8;
}

/** Follows aliases to the type that they stand for; the parser has refused cycles of names. */
export function resolveAlias(type: IDL.Type): IDL.Type {
  let resolved = type;
  while (resolved instanceof IDL.RecClass)
    resolved = resolved.getType() ?? unreachable('a definition was never filled');
  return resolved;
}

/** Turns IDL types into a graph; the same IDL type becomes the same node. All types of an interface share one graph. */
export class GraphBuilder {
  readonly #nodes: CandidType[] = [];
  readonly #known = new Map<IDL.Type, CandidType>();
  readonly #pending: [IDL.Type, CandidType][] = [];

  /** Returns the graph with these types as roots; it grows when more types are added. */
  add(types: readonly IDL.Type[]): TypeGraph {
    const nodeOf = (type: IDL.Type): CandidType => this.#nodeOf(type);
    const roots = types.map(nodeOf);
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop())
      fillNode(next[0], next[1], nodeOf);
    return { roots, nodes: this.#nodes };
  }

  #nodeOf(named: IDL.Type): CandidType {
    const seen = this.#known.get(named);
    if (seen !== undefined) return seen;
    const type = resolveAlias(named);
    let node = this.#known.get(type);
    if (node === undefined) {
      node = new CandidType(opOf(type), this.#nodes.length);
      this.#nodes.push(node);
      this.#known.set(type, node);
      if (node.op <= Op.OPT && node.op >= Op.SERVICE) this.#pending.push([type, node]);
    }
    this.#known.set(named, node);
    return node;
  }
}

/** Returns a separate graph for some types. */
export function graphOfTypes(types: readonly IDL.Type[]): TypeGraph {
  return new GraphBuilder().add(types);
}

function opOf(type: IDL.Type): Op {
  const primitive = PRIMITIVE_OPS.get(type);
  if (primitive !== undefined) return primitive;
  if (type instanceof IDL.OptClass) return Op.OPT;
  if (type instanceof IDL.VecClass) return Op.VEC;
  if (type instanceof IDL.RecordClass) return Op.RECORD;
  if (type instanceof IDL.VariantClass) return Op.VARIANT;
  if (type instanceof IDL.FuncClass) return Op.FUNC;
  if (type instanceof IDL.ServiceClass) return Op.SERVICE;
  return unreachable('an IDL type of an unknown kind');
}

function fillNode(type: IDL.Type, node: CandidType, nodeOf: (type: IDL.Type) => CandidType): void {
  if (type instanceof IDL.OptClass || type instanceof IDL.VecClass) {
    node.element = nodeOf(type._type);
  } else if (type instanceof IDL.RecordClass || type instanceof IDL.VariantClass) {
    const fields = type._fields.map(([label, field]) => ({ id: labelToId(label), label, type: nodeOf(field) }));
    node.fields = fields.sort((left, right) => left.id - right.id);
  } else if (type instanceof IDL.FuncClass) {
    node.parameters = type.argTypes.map(nodeOf);
    node.results = type.retTypes.map(nodeOf);
    node.annotations = type.annotations.map((name) => ANNOTATIONS[name] ?? unreachable(`annotation ${name}`));
  } else if (type instanceof IDL.ServiceClass) {
    const fields: readonly [string, IDL.Type][] = type._fields;
    node.methods = fields.map(([name, method]) => ({ name, type: nodeOf(method) }));
  }
}
