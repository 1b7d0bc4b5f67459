import { IDL } from '@dfinity/candid';
import { DidNotes } from './did-notes.ts';
import { InternedTypes, type NamedTypes } from './interned-types.ts';
import { Lexer, parseNatural, type Token } from './lexer.ts';
import { hashName, idToLabel, labelToId, PRIMITIVE_TYPES, resolveAlias } from './types.ts';

/*
 * The parser of .did files.
 *
 * Types are built as @dfinity/candid's IDL types during parsing. Each definition is one `IDL.Rec` shared by all
 * references to its name, so that definitions may refer to each other in any order; it is filled at the definition.
 * Equal inline types become one object, which keeps the type tables of messages short.
 */

/** Deepest nesting of types; real interfaces stay below 20. */
const NESTING_MAX = 256;
const DEFINITIONS_MAX = 10_000;
/** Fields, tags, methods, parameters, `opt`s and `vec`s of one file together. */
const PARTS_MAX = 50_000;

/** Words that are not names unless quoted. */
export const KEYWORDS: ReadonlySet<string> = new Set(
  'null vec record variant func service oneway query composite_query blob type import opt principal true false'.split(
    ' ',
  ),
);

/** A method of the service, with IDL types. */
interface ParsedMethod {
  readonly name: string;
  readonly parameters: readonly IDL.Type[];
  readonly results: readonly IDL.Type[];
  readonly annotation: 'query' | 'composite_query' | 'oneway' | undefined;
  /** Type of the function, which the parameters are part of. */
  readonly type: IDL.FuncClass;
  /** The comment above the method, if notes were taken. */
  readonly doc: string | undefined;
}

export interface ParsedInterface {
  readonly methods: readonly ParsedMethod[];
  /** Types of the init arguments, if the service is a constructor or they were given separately. */
  readonly init: NamedTypes | undefined;
  /** Definitions by name. */
  readonly definitions: ReadonlyMap<string, IDL.Type>;
  /** Comments and names for people, if they were requested. */
  readonly notes: DidNotes | undefined;
  /** Number of fields, methods, parameters …, and definitions: the size of the interface. */
  readonly parts: number;
}

interface ParseOptions {
  /** True if notes for people are kept; equal types with different notes are then different objects. */
  readonly takesNotes?: boolean;
  /** Largest number of parts (fields, methods, parameters …), if it is less than the host's own limit. */
  readonly partsMax?: number | undefined;
}

interface Definition {
  readonly type: ReturnType<typeof IDL.Rec>;
  isFilled: boolean;
  /** Offset of the definition or, if it has not been read yet, of its first use. */
  offset: number;
}

interface MethodReference {
  readonly name: string;
  readonly type: IDL.Type;
  readonly offset: number;
  readonly doc: string | undefined;
}

interface ParsedField {
  readonly id: number;
  readonly label: string;
  readonly type: IDL.Type;
}

/** Parses .did text; `initText` is the text of the init argument tuple if it is known separately. */
export function parseDid(source: string, initText?: string, options: ParseOptions = {}): ParsedInterface {
  const notes = options.takesNotes === true ? new DidNotes() : undefined;
  const parser = new DidParser(new Lexer(source, 'bad-interface'), notes, options.partsMax);
  const service = parser.parseFile();
  const separate = initText === undefined ? undefined : parser.parseInit(initText);
  return {
    methods: service.methods.map((method) => parser.resolveMethod(method)),
    init: service.init ?? separate,
    definitions: parser.definitionTypes(),
    notes,
    parts: parser.parts,
  };
}

/** Parses one type, such as the annotation of a value; it cannot refer to definitions. */
export function parseType(lexer: Lexer): IDL.Type {
  const parser = new DidParser(lexer);
  const type = parser.parseDataType(0);
  parser.checkDefined();
  return type;
}

interface ParsedService {
  readonly methods: readonly MethodReference[];
  readonly init: NamedTypes | undefined;
}

