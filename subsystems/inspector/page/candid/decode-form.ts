/** Reads JSON arguments, in either encoding (docs/json-encoding.md), into the values of a form. */
import { type DidType, type Field, isNullable, isTuple, resolve } from './did-types.ts';
import { emptyValue, type FormValue } from './form-value.ts';

/** Deeper values are left to the JSON itself. */
const DEPTH_MAX = 200;
/** Items that a form shows. */
const ITEMS_MAX = 2_000;

/** A number as it is written, so that none is rounded. */
class NumberText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Returns the values; throws an Error with the place of what does not fit the types. */
export function decodeForm(types: readonly DidType[], json: string, isLossless: boolean): readonly FormValue[] {
  const parsed = parseExactly(json);
  if (!Array.isArray(parsed)) throw new Error('expected a JSON array of arguments: [ … ]');
  if (parsed.length > types.length) throw new Error(`the method takes ${types.length} arguments, not ${parsed.length}`);
  const decoder = new Decoder(isLossless);
  return types.map((type, index) => decoder.decode(type, parsed[index] ?? null, `argument ${index + 1}`, 0));
}

/** Parses JSON; numbers stay as they are written where the browser tells how. */
function parseExactly(json: string): unknown {
  const revive = (_key: string, value: unknown, context?: { readonly source?: string }): unknown =>
    typeof value === 'number' ? new NumberText(context?.source ?? String(value)) : value;
  return JSON.parse(json, revive) as unknown;
}

type Members = Readonly<Record<string, unknown>>;

class Decoder {
  readonly #isLossless: boolean;

  constructor(isLossless: boolean) {
    this.#isLossless = isLossless;
  }

  decode(named: DidType, json: unknown, place: string, depth: number): FormValue {
    if (depth > DEPTH_MAX) throw new Error(`${place}: too deep for a form`);
    const type = resolve(named);
    const form = emptyValue(type);
    switch (form.kind) {
      case 'text':
        form.text = this.#text(json, place);
        return form;
      case 'bool':
        if (typeof json !== 'boolean') throw wrong(place, 'true or false');
        form.isTrue = json;
        return form;
      case 'blob': {
        const bytes = this.#plain(json);
        form.encoding = 'base64';
        if (typeof bytes === 'string') form.text = bytes;
        else if (Array.isArray(bytes)) form.text = base64Of(bytes, place);
        else throw wrong(place, 'base64');
        return form;
      }
      case 'opt':
        if (type.kind === 'opt') this.#opt(form, type.inner, json, place, depth);
        return form;
      case 'vec': {
        if (!Array.isArray(json)) throw wrong(place, 'an array');
        if (json.length > ITEMS_MAX) throw new Error(`${place}: ${json.length} items are too many for a form`);
        const { inner } = type as { readonly inner: DidType };
        form.items.push(...json.map((item, index) => this.decode(inner, item, `${place}[${index}]`, depth + 1)));
        return form;
      }
      case 'record':
        return {
          kind: 'record',
          fields: this.#fields((type as { fields: readonly Field[] }).fields, json, place, depth),
        };
      case 'variant':
        this.#variant(form, (type as { fields: readonly Field[] }).fields, json, place, depth);
        return form;
      case 'func': {
        const { principal, method } = membersOf(json, place);
        if (typeof principal !== 'string' || typeof method !== 'string') throw wrong(place, 'principal and method');
        return { kind: 'func', principal, method };
      }
      case 'nothing':
        return form;
    }
  }

  /** Takes a mark of the lossless encoding off. */
  #plain(json: unknown): unknown {
    if (!this.#isLossless || typeof json !== 'object' || json === null || !('$svc' in json)) return json;
    return (json as Members)['value'];
  }

  #text(json: unknown, place: string): string {
    const plain = this.#plain(json);
    if (plain instanceof NumberText) return plain.text;
    if (typeof plain !== 'string') throw wrong(place, 'a text or a number');
    return plain;
  }

  #opt(form: FormValue & { kind: 'opt' }, inner: DidType, json: unknown, place: string, depth: number): void {
    let value: unknown = json;
    if (this.#isLossless) {
      if (json === null || (json as Members)['$svc'] === 'none') return;
      value = this.#plain(json);
    } else if (isNullable(inner)) {
      if (json === null || !Array.isArray(json) || json.length === 0) return;
      value = json[0];
    } else if (json === null) return;
    form.isSome = true;
    form.value = this.decode(inner, value, place, depth + 1);
  }

  #fields(fields: readonly Field[], json: unknown, place: string, depth: number): readonly FormValue[] {
    const isArray = Array.isArray(json);
    if (isArray && !isTuple(fields)) throw wrong(place, 'an object');
    const isMarked = !isArray && this.#isLossless && (json as Members | null)?.['$svc'] === 'record';
    const members = isArray ? {} : membersOf(isMarked ? this.#plain(json) : json, place);
    return fields.map(({ id, label, type }) => {
      const member = isArray
        ? (json as readonly unknown[])[id]
        : Object.hasOwn(members, label)
          ? members[label]
          : undefined;
      if (member === undefined && !isNullable(type)) throw new Error(`${place}: ${label} is missing`);
      return this.decode(type, member ?? null, `${place}.${label}`, depth + 1);
    });
  }

  #variant(
    form: FormValue & { kind: 'variant' },
    fields: readonly Field[],
    json: unknown,
    place: string,
    depth: number,
  ): void {
    // Untouched: the form's own JSON has null for a variant whose tag nobody has chosen.
    if (json === null) return;
    const members = typeof json === 'string' ? { [json]: null } : membersOf(json, place);
    const isMarked = this.#isLossless && members['$svc'] === 'variant';
    const [tag, payload] = isMarked ? [members['tag'], members['value']] : (Object.entries(members)[0] ?? []);
    const at = fields.findIndex(({ label }) => label === tag);
    const field = fields[at];
    if (field === undefined) throw wrong(place, `one of ${fields.map(({ label }) => label).join(', ')}`);
    form.tag = at;
    form.values.set(at, this.decode(field.type, payload ?? null, `${place}.${field.label}`, depth + 1));
  }
}

function membersOf(json: unknown, place: string): Members {
  if (typeof json !== 'object' || json === null || Array.isArray(json) || json instanceof NumberText) {
    throw wrong(place, 'an object');
  }
  return json as Members;
}

function base64Of(bytes: readonly unknown[], place: string): string {
  const codes = bytes.map((byte) => (byte instanceof NumberText ? Number(byte.text) : Number.NaN));
  if (!codes.every((code) => Number.isInteger(code) && code >= 0 && code < 256)) throw wrong(place, 'bytes');
  return btoa(codes.map((code) => String.fromCharCode(code)).join(''));
}

function wrong(place: string, expected: string): Error {
  return new Error(`${place}: expected ${expected}`);
}
