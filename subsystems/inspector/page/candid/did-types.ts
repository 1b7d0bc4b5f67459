/** Candid types as a form uses them: with the order and the names of the interface. */

export const PRIMITIVES = [
  'null',
  'bool',
  'nat',
  'nat8',
  'nat16',
  'nat32',
  'nat64',
  'int',
  'int8',
  'int16',
  'int32',
  'int64',
  'float32',
  'float64',
  'text',
  'principal',
  'reserved',
  'empty',
] as const;
export type Primitive = (typeof PRIMITIVES)[number];

export interface Field {
  /** Id in messages: the given number, or the hash of the name. */
  readonly id: number;
  /** Name of the field; `_7_` if it has none. */
  readonly label: string;
  readonly type: DidType;
}

/** A parameter or result; most interfaces name it. */
export interface Parameter {
  readonly name: string | undefined;
  readonly type: DidType;
}

export interface FunctionType {
  readonly kind: 'func';
  readonly parameters: readonly Parameter[];
  readonly results: readonly Parameter[];
  readonly annotation: 'query' | 'composite_query' | 'oneway' | undefined;
}

/** A reference to a definition by its name; `target` is set when the whole table has been read. */
export interface NamedType {
  readonly kind: 'name';
  readonly name: string;
  target: DidType | undefined;
}

export type DidType =
  | { readonly kind: Primitive }
  | { readonly kind: 'opt' | 'vec'; readonly inner: DidType }
  | { readonly kind: 'record' | 'variant'; readonly fields: readonly Field[] }
  | { readonly kind: 'service' }
  | FunctionType
  | NamedType;

export interface DidMethod {
  readonly name: string;
  readonly kind: 'update' | 'query' | 'composite_query' | 'oneway';
  readonly parameters: readonly Parameter[];
  readonly results: readonly Parameter[];
  /** The comment above the method. */
  readonly docs: string;
}

/** The parts of an interface that forms use. */
export interface DidInterface {
  /** Methods in the order of the text. */
  readonly methods: readonly DidMethod[];
  /** Arguments of `init`; undefined where they are not known. */
  readonly init: readonly Parameter[] | undefined;
  /** Names of fields and tags by their ids in messages. */
  readonly fieldNames: ReadonlyMap<number, string>;
}

/** Any type except a reference. */
export type ConcreteType = Exclude<DidType, NamedType>;

/** Limit on chains of references: longer than in any interface that the server accepts. */
const NAME_CHAIN_MAX = 10_000;

/** Returns the type at the end of a chain of references. */
export function resolve(type: DidType): ConcreteType {
  let resolved = type;
  for (let steps = 0; resolved.kind === 'name'; steps++) {
    if (resolved.target === undefined || steps > NAME_CHAIN_MAX)
      throw new Error(`the type ${resolved.name} is not defined`);
    resolved = resolved.target;
  }
  return resolved;
}

export function isBlob(type: ConcreteType): boolean {
  return type.kind === 'vec' && resolve(type.inner).kind === 'nat8';
}

/**
 * Returns true if a value of the type can be `null` in the default encoding, so that an `opt` of it is `[]` or
 * `[value]`.
 */
export function isNullable(type: DidType): boolean {
  const { kind } = resolve(type);
  return kind === 'null' || kind === 'opt' || kind === 'reserved';
}

/** Returns true if the ids are 0, 1, 2 …: such a record is an array in the default encoding. */
export function isTuple(fields: readonly Field[]): boolean {
  const ids = fields.map(({ id }) => id).toSorted((left, right) => left - right);
  return ids.length > 0 && ids.every((id, index) => id === index);
}
