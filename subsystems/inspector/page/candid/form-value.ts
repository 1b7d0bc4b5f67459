/** Contents of a form: one node for each type, changed in place as the user types. */
import { isBlob, type DidType, type Primitive, resolve } from './did-types.ts';

export type BlobEncoding = 'text' | 'hex' | 'base64';

export type FormValue =
  /** Numbers, texts, principals: the text as typed. */
  | { readonly kind: 'text'; text: string }
  | { readonly kind: 'bool'; isTrue: boolean }
  /** `problem`: reason why the field does not hold the chosen file. */
  | { readonly kind: 'blob'; encoding: BlobEncoding; text: string; problem?: string | undefined }
  /** `value` is made when it is first needed: types may be recursive. */
  | { readonly kind: 'opt'; isSome: boolean; value: FormValue | undefined }
  | { readonly kind: 'vec'; readonly items: FormValue[] }
  /** Values in the order of the type's fields. */
  | { readonly kind: 'record'; readonly fields: readonly FormValue[] }
  /** `values` holds the values of all tags that were ever chosen. */
  | { readonly kind: 'variant'; tag: number | undefined; readonly values: Map<number, FormValue> }
  | { readonly kind: 'func'; principal: string; method: string }
  /** `null`, `reserved` and `empty`, which take no input. */
  | { readonly kind: 'nothing' };

/** Fields and tags that one step opens at most: nested records may be exponentially many. */
const NODES_MAX = 2_000;
/**
 * Depth of records directly inside records; a record that contains itself without an `opt`, `vec` or `variant` has no
 * end.
 */
const DEPTH_MAX = 100;

/** Returns an untouched value. Throws an Error if a form of this type would be too large to show. */
export function emptyValue(type: DidType): FormValue {
  return new Opening().open(type, 0);
}

/** Returns untouched values for all parameters of a method, which are shown at once; throws like `emptyValue`. */
export function emptyValues(types: readonly DidType[]): readonly FormValue[] {
  const opening = new Opening();
  return types.map((type) => opening.open(type, 0));
}

/** Values that are opened in one step, with a common limit. */
class Opening {
  #nodes = 0;

  open(part: DidType, depth: number): FormValue {
    const concrete = resolve(part);
    // Each tag is drawn, too.
    this.#nodes += concrete.kind === 'variant' ? 1 + concrete.fields.length : 1;
    if (this.#nodes > NODES_MAX || depth > DEPTH_MAX)
      throw new Error(`a form of this type has more than ${NODES_MAX} fields: write the value as JSON`);
    switch (concrete.kind) {
      case 'opt':
        return { kind: 'opt', isSome: false, value: undefined };
      case 'vec':
        return isBlob(concrete) ? { kind: 'blob', encoding: 'text', text: '' } : { kind: 'vec', items: [] };
      case 'record':
        return { kind: 'record', fields: concrete.fields.map((field) => this.open(field.type, depth + 1)) };
      case 'variant':
        return { kind: 'variant', tag: undefined, values: new Map() };
      case 'func':
        return { kind: 'func', principal: '', method: '' };
      case 'service':
        return { kind: 'text', text: '' };
      default:
        return emptyPrimitive(concrete.kind);
    }
  }
}

function emptyPrimitive(kind: Primitive): FormValue {
  if (kind === 'bool') return { kind: 'bool', isTrue: false };
  if (kind === 'null' || kind === 'reserved' || kind === 'empty') return { kind: 'nothing' };
  return { kind: 'text', text: '' };
}