class DidParser {
  #lexer: Lexer;
  readonly #definitions = new Map<string, Definition>();
  readonly #types: InternedTypes;
  /** Methods of every service type; their types must turn out to be functions. */
  readonly #methods: MethodReference[] = [];
  readonly #notes: DidNotes | undefined;
  #parts = 0;

  readonly #partsMax: number;

  constructor(lexer: Lexer, notes?: DidNotes, partsMax = PARTS_MAX) {
    this.#lexer = lexer;
    this.#notes = notes;
    this.#types = new InternedTypes(notes);
    this.#partsMax = partsMax;
  }

  /** Returns the comment above a token, if notes are taken. */
  #docOf(token: Token): string | undefined {
    return this.#notes?.docOf(this.#lexer.gapBefore(token), token.gapStart === 0);
  }

  parseFile(): ParsedService {
    const lexer = this.#lexer;
    let service: ParsedService | undefined;
    let serviceType: Token | undefined;
    let init: NamedTypes | undefined;
    while (!lexer.is('end')) {
      if (lexer.is('identifier', 'type')) {
        this.#parseDefinition();
      } else if (lexer.is('identifier', 'import')) {
        throw lexer.fail('imports are not resolved here; put the imported definitions into the file');
      } else if (lexer.is('identifier', 'service')) {
        const doc = this.#docOf(lexer.next());
        if (this.#notes !== undefined) this.#notes.service = doc;
        if (lexer.is('identifier')) this.#identifier('the name of the service');
        lexer.expect(':');
        if (lexer.is('punctuation', '(')) {
          init = this.#parseTuple(0);
          lexer.expect('->');
        }
        if (lexer.is('punctuation', '{')) service = { methods: this.#parseMethods(0), init };
        else serviceType = this.#reference('a service type');
        lexer.take('punctuation', ';');
        if (!lexer.is('end')) throw lexer.unexpected('the end of the file after the service');
        break;
      } else {
        throw lexer.unexpected('"type" or "service"');
      }
      // The grammar has the semicolon between definitions; after the last one other parsers make it optional.
      const isLast = lexer.is('end') || lexer.is('identifier', 'service');
      if (!lexer.take('punctuation', ';') && !isLast) throw lexer.unexpected('";"');
    }
    this.checkDefined();
    if (serviceType !== undefined) service = { methods: this.#methodsOf(serviceType), init };
    if (service === undefined) throw lexer.fail('the file describes no service');
    this.#checkMethods();
    return service;
  }

  /** Parses the text of an init argument tuple, which may use the file's definitions. */
  parseInit(text: string): NamedTypes {
    this.#lexer = new Lexer(text, 'bad-interface');
    const init = this.#parseTuple(0);
    if (!this.#lexer.is('end')) throw this.#lexer.unexpected('the end of the init arguments');
    this.checkDefined();
    this.#checkMethods();
    return init;
  }

  get parts(): number {
    return this.#parts + this.#definitions.size;
  }

  definitionTypes(): ReadonlyMap<string, IDL.Type> {
    return new Map([...this.#definitions].map(([name, definition]) => [name, definition.type]));
  }

  #parseDefinition(): void {
    const lexer = this.#lexer;
    const doc = this.#docOf(lexer.next());
    const token = this.#identifier('the name of a type');
    const name = token.value;
    if (PRIMITIVE_TYPES.has(name))
      throw lexer.fail(`"${name}" is the name of a primitive type; choose another`, token.offset);
    lexer.expect('=');
    const definition = this.#definition(token);
    if (definition.isFilled) throw lexer.fail(`the type "${name}" is defined twice`, token.offset);
    const type = this.parseDataType(0);
    // The library's declaration asks for composite types, but an alias of any type works.
    definition.type.fill(type as IDL.ConstructType);
    definition.isFilled = true;
    definition.offset = token.offset;
    this.#notes?.defined(name, doc, type);
  }

  #definition(token: Token): Definition {
    let definition = this.#definitions.get(token.value);
    if (definition === undefined) {
      if (this.#definitions.size === DEFINITIONS_MAX)
        throw this.#lexer.fail(`there are more than ${DEFINITIONS_MAX} type names`, token.offset);
      definition = { type: IDL.Rec(), isFilled: false, offset: token.offset };
      this.#definitions.set(token.value, definition);
    }
    return definition;
  }

  /** Throws if a name is defined nowhere, or only leads back to itself. */
  checkDefined(): void {
    for (const [name, definition] of this.#definitions) {
      if (!definition.isFilled) throw this.#lexer.fail(`the type "${name}" is not defined`, definition.offset);
    }
    this.#shortenAliases();
  }

  /** Replaces every alias by the type at the end of its chain; takes time linear in the number of all definitions. */
  #shortenAliases(): void {
    const ended = new Set<IDL.Type>();
    for (const [name, definition] of this.#definitions) {
      const chain = new Set<ReturnType<typeof IDL.Rec>>();
      let step: IDL.Type | undefined = definition.type;
      while (step !== undefined && step instanceof IDL.RecClass && !ended.has(step)) {
        if (chain.has(step)) {
          throw this.#lexer.fail(
            `the type "${name}" stands for itself: it is defined by names only`,
            definition.offset,
          );
        }
        chain.add(step);
        step = step.getType();
      }
      const end = step !== undefined && step instanceof IDL.RecClass ? step.getType() : step;
      for (const alias of chain) {
        if (end !== undefined) alias.fill(end as IDL.ConstructType);
        ended.add(alias);
      }
    }
  }

  #checkMethods(): void {
    for (const method of this.#methods) {
      if (!(resolveAlias(method.type) instanceof IDL.FuncClass)) {
        throw this.#lexer.fail(`the type of method ${JSON.stringify(method.name)} is not a function`, method.offset);
      }
    }
    this.#methods.length = 0;
  }

  #methodsOf(token: Token): MethodReference[] {
    const definition = this.#definitions.get(token.value);
    // A primitive type has no definition, and the library's `instanceof` throws a TypeError for undefined.
    const type = definition === undefined ? IDL.Reserved : resolveAlias(definition.type);
    if (!(type instanceof IDL.ServiceClass))
      throw this.#lexer.fail(`the type "${token.value}" is not a service`, token.offset);
    const docs = this.#notes?.docsOf(type);
    return type._fields.map(([name, method]) => ({ name, type: method, offset: token.offset, doc: docs?.get(name) }));
  }

  resolveMethod(method: MethodReference): ParsedMethod {
    const type = resolveAlias(method.type);
    if (!(type instanceof IDL.FuncClass))
      throw this.#lexer.fail(`method ${JSON.stringify(method.name)} is not a function`, method.offset);
    const [annotation] = type.annotations;
    const known =
      annotation === 'query' || annotation === 'composite_query' || annotation === 'oneway' ? annotation : undefined;
    return {
      name: method.name,
      type,
      doc: method.doc,
      parameters: type.argTypes,
      results: type.retTypes,
      annotation: known,
    };
  }

  #identifier(what: string): Token {
    const lexer = this.#lexer;
    if (!lexer.is('identifier')) throw lexer.unexpected(what);
    if (KEYWORDS.has(lexer.token.value)) throw lexer.fail(`expected ${what}, found the keyword "${lexer.token.value}"`);
    return lexer.next();
  }

  #namedType(what: string): IDL.Type {
    const token = this.#reference(what);
    return PRIMITIVE_TYPES.get(token.value) ?? this.#definition(token).type;
  }

  #reference(what: string): Token {
    const token = this.#identifier(what);
    if (!PRIMITIVE_TYPES.has(token.value)) this.#definition(token);
    return token;
  }

  #countPart(): void {
    if (++this.#parts > this.#partsMax)
      throw this.#lexer.fail(`there are more than ${this.#partsMax} fields, methods, parameters, opts and vecs`);
  }

  parseDataType(depth: number): IDL.Type {
    const lexer = this.#lexer;
    if (depth > NESTING_MAX) throw lexer.fail(`types are nested deeper than ${NESTING_MAX} levels`);
    if (!lexer.is('identifier')) throw lexer.unexpected('a type');
    const word = lexer.token.value;
    if (!KEYWORDS.has(word)) {
      const token = lexer.next();
      return PRIMITIVE_TYPES.get(word) ?? this.#definition(token).type;
    }
    lexer.next();
    switch (word) {
      case 'null':
        return IDL.Null;
      case 'principal':
        return IDL.Principal;
      case 'blob':
        return this.#types.vec(IDL.Nat8);
      case 'opt':
        this.#countPart();
        return this.#types.opt(this.parseDataType(depth + 1));
      case 'vec':
        this.#countPart();
        return this.#types.vec(this.parseDataType(depth + 1));
      case 'record':
        return this.#parseFields('record', depth + 1);
      case 'variant':
        return this.#parseFields('variant', depth + 1);
      case 'func':
        return this.#parseFunction(depth + 1);
      case 'service':
        return this.#types.service(this.#parseMethods(depth + 1));
      default:
        throw lexer.fail(`expected a type, found the keyword "${word}"`, lexer.previousEnd - word.length);
    }
  }

  #parseFields(kind: 'record' | 'variant', depth: number): IDL.Type {
    const lexer = this.#lexer;
    lexer.expect('{');
    const fields: (ParsedField & { readonly doc: string | undefined; readonly place: number })[] = [];
    const seen = new Map<number, string>();
    let nextId = 0;
    while (!lexer.take('punctuation', '}')) {
      this.#countPart();
      const { token } = lexer;
      const { offset } = token;
      const field = { ...this.#parseField(kind, depth, nextId), doc: this.#docOf(token), place: fields.length };
      const clash = seen.get(field.id);
      if (clash !== undefined) {
        const why =
          clash === field.label ? 'stands there twice' : `has the same id ${field.id} as ${JSON.stringify(clash)}`;
        throw lexer.fail(`the ${kind === 'record' ? 'field' : 'tag'} ${JSON.stringify(field.label)} ${why}`, offset);
      }
      seen.set(field.id, field.label);
      fields.push(field);
      nextId = field.id + 1;
      if (!lexer.take('punctuation', ';') && !lexer.is('punctuation', '}')) throw lexer.unexpected('";" or "}"');
    }
    return this.#types.fields(
      kind,
      fields.sort((left, right) => left.id - right.id),
    );
  }

  #parseField(kind: 'record' | 'variant', depth: number, nextId: number): ParsedField {
    const lexer = this.#lexer;
    const token = lexer.token;
    if (token.kind === 'number') {
      lexer.next();
      const id = parseNatural(token.value);
      if (id === undefined || id > 0xffff_ffffn) throw lexer.fail('expected a field id below 2^32', token.offset);
      return { id: Number(id), label: idToLabel(Number(id)), type: this.#fieldType(kind, depth) };
    }
    if (token.kind === 'text') {
      lexer.next();
      return this.#named(lexer.textOf(token), token.offset, this.#fieldType(kind, depth));
    }
    if (token.kind !== 'identifier') throw lexer.unexpected('a field');
    // A word before a colon is a name; otherwise it is a type without a name in a record, and a bare tag in a variant.
    if (kind === 'record') return this.#recordWord(depth, nextId);
    this.#identifier('a tag');
    return this.#named(token.value, token.offset, this.#fieldType(kind, depth));
  }

  #recordWord(depth: number, nextId: number): ParsedField {
    const lexer = this.#lexer;
    const token = lexer.token;
    if (!KEYWORDS.has(token.value)) {
      lexer.next();
      if (lexer.take('punctuation', ':')) return this.#named(token.value, token.offset, this.parseDataType(depth));
      const type = PRIMITIVE_TYPES.get(token.value) ?? this.#definition(token).type;
      return this.#unnamed(nextId, type, token.offset);
    }
    return this.#unnamed(nextId, this.parseDataType(depth), token.offset);
  }

  #unnamed(id: number, type: IDL.Type, offset: number): ParsedField {
    if (id > 0xffff_ffff) throw this.#lexer.fail('a field without name after the id 2^32 - 1', offset);
    return { id, label: idToLabel(id), type };
  }

  #named(name: string, offset: number, type: IDL.Type): ParsedField {
    const id = hashName(name);
    if (labelToId(name) !== id) {
      throw this.#lexer.fail(
        `the name ${JSON.stringify(name)} is how a field without name is written; write its number instead`,
        offset,
      );
    }
    return { id, label: name, type };
  }

  #fieldType(kind: 'record' | 'variant', depth: number): IDL.Type {
    if (this.#lexer.take('punctuation', ':')) return this.parseDataType(depth);
    if (kind === 'record') throw this.#lexer.unexpected('":" and a type');
    return IDL.Null;
  }

  #parseTuple(depth: number): NamedTypes {
    const lexer = this.#lexer;
    lexer.expect('(');
    const types: IDL.Type[] = [];
    const names: (string | undefined)[] = [];
    while (!lexer.take('punctuation', ')')) {
      this.#countPart();
      const [type, name] = this.#parseParameter(depth);
      types.push(type);
      names.push(name);
      if (!lexer.take('punctuation', ',') && !lexer.is('punctuation', ')')) throw lexer.unexpected('"," or ")"');
    }
    return { types, names };
  }

  /** Parses a type, or a name (which messages do not contain), a colon and a type. */
  #parseParameter(depth: number): readonly [type: IDL.Type, name: string | undefined] {
    const lexer = this.#lexer;
    const token = lexer.token;
    let name: string | undefined;
    if (token.kind === 'text') {
      name = this.#notes === undefined ? undefined : lexer.textOf(token);
      lexer.next();
      lexer.expect(':');
    } else if (token.kind === 'identifier' && !KEYWORDS.has(token.value)) {
      lexer.next();
      if (!lexer.take('punctuation', ':'))
        return [PRIMITIVE_TYPES.get(token.value) ?? this.#definition(token).type, undefined];
      name = token.value;
    }
    return [this.parseDataType(depth), name];
  }

  #parseFunction(depth: number): IDL.Type {
    const lexer = this.#lexer;
    const parameters = this.#parseTuple(depth);
    lexer.expect('->');
    const results = this.#parseTuple(depth);
    const annotations: string[] = [];
    while (
      lexer.is('identifier', 'query') ||
      lexer.is('identifier', 'composite_query') ||
      lexer.is('identifier', 'oneway')
    ) {
      if (annotations.length > 0) throw lexer.fail(`a function is either ${annotations[0]} or ${lexer.token.value}`);
      annotations.push(lexer.next().value);
    }
    if (annotations[0] === 'oneway' && results.types.length > 0)
      throw lexer.fail('a oneway function has no results', lexer.previousEnd);
    return this.#types.func(parameters, results, annotations);
  }

  #parseMethods(depth: number): MethodReference[] {
    const lexer = this.#lexer;
    lexer.expect('{');
    const methods: MethodReference[] = [];
    const names = new Set<string>();
    while (!lexer.take('punctuation', '}')) {
      this.#countPart();
      const token = lexer.token;
      let name = token.value;
      if (token.kind === 'text') name = lexer.textOf(lexer.next());
      else this.#identifier('the name of a method');
      if (names.has(name)) throw lexer.fail(`the method ${JSON.stringify(name)} stands there twice`, token.offset);
      names.add(name);
      lexer.expect(':');
      const type = lexer.is('punctuation', '(') ? this.#parseFunction(depth) : this.#namedType('a function type');
      methods.push({ name, type, offset: token.offset, doc: this.#docOf(token) });
      if (!lexer.take('punctuation', ';') && !lexer.is('punctuation', '}')) throw lexer.unexpected('";" or "}"');
    }
    this.#methods.push(...methods);
    return methods;
  }
}
