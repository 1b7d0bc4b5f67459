/**
 * Makes TypeScript declarations of an actor's methods with JSON (`GET /x/actors/<ACTOR>/types`): the types of the .did
 * under their names, and an interface `Actor` that has the arguments and results of each method. What the types are is
 * said in schemas.ts; here they are written for a compiler. Runs in a separate thread (openapi-worker.ts).
 */
import {
  type DescribedField,
  describeInterface,
  type DescribedMethod,
  type DescribedParameter,
  type DescribedType,
  type NamedType,
  type PlainKind,
  resolveNamed,
} from '../codec/description/index.ts';
import type { DocumentRequest } from './document.ts';
import { FreeNames } from './free-names.ts';
import { isNullable, requiredCount } from './schemas.ts';
import { signatureOf } from './signature.ts';
import { SCHEMA_BYTES, SizeBudget } from './size-budget.ts';

const PLAIN: Readonly<Record<PlainKind, string>> = {
  null: 'null',
  bool: 'boolean',
  nat: 'number | string',
  int: 'number | string',
  nat8: 'number',
  nat16: 'number',
  nat32: 'number',
  nat64: 'number | string',
  int8: 'number',
  int16: 'number',
  int32: 'number',
  int64: 'number | string',
  float32: "number | 'NaN' | 'Infinity' | '-Infinity'",
  float64: "number | 'NaN' | 'Infinity' | '-Infinity'",
  text: 'string',
  reserved: 'unknown',
  empty: 'never',
  principal: 'string',
  blob: 'string',
  service: 'string',
};
/** Names that no type can have, or that would hide what the declarations themselves name. */
const TAKEN =
  'Actor Record any bigint boolean never null number object string symbol undefined unknown void break case catch class ' +
  'const continue debugger default delete do else enum export extends false finally for function if import in ' +
  'instanceof new return super switch this throw true try typeof var while with implements interface let package ' +
  'private protected public static yield await type declare infer keyof readonly unique as async is asserts';
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const FUNC = '{ principal: string; method: string }';

/** Makes the text. Throws ServerError `bad-interface` or `openapi-too-large`. */
export function typeDeclarations({ actor, did, exports }: DocumentRequest): string {
  const described = describeInterface(did);
  const methods = described.methods.filter(({ name }) => exports.has(name));
  const writer = new DeclarationWriter();
  const members = methods.map((method) => writer.method(method, exports.get(method.name) ?? 'update'));
  const about =
    `Types of the actor ${actor} with JSON, made by GET /x/actors/${actor}/types. ` +
    'Numbers beyond 2^53 are decimal strings, blobs base64, principals text.';
  const comment = commentOf(described.doc ?? 'Methods of the actor.', '');
  const body = `${comment}export interface Actor {\n${members.join('')}}\n`;
  return `${commentOf(about, '')}\n${writer.definitions()}${body}`;
}

class DeclarationWriter {
  readonly #budget = new SizeBudget();
  readonly #free = new FreeNames();
  readonly #names = new Map<NamedType, string>();
  /** Definitions that are named and not written yet: a chain of them may be long. */
  readonly #pending: NamedType[] = [];

  constructor() {
    for (const name of TAKEN.split(' ')) this.#free.take(name);
  }

  method({ name, doc, parameters, results, kind }: DescribedMethod, exported: string): string {
    const annotation = exported === 'update' ? undefined : (exported as 'query' | 'composite_query');
    const signature = signatureOf({ parameters, results, annotation });
    const about = commentOf(doc === undefined ? signature : `${doc}\n\n${signature}`, '  ');
    const args = this.#list(parameters, requiredCount(parameters));
    const told = kind === 'oneway' ? 'oneway' : exported;
    const text = `${about}  ${keyOf(name)}: { kind: '${told}'; args: ${args}; results: ${this.#list(results, results.length)} };\n`;
    this.#budget.spend(text.length);
    return text;
  }

  /** Returns the declarations of all definitions that were named so far, and of those that they name. */
  definitions(): string {
    const texts: string[] = [];
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) {
      const text = `${commentOf(next.doc, '')}export type ${this.#nameOf(next)} = ${this.#typeOf(next.definition)};\n`;
      this.#budget.spend(text.length);
      texts.push(text);
    }
    return texts.sort().join('') + (texts.length > 0 ? '\n' : '');
  }

  #list(parameters: readonly DescribedParameter[], required: number): string {
    // Elements of a tuple have names all together or not at all.
    const areNamed = parameters.every(({ name }) => name !== undefined && IDENTIFIER.test(name));
    const items = parameters.map(({ name = '', type }, at) => {
      const mark = at < required ? '' : '?';
      const text = this.#typeOf(type);
      if (areNamed) return `${name}${mark}: ${text}`;
      return mark === '' ? text : `(${text})?`;
    });
    return `[${items.join(', ')}]`;
  }

  #nameOf(type: NamedType): string {
    const known = this.#names.get(type);
    if (known !== undefined) return known;
    const name = this.#free.take(type.name.replaceAll(/[^\w]/g, '_').replace(/^(?=\d|$)/, '_'));
    this.#names.set(type, name);
    this.#pending.push(type);
    return name;
  }

  #typeOf(type: DescribedType): string {
    this.#budget.spend(SCHEMA_BYTES);
    switch (type.kind) {
      case 'named': {
        const name = this.#nameOf(type);
        this.#budget.spend(name.length);
        return name;
      }
      case 'opt': {
        const inner = this.#typeOf(type.inner);
        return isNullable(type.inner) ? `[] | [${inner}]` : `${inner} | null`;
      }
      case 'vec':
        return `(${this.#typeOf(type.inner)})[]`;
      case 'record':
        if (type.isTuple) return `[${type.fields.map((field) => this.#typeOf(field.type)).join(', ')}]`;
        if (type.fields.length === 0) return 'Record<string, never>';
        return `{ ${type.fields.map((field) => this.#field(field, isNullable(field.type))).join(' ')} }`;
      case 'variant':
        if (type.fields.length === 0) return 'never';
        return type.fields.map((tag) => this.#tag(tag)).join(' | ');
      case 'func':
        return FUNC;
      default:
        return PLAIN[type.kind];
    }
  }

  #field({ label, doc, type }: DescribedField, mayBeMissing: boolean): string {
    this.#budget.spendJson([label, doc]);
    const about = doc === undefined ? '' : `${commentOf(doc, '').trimEnd()} `;
    return `${about}${keyOf(label)}${mayBeMissing ? '?' : ''}: ${this.#typeOf(type)};`;
  }

  /** The tag alone is accepted where there is no payload, as in the schemas. */
  #tag(tag: DescribedField): string {
    const form = `{ ${this.#field(tag, false)} }`;
    return resolveNamed(tag.type).kind === 'null' ? `${form} | ${JSON.stringify(tag.label)}` : form;
  }
}

function keyOf(label: string): string {
  return IDENTIFIER.test(label) ? label : JSON.stringify(label);
}

/** Returns a comment that nothing in its text can end. */
function commentOf(text: string | undefined, indent: string): string {
  if (text === undefined) return '';
  const lines = text.replaceAll('*/', '*\\/').split(/\r\n|[\r\n\u2028\u2029]/);
  if (lines.length === 1) return `${indent}/** ${lines[0] ?? ''} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}
