/** Encodes form values as the JSON that the server accepts (docs/json-encoding.md), in both encodings. */
import { type ConcreteType, type DidType, type Field, isNullable, isTuple, resolve } from './did-types.ts';
import type { FormValue } from './form-value.ts';
import { principalProblem } from './principal.ts';

/** Problems by the value that they belong to. */
export type Problems = Map<FormValue, string>;

export interface FormArgument {
  readonly type: DidType;
  readonly value: FormValue;
}

/**
 * Returns the JSON array of all arguments. Values that cannot be encoded are added to `problems`; the text is useless
 * then.
 */
export function encodeForm(values: readonly FormArgument[], isLossless: boolean, problems: Problems): string {
  const encoder = new Encoder(isLossless, problems);
  return `[${values.map(({ type, value }) => encoder.encode(type, value)).join(', ')}]`;
}

const INTEGER = /^[+-]?[0-9][0-9_]*$/;
const NATURAL = /^\+?[0-9][0-9_]*$/;
const FLOAT = /^[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const SPECIAL_FLOATS: ReadonlyMap<string, string> = new Map([
  ['nan', 'NaN'],
  ['inf', 'Infinity'],
  ['+inf', 'Infinity'],
  ['-inf', '-Infinity'],
  ['infinity', 'Infinity'],
  ['+infinity', 'Infinity'],
  ['-infinity', '-Infinity'],
]);
/** Middle of the largest float32 and what would follow it: numbers from here on are infinite. */
const FLOAT32_END = 2 ** 128 - 2 ** 103;
/** Numbers of so many digits differ as doubles. */
const DOUBLE_DIGITS = 15;
/** Problem of a part that is needed, but has no form. */
const NO_FORM = 'there is no form for this: write the arguments as JSON';

class Encoder {
  readonly #isLossless: boolean;
  readonly #problems: Problems;

  constructor(isLossless: boolean, problems: Problems) {
    this.#isLossless = isLossless;
    this.#problems = problems;
  }

  encode(named: DidType, value: FormValue): string {
    const type = resolve(named);
    switch (value.kind) {
      case 'text':
        return this.#text(type, value);
      case 'bool':
        return String(value.isTrue);
      case 'blob':
        return this.#blob(value);
      case 'opt':
        return this.#opt(type, value);
      case 'vec': {
        const inner = type.kind === 'vec' ? type.inner : type;
        return `[${value.items.map((item) => this.encode(inner, item)).join(', ')}]`;
      }
      case 'record':
        return this.#record(type.kind === 'record' ? type.fields : [], value.fields);
      case 'variant':
        return this.#variant(type.kind === 'variant' ? type.fields : [], value);
      case 'func':
        return this.#func(value);
      case 'nothing':
        return this.#nothing(type, value);
    }
  }

  #text(type: ConcreteType, value: FormValue & { kind: 'text' }): string {
    const { kind } = type;
    if (kind === 'text') return quote(value.text);
    const text = value.text.trim();
    if (text === '') return this.#wrong(value, `type ${article(kind)}`);
    if (kind === 'principal' || kind === 'service') {
      const problem = principalProblem(text);
      if (problem !== undefined) return this.#wrong(value, problem);
      return this.#isLossless ? marked(kind, quote(text)) : quote(text);
    }
    if (kind === 'float32' || kind === 'float64') return this.#float(kind, text, value);
    const pattern = kind.startsWith('nat') ? NATURAL : INTEGER;
    if (!pattern.test(text)) return this.#wrong(value, `expected ${article(kind)}: digits only`);
    const number = plainInteger(text);
    const range = rangeProblem(kind, number);
    if (range !== undefined) return this.#wrong(value, range);
    if (this.#isLossless) return marked(kind, quote(number));
    // Other JSON readers would round numbers beyond 2^53.
    return number.length > 15 ? quote(number) : number;
  }

  #float(kind: string, text: string, value: FormValue): string {
    const special = SPECIAL_FLOATS.get(text.toLowerCase());
    if (special === undefined && !FLOAT.test(text)) return this.#wrong(value, 'expected a number, NaN or Infinity');
    const number = Number(text.replaceAll('_', ''));
    const written = plainFloat(text);
    // At this very double the server decides: the number as it is typed may be a little smaller.
    const isTooLarge = kind === 'float32' ? Math.abs(number) > FLOAT32_END : !Number.isFinite(number);
    if (special === undefined && isTooLarge) return this.#wrong(value, `too large for a ${kind}`);
    if (this.#isLossless) return marked(kind, quote(written));
    return special === undefined ? written : quote(written);
  }

  #blob(value: FormValue & { kind: 'blob' }): string {
    if (value.problem !== undefined) return this.#wrong(value, value.problem);
    const base64 = base64Of(value.encoding, value.text);
    if (base64 === undefined) return this.#wrong(value, `this is not ${value.encoding}`);
    return this.#isLossless ? marked('blob', quote(base64)) : quote(base64);
  }

  #opt(type: ConcreteType, value: FormValue & { kind: 'opt' }): string {
    if (type.kind !== 'opt') return 'null';
    const isWrapped = isNullable(type.inner);
    if (!value.isSome) return this.#isLossless ? '{"$svc": "none"}' : isWrapped ? '[]' : 'null';
    if (value.value === undefined) return this.#wrong(value, NO_FORM);
    const inner = this.encode(type.inner, value.value);
    if (this.#isLossless) return marked('some', inner);
    return isWrapped ? `[${inner}]` : inner;
  }

  #record(fields: readonly Field[], values: readonly FormValue[]): string {
    const parts = fields.flatMap(({ id, label, type }, index) => {
      const value = values[index];
      return value === undefined ? [] : [{ id, label, json: this.encode(type, value) }];
    });
    if (!this.#isLossless && isTuple(fields)) {
      const ordered = parts.toSorted((left, right) => left.id - right.id);
      return `[${ordered.map(({ json }) => json).join(', ')}]`;
    }
    const object = `{${parts.map(({ label, json }) => `${quote(label)}: ${json}`).join(', ')}}`;
    return this.#isLossless && fields.some(({ label }) => label === '$svc') ? marked('record', object) : object;
  }

  #variant(fields: readonly Field[], value: FormValue & { kind: 'variant' }): string {
    const field = value.tag === undefined ? undefined : fields[value.tag];
    if (field === undefined || value.tag === undefined) return this.#wrong(value, 'choose one');
    const payload = value.values.get(value.tag);
    if (payload === undefined) return this.#wrong(value, NO_FORM);
    const json = this.encode(field.type, payload);
    if (this.#isLossless) return `{"$svc": "variant", "tag": ${quote(field.label)}, "value": ${json}}`;
    return `{${quote(field.label)}: ${json}}`;
  }

  #func(value: FormValue & { kind: 'func' }): string {
    const principal = value.principal.trim();
    if (principal === '') return this.#wrong(value, 'type a principal and the name of a method');
    const problem = principalProblem(principal);
    if (problem !== undefined) return this.#wrong(value, problem);
    const members = `"principal": ${quote(principal)}, "method": ${quote(value.method)}`;
    return this.#isLossless ? `{"$svc": "func", ${members}}` : `{${members}}`;
  }

  #nothing(type: ConcreteType, value: FormValue): string {
    if (type.kind === 'empty') return this.#wrong(value, 'no value of this type exists');
    return type.kind === 'reserved' && this.#isLossless ? '{"$svc": "reserved"}' : 'null';
  }

  #wrong(value: FormValue, problem: string): string {
    this.#problems.set(value, problem);
    return 'null';
  }
}

