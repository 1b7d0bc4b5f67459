/** Writes form values as Candid text, `(42 : nat8, record { a = "x" })`: as tools that know no types read it. */
import { type ConcreteType, type DidType, type Field, resolve } from './did-types.ts';
import { base64Of, type FormArgument, plainFloat, plainInteger } from './encode-form.ts';
import type { FormValue } from './form-value.ts';

/** Returns the text of arguments in which `encodeForm` finds no problem. */
export function candidText(values: readonly FormArgument[]): string {
  return `(${values.map(({ type, value }) => textOf(type, value)).join(', ')})`;
}

/** Words that are no names of fields unless they are quoted. */
const WORDS = new Set(
  (
    'blob bool composite_query empty false float32 float64 func import inf int int16 int32 int64 int8 nan nat nat16 ' +
    'nat32 nat64 nat8 null oneway opt principal query record reserved service text true type variant vec'
  ).split(' '),
);

function textOf(named: DidType, value: FormValue): string {
  const type = resolve(named);
  switch (value.kind) {
    case 'text':
      return scalarText(type, value.text);
    case 'bool':
      return String(value.isTrue);
    case 'blob':
      return `blob "${blobText(base64Of(value.encoding, value.text) ?? '')}"`;
    case 'opt':
      if (type.kind !== 'opt' || !value.isSome || value.value === undefined) return 'null';
      return `opt ${operand(textOf(type.inner, value.value))}`;
    case 'vec': {
      const inner = type.kind === 'vec' ? type.inner : type;
      return block(
        'vec',
        value.items.map((item) => textOf(inner, item)),
      );
    }
    case 'record':
      return block('record', fieldTexts(type, value.fields));
    case 'variant':
      return block('variant', tagText(type, value));
    case 'func':
      return `func ${quoted(value.principal.trim())}.${nameText(value.method)}`;
    case 'nothing':
      return type.kind === 'reserved' ? 'null : reserved' : 'null';
  }
}

function scalarText(type: ConcreteType, typed: string): string {
  const { kind } = type;
  if (kind === 'text') return quoted(typed);
  const text = typed.trim();
  if (kind === 'principal' || kind === 'service') return `${kind} ${quoted(text)}`;
  if (kind === 'float64' || kind === 'float32') {
    const number = floatText(plainFloat(text));
    return kind === 'float64' && /[.e]/.test(number) ? number : `${number} : ${kind}`;
  }
  return kind === 'int' ? plainInteger(text) : `${plainInteger(text)} : ${kind}`;
}

/** Returns the number with a point or an exponent: without, it would be an integer. */
function floatText(plain: string): string {
  if (plain === 'NaN') return 'nan';
  if (plain.endsWith('Infinity')) return plain.replace('Infinity', 'inf');
  return /[.e]/.test(plain) ? plain : `${plain}.0`;
}

/** Puts a value with a type into parentheses, as behind `opt`. */
function operand(text: string): string {
  return / : \w+$/.test(text) ? `(${text})` : text;
}

function block(word: string, parts: readonly string[]): string {
  return parts.length === 0 ? `${word} {}` : `${word} { ${parts.join('; ')} }`;
}

function fieldsOf(type: ConcreteType): readonly Field[] {
  return type.kind === 'record' || type.kind === 'variant' ? type.fields : [];
}

function fieldTexts(type: ConcreteType, values: readonly FormValue[]): readonly string[] {
  return fieldsOf(type).flatMap((field, index) => {
    const value = values[index];
    return value === undefined ? [] : [`${labelText(field)} = ${textOf(field.type, value)}`];
  });
}

function tagText(type: ConcreteType, { tag, values }: FormValue & { kind: 'variant' }): readonly string[] {
  const field = tag === undefined ? undefined : fieldsOf(type)[tag];
  const payload = tag === undefined ? undefined : values.get(tag);
  if (field === undefined || payload === undefined) return [];
  const isBare = resolve(field.type).kind === 'null';
  return [isBare ? labelText(field) : `${labelText(field)} = ${textOf(field.type, payload)}`];
}

function labelText({ id, label }: Field): string {
  return label === `_${id}_` ? String(id) : nameText(label);
}

function nameText(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) && !WORDS.has(name) ? name : quoted(name);
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': String.raw`\"`,
  '\\': String.raw`\\`,
  '\n': String.raw`\n`,
  '\r': String.raw`\r`,
  '\t': String.raw`\t`,
};

/** Quotes a text; what is invisible in it, or changes the direction of writing, is escaped. */
function quoted(text: string): string {
  const escaped = text
    .toWellFormed()
    .replaceAll(
      /["\\\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu,
      (character) => ESCAPES[character] ?? String.raw`\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
    );
  return `"${escaped}"`;
}

/** Returns bytes as the text of a blob: letters as they are, others as two hex digits. */
function blobText(base64: string): string {
  return atob(base64).replaceAll(
    /[^\x20\x21\x23-\x5b\x5d-\x7e]/g,
    (byte) => `\\${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}
