/** Parts of a described interface. */
import type { MethodKind } from '../index.ts';

/** Types without parts, by the names that .did files use. */
export type PlainKind =
  | 'null'
  | 'bool'
  | 'nat'
  | 'int'
  | 'nat8'
  | 'nat16'
  | 'nat32'
  | 'nat64'
  | 'int8'
  | 'int16'
  | 'int32'
  | 'int64'
  | 'float32'
  | 'float64'
  | 'text'
  | 'reserved'
  | 'empty'
  | 'principal'
  | 'blob'
  | 'service';

/** A field of a record, or a tag of a variant. */
export interface DescribedField {
  /** Name of the field, or `_123_` if it has none. */
  readonly label: string;
  readonly doc: string | undefined;
  readonly type: DescribedType;
}

/** Parameter or result of a function. */
export interface DescribedParameter {
  readonly name: string | undefined;
  readonly type: DescribedType;
}

/** A type. The same type is always the same object; types contain themselves only through `named`. */
export type DescribedType =
  | { readonly kind: PlainKind }
  | { readonly kind: 'opt' | 'vec'; readonly inner: DescribedType }
  /** `isTuple`: the ids of the fields are 0, 1, 2 …. The fields are in order of their ids, and as they are written. */
  | {
      readonly kind: 'record';
      readonly isTuple: boolean;
      readonly fields: readonly DescribedField[];
      readonly written: readonly DescribedField[];
    }
  | {
      readonly kind: 'variant';
      readonly fields: readonly DescribedField[];
      readonly written: readonly DescribedField[];
    }
  | {
      readonly kind: 'func';
      readonly parameters: readonly DescribedParameter[];
      readonly results: readonly DescribedParameter[];
      readonly annotation: 'query' | 'composite_query' | 'oneway' | undefined;
    }
  | NamedType;

/** A definition; `definition` is the type after its `=`. */
export interface NamedType {
  readonly kind: 'named';
  readonly name: string;
  readonly doc: string | undefined;
  readonly definition: DescribedType;
}

export interface DescribedMethod {
  readonly name: string;
  readonly kind: MethodKind;
  readonly doc: string | undefined;
  readonly parameters: readonly DescribedParameter[];
  readonly results: readonly DescribedParameter[];
}

export interface DescribedInterface {
  /** The comment above the service. */
  readonly doc: string | undefined;
  /** Arguments of `init`; undefined where they are not known. */
  readonly init: readonly DescribedParameter[] | undefined;
  readonly methods: readonly DescribedMethod[];
}

type Resolved = Exclude<DescribedType, NamedType>;

/** Results by definition: a chain of definitions may be long, and each of its links may be asked for. */
const resolvedOf = new WeakMap<NamedType, Resolved>();

/** Returns the type at the end of a chain of definitions. */
export function resolveNamed(type: DescribedType): Resolved {
  const chain: NamedType[] = [];
  let step = type;
  while (step.kind === 'named') {
    chain.push(step);
    step = resolvedOf.get(step) ?? step.definition;
  }
  for (const named of chain) resolvedOf.set(named, step);
  return step;
}
