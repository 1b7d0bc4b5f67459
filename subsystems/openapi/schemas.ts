/**
 * Candid types as JSON Schemas (2020-12, the dialect of OpenAPI 3.1) of the default JSON encoding
 * (docs/json-encoding.md).
 *
 * One schema serves requests and answers: it describes the encoder's output, and of the other accepted forms those that
 * people use (a variant's bare tag, a missing key of an `opt`). Definitions become components of the same name and are
 * referred to, so that recursion ends and nothing is written twice; a type without a name is written in place.
 */
import {
  type DescribedField,
  type DescribedParameter,
  type DescribedType,
  type PlainKind,
  resolveNamed,
} from '../codec/description/index.ts';
import { FreeNames } from './free-names.ts';
import { signatureOf } from './signature.ts';
import { SCHEMA_BYTES, type SizeBudget } from './size-budget.ts';

export type JsonSchema = Readonly<Record<string, unknown>>;

const DECIMAL = '^(0|[1-9][0-9]*)$';
const SIGNED_DECIMAL = '^(0|-?[1-9][0-9]*)$';

function bigInteger(kind: string, range: string, bounds: JsonSchema, pattern: string): JsonSchema {
  return {
    description: `Candid ${kind}: ${range}. A number up to 2^53 - 1 in size, else a decimal string; both are accepted.`,
    anyOf: [
      { type: 'integer', ...bounds },
      { type: 'string', pattern },
    ],
    examples: [1],
  };
}

function smallInteger(minimum: number, maximum: number): JsonSchema {
  return { type: 'integer', minimum, maximum };
}

function float(kind: string): JsonSchema {
  return {
    description: `Candid ${kind}; what JSON has no number for is a string.`,
    anyOf: [{ type: 'number' }, { type: 'string', enum: ['NaN', 'Infinity', '-Infinity'] }],
    examples: [1.5],
  };
}

const PRINCIPAL_PATTERN = '^[a-z2-7]{1,5}(-[a-z2-7]{1,5})*$';

/** Unnamed types that need more than a few words: components under their own names, which no definition can have. */
const SHARED = {
  nat: bigInteger('nat', 'a natural number of any size', { minimum: 0 }, DECIMAL),
  int: bigInteger('int', 'an integer of any size', {}, SIGNED_DECIMAL),
  nat64: bigInteger('nat64', '0 to 2^64 - 1', { minimum: 0 }, DECIMAL),
  int64: bigInteger('int64', '-2^63 to 2^63 - 1', {}, SIGNED_DECIMAL),
  float32: float('float32'),
  float64: float('float64'),
  blob: {
    description: 'Bytes (Candid blob, or vec nat8) in base64.',
    type: 'string',
    contentEncoding: 'base64',
    pattern: '^[A-Za-z0-9+/]*={0,2}$',
    examples: ['AP8='],
  },
  principal: {
    description: 'A principal as text.',
    type: 'string',
    pattern: PRINCIPAL_PATTERN,
    examples: ['aaaaa-aa'],
  },
  service: {
    description: 'An actor: its principal as text.',
    type: 'string',
    pattern: PRINCIPAL_PATTERN,
    examples: ['aaaaa-aa'],
  },
  func: {
    description: 'A method of an actor.',
    type: 'object',
    properties: {
      principal: { description: 'The actor.', type: 'string', pattern: PRINCIPAL_PATTERN },
      method: { description: 'The name of its method.', type: 'string' },
    },
    required: ['principal', 'method'],
    additionalProperties: false,
    examples: [{ principal: 'aaaaa-aa', method: 'raw_rand' }],
  },
} as const satisfies Readonly<Record<string, JsonSchema>>;

const INLINE = {
  null: { type: 'null' },
  bool: { type: 'boolean' },
  text: { type: 'string' },
  nat8: smallInteger(0, 2 ** 8 - 1),
  nat16: smallInteger(0, 2 ** 16 - 1),
  nat32: smallInteger(0, 2 ** 32 - 1),
  int8: smallInteger(-(2 ** 7), 2 ** 7 - 1),
  int16: smallInteger(-(2 ** 15), 2 ** 15 - 1),
  int32: smallInteger(-(2 ** 31), 2 ** 31 - 1),
  reserved: { description: 'Anything; null in answers.' },
  empty: { description: 'There is no value of this type.', not: {} },
} as const satisfies Readonly<Record<Exclude<PlainKind, keyof typeof SHARED>, JsonSchema>>;

/** Schema that no value fits. */
const NEVER: JsonSchema = { not: {} };

/** Schemas of an interface's types, and the components that they refer to. */
export class Schemas {
  readonly #budget: SizeBudget;
  readonly #components = new Map<string, JsonSchema>();
  readonly #names = new Map<DescribedType, string>();
  readonly #free = new FreeNames();
  /** Definitions that are referred to and not written yet: written later, because a chain of them may be long. */
  readonly #pending: (DescribedType & { readonly kind: 'named' })[] = [];

  constructor(budget: SizeBudget) {
    this.#budget = budget;
  }

  /** Adds a component under its name, or under a similar one if a definition has that name. */
  add(wanted: string, schema: JsonSchema): JsonSchema {
    const name = this.#nameFor(wanted);
    this.#components.set(name, schema);
    return this.#refTo(name);
  }

