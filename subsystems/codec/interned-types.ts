/**
 * The types of a .did file: equal types are one object, which keeps the type tables of messages short. With notes,
 * types are equal only if their notes are.
 */
import { IDL } from '@dfinity/candid';
import type { DidNotes } from './did-notes.ts';

/** Types with the names that the text gives them. */
export interface NamedTypes {
  readonly types: IDL.Type[];
  readonly names: (string | undefined)[];
}

interface NotedField {
  readonly label: string;
  readonly type: IDL.Type;
  /** Place of the field in the text. */
  readonly place: number;
  readonly doc: string | undefined;
}

interface NotedMethod {
  readonly name: string;
  readonly type: IDL.Type;
  readonly doc: string | undefined;
}

export class InternedTypes {
  readonly #notes: DidNotes | undefined;
  readonly #interned = new Map<string, IDL.Type>();
  readonly #numbers = new Map<IDL.Type, number>();

  constructor(notes: DidNotes | undefined) {
    this.#notes = notes;
  }

  opt(inner: IDL.Type): IDL.Type {
    return this.#intern(`opt ${this.#number(inner)}`, () => IDL.Opt(inner));
  }

  vec(inner: IDL.Type): IDL.Type {
    return this.#intern(`vec ${this.#number(inner)}`, () => IDL.Vec(inner));
  }

  /** Returns the type of a record or variant; its fields are sorted by their ids. */
  fields(kind: 'record' | 'variant', fields: readonly NotedField[]): IDL.Type {
    const key = `${kind} ${fields.map(({ label, type }) => `${JSON.stringify(label)}${this.#number(type)}`).join()}`;
    const notes = this.#notes;
    const places = notes === undefined ? [] : fields.map(({ place }) => place);
    const noted = notes === undefined ? '' : notes.keyOf(fields.map(({ doc }) => doc)) + notes.keyOfOrder(places);
    return this.#intern(key + noted, () => {
      // The library would sort the fields, hashing names at every comparison; they are sorted already.
      const created = kind === 'record' ? IDL.Record({}) : IDL.Variant({});
      for (const { label, type } of fields) created._fields.push([label, type]);
      notes?.ordered(created, places);
      notes?.documented(
        created,
        fields.map(({ label, doc }) => [label, doc] as const),
      );
      return created;
    });
  }

  service(methods: readonly NotedMethod[]): IDL.Type {
    const key = `service ${methods.map(({ name, type }) => `${JSON.stringify(name)}${this.#number(type)}`).join()}`;
    const docs = methods.map(({ doc }) => doc);
    return this.#intern(key + (this.#notes?.keyOf(docs) ?? ''), () => {
      // `__proto__` is an ordinary method name here. A named function type is still an `IDL.Rec`, checked at the end.
      const fields: Record<string, IDL.FuncClass> = Object.create(null) as Record<string, never>;
      for (const { name, type } of methods) fields[name] = type as IDL.FuncClass;
      const created = IDL.Service(fields);
      this.#notes?.documented(
        created,
        methods.map(({ name, doc }) => [name, doc] as const),
      );
      return created;
    });
  }

  func(parameters: NamedTypes, results: NamedTypes, annotations: string[]): IDL.Type {
    const numbers = (types: readonly IDL.Type[]): string => types.map((type) => this.#number(type)).join();
    const key = `func ${numbers(parameters.types)} -> ${numbers(results.types)} ${annotations.join()}`;
    const names = this.#notes?.keyOf([...parameters.names, ...results.names]) ?? '';
    return this.#intern(key + names, () => {
      // The library declares its parameter lists as tuples; any list is one.
      const created = IDL.Func(parameters.types as [], results.types as [], annotations);
      this.#notes?.named(created, parameters.names, results.names);
      return created;
    });
  }

  /** Returns one object for equal types: `key` consists of the numbers of the parts. */
  #intern(key: string, create: () => IDL.Type): IDL.Type {
    const known = this.#interned.get(key);
    if (known !== undefined) return known;
    const type = create();
    this.#interned.set(key, type);
    return type;
  }

  #number(type: IDL.Type): number {
    const known = this.#numbers.get(type);
    if (known !== undefined) return known;
    const number = this.#numbers.size;
    this.#numbers.set(type, number);
    return number;
  }
}
