/**
 * An interface as a table of types, in JSON: for programs that draw forms and have no parser of .did files. Every type
 * is named by its number in the table, so that the table is finite where types contain themselves, and equal types
 * stand there once. Fields are in the order of the text.
 */
import { hashName, labelToId } from '../types.ts';
import { describeInterface } from './describe-interface.ts';
import type {
  DescribedField,
  DescribedInterface,
  DescribedMethod,
  DescribedParameter,
  DescribedType,
  NamedType,
  PlainKind,
} from './described-types.ts';

interface TableField {
  /** Id in messages: the given number, or the hash of the name. */
  readonly id: number;
  /** Absent: the field has a number only. */
  readonly name?: string;
  readonly doc?: string;
  readonly type: number;
}

interface TableParameter {
  readonly name?: string;
  readonly type: number;
}

interface TableMethod {
  readonly name: string;
  readonly kind: DescribedMethod['kind'];
  readonly doc?: string;
  readonly parameters: readonly TableParameter[];
  readonly results: readonly TableParameter[];
}

/** A type of the table; `type` is the number of another one. */
type TableType =
  | { readonly kind: PlainKind }
  | { readonly kind: 'opt' | 'vec'; readonly type: number }
  | { readonly kind: 'record' | 'variant'; readonly fields: readonly TableField[] }
  | {
      readonly kind: 'func';
      readonly parameters: readonly TableParameter[];
      readonly results: readonly TableParameter[];
      readonly annotation?: 'query' | 'composite_query' | 'oneway';
    }
  /** A definition: another name of the type. */
  | { readonly kind: 'name'; readonly name: string; readonly doc?: string; readonly type: number };

interface TypeTable {
  /** Comment above the service. */
  readonly doc?: string;
  /** Arguments of `init`, where they are known. */
  readonly init?: readonly TableParameter[];
  /** Methods in the order of the text. */
  readonly methods: readonly TableMethod[];
  readonly types: readonly TableType[];
}

/** Returns the UTF-8 JSON of an interface's table. Throws ServerError `bad-interface` with line and column. */
export function typeTableBytes(did: string, initText?: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(JSON.stringify(typeTableOf(describeInterface(did, initText)))));
}

function typeTableOf({ doc, init, methods }: DescribedInterface): TypeTable {
  const builder = new TableBuilder();
  const told = methods.map(({ name, kind, doc: about, parameters, results }) => ({
    name,
    kind,
    ...docOf(about),
    parameters: builder.parameters(parameters),
    results: builder.parameters(results),
  }));
  const initTold = init === undefined ? {} : { init: builder.parameters(init) };
  return { ...docOf(doc), ...initTold, methods: told, types: builder.types() };
}

class TableBuilder {
  readonly #types: TableType[] = [];
  readonly #numbers = new Map<DescribedType, number>();
  /** Definitions that are still to be told, with their numbers: later, because a chain of them may be long. */
  readonly #pending: [number: number, named: NamedType][] = [];

  /** Returns the types of everything that has been added. */
  types(): readonly TableType[] {
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) {
      const [number, { name, doc, definition }] = next;
      this.#types[number] = { kind: 'name', name, ...docOf(doc), type: this.#numberOf(definition) };
    }
    return this.#types;
  }

  parameters(parameters: readonly DescribedParameter[]): readonly TableParameter[] {
    return parameters.map(({ name, type }) => ({
      ...(name === undefined ? {} : { name }),
      type: this.#numberOf(type),
    }));
  }

  #numberOf(type: DescribedType): number {
    const known = this.#numbers.get(type);
    if (known !== undefined) return known;
    const number = this.#types.push(NOT_TOLD) - 1;
    this.#numbers.set(type, number);
    if (type.kind === 'named') this.#pending.push([number, type]);
    else this.#types[number] = this.#told(type);
    return number;
  }

  #told(type: Exclude<DescribedType, NamedType>): TableType {
    switch (type.kind) {
      case 'opt':
      case 'vec':
        return { kind: type.kind, type: this.#numberOf(type.inner) };
      case 'record':
      case 'variant':
        return { kind: type.kind, fields: type.written.map((field) => this.#field(field)) };
      case 'func': {
        const { kind, parameters, results, annotation } = type;
        const told = { kind, parameters: this.parameters(parameters), results: this.parameters(results) };
        return annotation === undefined ? told : { ...told, annotation };
      }
      default:
        return { kind: type.kind };
    }
  }

  #field({ label, doc, type }: DescribedField): TableField {
    const id = labelToId(label);
    // The parser refuses names that look like the label of a number.
    const name = id === hashName(label) ? { name: label } : {};
    return { id, ...name, ...docOf(doc), type: this.#numberOf(type) };
  }
}

/** Stands in the table until a type is told. */
const NOT_TOLD: TableType = { kind: 'empty' };

function docOf(doc: string | undefined): { readonly doc?: string } {
  return doc === undefined ? {} : { doc };
}