  /** Returns all components that were referred to, by name. */
  components(): Readonly<Record<string, JsonSchema>> {
    // `__proto__` would be no key of an ordinary object; names here consist of letters, digits and `_`.
    return Object.fromEntries([...this.#components].sort(([left], [right]) => (left < right ? -1 : 1)));
  }

  /** Returns the schema of the JSON array of arguments, of which the last may be missing if they may be `null`. */
  argumentsOf(parameters: readonly DescribedParameter[], doc: string): JsonSchema {
    return this.#listOf(parameters, doc, requiredCount(parameters));
  }

  /** Returns the schema of the JSON array of results. */
  resultsOf(parameters: readonly DescribedParameter[], doc: string): JsonSchema {
    return this.#listOf(parameters, doc, parameters.length);
  }

  #listOf(parameters: readonly DescribedParameter[], doc: string, minItems: number): JsonSchema {
    this.#budget.spendJson(doc);
    if (parameters.length === 0) return { description: doc, type: 'array', maxItems: 0 };
    const prefixItems = parameters.map(({ name, type }) => {
      const schema = this.#schemaOf(type);
      if (name === undefined) return schema;
      this.#budget.spendJson(name);
      return { ...schema, title: name };
    });
    this.#writePending();
    return { description: doc, ...tuple(prefixItems), minItems };
  }

  #writePending(): void {
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) {
      const { doc, definition } = next;
      const schema = this.#schemaOf(definition);
      this.#components.set(this.#names.get(next) ?? next.name, this.#documented(schema, doc));
    }
  }

  #schemaOf(type: DescribedType): JsonSchema {
    this.#budget.spend(SCHEMA_BYTES);
    switch (type.kind) {
      case 'named':
        return this.#named(type);
      case 'opt':
        return this.#opt(type.inner);
      case 'vec':
        return { type: 'array', items: this.#schemaOf(type.inner) };
      case 'record':
        if (type.isTuple) return tuple(type.fields.map((field) => this.#fieldOf(field)));
        return this.#record(type.fields);
      case 'variant':
        return this.#variant(type.fields);
      case 'func': {
        const signature = signatureOf(type);
        this.#budget.spendJson(signature);
        return { ...this.#shared('func'), description: signature };
      }
      default:
        return type.kind in INLINE
          ? INLINE[type.kind as keyof typeof INLINE]
          : this.#shared(type.kind as keyof typeof SHARED);
    }
  }

  #named(type: DescribedType & { readonly kind: 'named' }): JsonSchema {
    let name = this.#names.get(type);
    if (name === undefined) {
      name = this.#nameFor(type.name);
      this.#names.set(type, name);
      this.#pending.push(type);
    }
    return this.#refTo(name);
  }

  #shared(kind: keyof typeof SHARED): JsonSchema {
    if (!this.#components.has(kind)) this.#components.set(kind, SHARED[kind]);
    return refTo(kind);
  }

  #nameFor(wanted: string): string {
    // Tools that keep components in ordinary objects would lose this one.
    const name = this.#free.take(wanted === '__proto__' ? 'proto' : wanted);
    this.#budget.spend(SCHEMA_BYTES + name.length);
    return name;
  }

  /** Returns a reference. Each one contains the name, and a definition may have one of a hundred thousand letters. */
  #refTo(name: string): JsonSchema {
    this.#budget.spend(name.length);
    return refTo(name);
  }

  #opt(inner: DescribedType): JsonSchema {
    const schema = this.#schemaOf(inner);
    if (!isNullable(inner)) return { anyOf: [schema, { type: 'null' }] };
    return { description: '[] for null, [value] for a value.', type: 'array', items: schema, maxItems: 1 };
  }

  #record(fields: readonly DescribedField[]): JsonSchema {
    const properties = Object.fromEntries(fields.map((field) => [field.label, this.#fieldOf(field)]));
    const required = fields.filter(({ type }) => !isNullable(type)).map(({ label }) => label);
    this.#budget.spendJson(required);
    const needs = required.length === 0 ? {} : { required };
    return { type: 'object', properties, ...needs, additionalProperties: false };
  }

  #fieldOf({ label, doc, type }: DescribedField): JsonSchema {
    this.#budget.spendJson(label);
    return this.#documented(this.#schemaOf(type), doc);
  }

  #variant(tags: readonly DescribedField[]): JsonSchema {
    if (tags.length === 0) return { ...NEVER, description: 'There is no value of this type.' };
    const forms = tags.map((tag) => this.#formOf(tag));
    const bare = tags.filter(({ type }) => resolveNamed(type).kind === 'null').map(({ label }) => label);
    if (bare.length > 0) {
      const description = 'A tag alone is accepted, too; answers have the object.';
      forms.push({ description, type: 'string', enum: bare });
      this.#budget.spendJson(bare);
    }
    return { oneOf: forms };
  }

  #formOf(tag: DescribedField): JsonSchema {
    this.#budget.spend(SCHEMA_BYTES);
    this.#budget.spendJson(tag.label);
    const properties = { [tag.label]: this.#fieldOf(tag) };
    return { type: 'object', properties, required: [tag.label], additionalProperties: false };
  }

  #documented(schema: JsonSchema, doc: string | undefined): JsonSchema {
    if (doc === undefined) return schema;
    this.#budget.spendJson(doc);
    const { description } = schema;
    return { ...schema, description: typeof description === 'string' ? `${doc}\n\n${description}` : doc };
  }
}

/** Returns true if a value may be `null`, so that an `opt` of it is wrapped, and a key of it may be missing. */
export function isNullable(type: DescribedType): boolean {
  const { kind } = resolveNamed(type);
  return kind === 'null' || kind === 'opt' || kind === 'reserved';
}

/** Returns how many arguments a request must have. */
export function requiredCount(parameters: readonly DescribedParameter[]): number {
  return parameters.findLastIndex(({ type }) => !isNullable(type)) + 1;
}

function tuple(prefixItems: readonly JsonSchema[]): JsonSchema {
  const { length } = prefixItems;
  return { type: 'array', prefixItems, items: false, minItems: length, maxItems: length };
}

function refTo(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}
