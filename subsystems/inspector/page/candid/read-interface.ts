/**
 * Reads the table of types that the server makes of an interface (`GET /candid/<ACTOR>` as JSON), for the page's forms.
 * The page has no parser of .did files.
 */
import type { DidInterface, DidType, Field, FunctionType, NamedType, Parameter, Primitive } from './did-types.ts';

interface TableField {
  readonly id: number;
  readonly name?: string;
  readonly type: number;
}

interface TableParameter {
  readonly name?: string;
  readonly type: number;
}

/** A type of the table; `type` is the number of another one. */
type TableType =
  | { readonly kind: Primitive | 'blob' | 'service' }
  | { readonly kind: 'opt' | 'vec'; readonly type: number }
  | { readonly kind: 'record' | 'variant'; readonly fields: readonly TableField[] }
  | {
      readonly kind: 'func';
      readonly parameters: readonly TableParameter[];
      readonly results: readonly TableParameter[];
      readonly annotation?: FunctionType['annotation'];
    }
  | { readonly kind: 'name'; readonly name: string; readonly type: number };

/** An interface as the server tells it; comments of fields and definitions are not used here. */
export interface TypeTable {
  readonly methods: readonly {
    readonly name: string;
    readonly kind: 'update' | 'query' | 'composite_query' | 'oneway';
    readonly doc?: string;
    readonly parameters: readonly TableParameter[];
    readonly results: readonly TableParameter[];
  }[];
  readonly init?: readonly TableParameter[];
  readonly types: readonly TableType[];
}

export function readInterface({ methods, init, types }: TypeTable): DidInterface {
  const reader = new TableReader(types);
  const read = methods.map(({ name, kind, doc = '', parameters, results }) => ({
    name,
    kind,
    parameters: reader.parameters(parameters),
    results: reader.parameters(results),
    docs: doc,
  }));
  const initRead = init === undefined ? undefined : reader.parameters(init);
  reader.setTargets();
  return { methods: read, init: initRead, fieldNames: reader.fieldNames };
}

class TableReader {
  readonly fieldNames = new Map<number, string>();
  readonly #table: readonly TableType[];
  readonly #types: (DidType | undefined)[] = [];
  readonly #pending: [definition: NamedType, type: number][] = [];

  constructor(table: readonly TableType[]) {
    this.#table = table;
  }

  parameters(parameters: readonly TableParameter[]): readonly Parameter[] {
    return parameters.map(({ name, type }) => ({ name, type: this.#type(type) }));
  }

  /** Reads the definitions: one after the other, because types contain themselves through them. */
  setTargets(): void {
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop())
      next[0].target = this.#type(next[1]);
  }

  #type(number: number): DidType {
    return (this.#types[number] ??= this.#read(number));
  }

  #read(number: number): DidType {
    const type = this.#table[number];
    if (type === undefined) throw new Error(`the interface has no type ${number}`);
    switch (type.kind) {
      case 'name': {
        const definition: NamedType = { kind: 'name', name: type.name, target: undefined };
        this.#pending.push([definition, type.type]);
        return definition;
      }
      case 'opt':
      case 'vec':
        return { kind: type.kind, inner: this.#type(type.type) };
      case 'blob':
        return { kind: 'vec', inner: { kind: 'nat8' } };
      case 'record':
      case 'variant':
        return { kind: type.kind, fields: type.fields.map((field) => this.#field(field)) };
      case 'func': {
        const { kind, annotation } = type;
        return {
          kind,
          parameters: this.parameters(type.parameters),
          results: this.parameters(type.results),
          annotation,
        };
      }
      default:
        return { kind: type.kind };
    }
  }

  #field({ id, name, type }: TableField): Field {
    if (name !== undefined) this.fieldNames.set(id, name);
    return { id, label: name ?? `_${id}_`, type: this.#type(type) };
  }
}
