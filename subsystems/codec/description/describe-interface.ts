import { IDL } from '@dfinity/candid';
import { DidNotes } from '../did-notes.ts';
import { parseDid } from '../did-parser.ts';
import { unreachable } from '../faults.ts';
import { labelToId, PRIMITIVE_TYPES } from '../types.ts';
import type {
  DescribedField,
  DescribedInterface,
  DescribedParameter,
  DescribedType,
  NamedType,
  PlainKind,
} from './described-types.ts';

/**
 * Parses .did text, and that of the arguments of `init` where it is known separately. Throws ServerError
 * `bad-interface` with line and column.
 */
export function describeInterface(did: string, initText?: string): DescribedInterface {
  const parsed = parseDid(did, initText, { takesNotes: true });
  const { methods, init, definitions, notes = new DidNotes() } = parsed;
  const describer = new Describer(definitions, notes);
  return {
    doc: notes.service,
    init: init && describer.parametersOf(init.types, init.names),
    methods: methods.map(({ name, annotation, doc, type }) => ({
      name,
      kind: annotation ?? 'update',
      doc,
      ...describer.functionOf(type),
    })),
  };
}

type Filled<T> = { -readonly [K in keyof T]: T[K] };

const PLAIN: ReadonlyMap<IDL.Type, DescribedType> = new Map<IDL.Type, DescribedType>([
  ...[...PRIMITIVE_TYPES].map(([name, type]) => [type, { kind: name as PlainKind }] as const),
  [IDL.Null, { kind: 'null' }],
  [IDL.Principal, { kind: 'principal' }],
]);
const BLOB: DescribedType = { kind: 'blob' };
const SERVICE: DescribedType = { kind: 'service' };
const UNKNOWN: DescribedType = { kind: 'null' };

class Describer {
  readonly #notes: DidNotes;
  readonly #names = new Map<IDL.Type, string>();
  readonly #known = new Map<IDL.Type, DescribedType>(PLAIN);
  /** Definitions whose text has yet to be described: later, because a chain of them may be long. */
  readonly #pending: [named: Filled<NamedType>, text: IDL.Type][] = [];

  constructor(definitions: ReadonlyMap<string, IDL.Type>, notes: DidNotes) {
    this.#notes = notes;
    for (const [name, type] of definitions) this.#names.set(type, name);
  }

  functionOf(type: IDL.FuncClass): {
    readonly parameters: readonly DescribedParameter[];
    readonly results: readonly DescribedParameter[];
  } {
    const described = this.#functionOf(type);
    this.#describePending();
    return described;
  }

  parametersOf(types: readonly IDL.Type[], names: readonly (string | undefined)[]): readonly DescribedParameter[] {
    const described = this.#parametersOf(types, names);
    this.#describePending();
    return described;
  }

  #describePending(): void {
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) {
      next[0].definition = this.#typeOf(next[1]);
    }
  }

  #parametersOf(types: readonly IDL.Type[], names: readonly (string | undefined)[]): readonly DescribedParameter[] {
    return types.map((type, at) => ({ name: names[at], type: this.#typeOf(type) }));
  }

  #functionOf(type: IDL.FuncClass): {
    readonly parameters: readonly DescribedParameter[];
    readonly results: readonly DescribedParameter[];
  } {
    const { parameters, results } = this.#notes.namesOf(type);
    return {
      parameters: this.#parametersOf(type.argTypes, parameters),
      results: this.#parametersOf(type.retTypes, results),
    };
  }

  /** Describes a type. The recursion is as deep as types are nested in the text, which the parser limits. */
  #typeOf(type: IDL.Type): DescribedType {
    const known = this.#known.get(type);
    if (known !== undefined) return known;
    const described = type instanceof IDL.RecClass ? this.#namedOf(type) : this.#compositeOf(type);
    this.#known.set(type, described);
    return described;
  }

  #namedOf(type: IDL.Type): DescribedType {
    const name = this.#names.get(type) ?? unreachable('a definition without name');
    const definition = this.#notes.definition(name) ?? unreachable('a definition without text');
    const named: Filled<NamedType> = { kind: 'named', name, doc: definition.doc, definition: UNKNOWN };
    this.#pending.push([named, definition.type]);
    return named;
  }

  #compositeOf(type: IDL.Type): DescribedType {
    if (type instanceof IDL.OptClass) return { kind: 'opt', inner: this.#typeOf(type._type) };
    if (type instanceof IDL.VecClass) return type._type === IDL.Nat8 ? BLOB : this.#vecOf(type._type);
    if (type instanceof IDL.RecordClass) {
      const fields = this.#fieldsOf(type);
      return {
        kind: 'record',
        isTuple: fields.length > 0 && fields.every(({ label }, at) => labelToId(label) === at),
        fields,
        written: this.#asWritten(type, fields),
      };
    }
    if (type instanceof IDL.VariantClass) {
      const fields = this.#fieldsOf(type);
      return { kind: 'variant', fields, written: this.#asWritten(type, fields) };
    }
    if (type instanceof IDL.ServiceClass) return SERVICE;
    if (!(type instanceof IDL.FuncClass)) return unreachable('an IDL type of an unknown kind');
    const annotation = type.annotations[0] as 'query' | 'composite_query' | 'oneway' | undefined;
    return { kind: 'func', ...this.#functionOf(type), annotation };
  }

  /** Describes a vec. A vec of an alias of `nat8` is also a blob. */
  #vecOf(element: IDL.Type): DescribedType {
    let resolved: IDL.Type | undefined = element;
    while (resolved instanceof IDL.RecClass) resolved = resolved.getType();
    return resolved === IDL.Nat8 ? BLOB : { kind: 'vec', inner: this.#typeOf(element) };
  }

  /** Returns the fields in the order of the text. */
  #asWritten(type: IDL.Type, fields: readonly DescribedField[]): readonly DescribedField[] {
    const places = this.#notes.orderOf(type);
    if (places === undefined) return fields;
    const written = [...fields];
    for (const [at, field] of fields.entries()) written[places[at] ?? at] = field;
    return written;
  }

  #fieldsOf(type: IDL.RecordClass | IDL.VariantClass): DescribedField[] {
    const docs = this.#notes.docsOf(type);
    return type._fields.map(([label, field]) => ({ label, doc: docs.get(label), type: this.#typeOf(field) }));
  }
}