function marked(kind: string, json: string): string {
  return `{"$svc": "${kind}", "value": ${json}}`;
}

/**
 * Returns a number of a form as JavaScript writes it: `NaN`, `-Infinity`, `-0`, `1e+21`. Keeps the digits where there
 * are more than a double tells apart: rounded here and again by the server, a `float32` would become another.
 */
export function plainFloat(text: string): string {
  const special = SPECIAL_FLOATS.get(text.toLowerCase());
  if (special !== undefined) return special;
  const digits = text.replaceAll('_', '');
  const [, sign = '', whole = '', fraction = '', power = ''] = /^\+?(-?)0*(\d*)\.?(\d*)(.*)$/.exec(digits) ?? [];
  if (whole.length + fraction.length > DOUBLE_DIGITS)
    return `${sign}${whole === '' ? '0' : whole}${fraction === '' ? '' : `.${fraction}`}${power}`;
  const number = Number(digits);
  return Object.is(number, -0) ? '-0' : String(number);
}

/** Returns the digits without signs, separators and leading zeros. */
export function plainInteger(text: string): string {
  const digits = text.replaceAll(/[+_-]/g, '').replace(/^0+(?=\d)/, '');
  return text.startsWith('-') && digits !== '0' ? `-${digits}` : digits;
}

/** Returns the problem of a number that its type does not hold. */
function rangeProblem(kind: string, digits: string): string | undefined {
  const bits = Number(/\d+$/.exec(kind)?.[0] ?? 0);
  if (bits === 0) return undefined;
  const [min, max] = kind.startsWith('nat')
    ? [0n, 2n ** BigInt(bits) - 1n]
    : [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n];
  // The largest has 20 digits: longer texts would take long to read.
  const isInside = digits.length <= 21 && BigInt(digits) >= min && BigInt(digits) <= max;
  return isInside ? undefined : `${article(kind)} is from ${min} to ${max}`;
}

function article(kind: string): string {
  return /^[aeiou]/.test(kind) ? `an ${kind}` : `a ${kind}`;
}

/** Returns the input as standard base64; undefined if it is not in the stated encoding. */
export function base64Of(encoding: 'text' | 'hex' | 'base64', text: string): string | undefined {
  if (encoding === 'text') return base64OfBytes(new TextEncoder().encode(text));
  const packed = text.replaceAll(/\s/g, '');
  if (encoding === 'hex') {
    const digits = packed.replace(/^0x/i, '');
    if (!/^(?:[0-9a-f]{2})*$/i.test(digits)) return undefined;
    return base64OfBytes(Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)));
  }
  try {
    return btoa(atob(packed.replaceAll('-', '+').replaceAll('_', '/')));
  } catch {
    return undefined;
  }
}

export function base64OfBytes(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let start = 0; start < bytes.length; start += 8192)
    parts.push(String.fromCharCode(...bytes.subarray(start, start + 8192)));
  return btoa(parts.join(''));
}

/**
 * Returns a JSON string in which no character is invisible or changes the direction of writing, so that it is readable
 * wherever it is pasted.
 */
export function quote(text: string): string {
  return JSON.stringify(text).replaceAll(
    /[\u007f-\u009f\u061c\u115f\u1160\u200b-\u200f\u2028-\u202e\u2060-\u2069\u2800\u3164\ufeff\uffa0]|\u034f/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
