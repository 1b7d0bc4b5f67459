/** What stands in a form: one node a type, changed in place while somebody types. */
import { isBlob, type DidType, type Primitive, resolve } from './did-types.ts';

export type BlobEncoding = 'text' | 'hex' | 'base64';

export type FormValue =
  /** Numbers, texts, principals: as they are typed. */
  | { readonly kind: 'text'; text: string }
  | { readonly kind: 'bool'; isTrue: boolean }
  | { readonly kind: 'blob'; encoding: BlobEncoding; text: string }
  /** `value` is made when it is first wanted: types may be recursive. */
  | { readonly kind: 'opt'; isSome: boolean; value: FormValue | undefined }
  | { readonly kind: 'vec'; readonly items: FormValue[] }
  /** In the order of the type's fields. */
  | { readonly kind: 'record'; readonly fields: readonly FormValue[] }
  /** `values` are those of tags that were chosen at some time. */
  | { readonly kind: 'variant'; tag: number | undefined; readonly values: Map<number, FormValue> }
  | { readonly kind: 'func'; principal: string; method: string }
  /** `null`, `reserved` and `empty`: nothing to type. */
  | { readonly kind: 'nothing' };

/** Fields that one step opens at most: records in records may be exponentially many. */
const NODES_MAX = 2_000;
/** Records right inside of records; one that contains itself without an `opt`, `vec` or `variant` has no end. */
const DEPTH_MAX = 100;

/** An untouched value. Throws an Error if a form of this type would be too large to show. */
export function emptyValue(type: DidType): FormValue {
  let nodes = 0;
  const create = (part: DidType, depth: number): FormValue => {
    if (++nodes > NODES_MAX || depth > DEPTH_MAX)
      throw new Error(`a form of this type has more than ${NODES_MAX} fields: write the value as JSON`);
    const concrete = resolve(part);
    switch (concrete.kind) {
      case 'opt':
        return { kind: 'opt', isSome: false, value: undefined };
      case 'vec':
        return isBlob(concrete) ? { kind: 'blob', encoding: 'text', text: '' } : { kind: 'vec', items: [] };
      case 'record':
        return { kind: 'record', fields: concrete.fields.map((field) => create(field.type, depth + 1)) };
      case 'variant':
        return { kind: 'variant', tag: undefined, values: new Map() };
      case 'func':
        return { kind: 'func', principal: '', method: '' };
      case 'service':
        return { kind: 'text', text: '' };
      default:
        return emptyPrimitive(concrete.kind);
    }
  };
  return create(type, 0);
}

function emptyPrimitive(kind: Primitive): FormValue {
  if (kind === 'bool') return { kind: 'bool', isTrue: false };
  if (kind === 'null' || kind === 'reserved' || kind === 'empty') return { kind: 'nothing' };
  return { kind: 'text', text: '' };
}
