import { type CandidField, type CandidType, isBlob, isTuple, Op, TYPE_NAMES } from '../codec/interface-types/index.ts';

/** Limits of a type in a report for people: longer and deeper ones are cut. */
const CHARACTERS_MAX = 160;
const DEPTH_MAX = 6;
const CUT = '…';
const ANNOTATIONS = ['', ' query', ' oneway', ' composite_query'] as const;

/** Returns a type as in a .did file, cut where it becomes long or leads back to itself. */
export function typeText(type: CandidType): string {
  const text = new TypePrinter().textOf(type, 0);
  return text.length > CHARACTERS_MAX ? `${text.slice(0, CHARACTERS_MAX)}${CUT}` : text;
}

/** Returns the annotations of a function as text. */
export function annotationsText(type: CandidType): string {
  return type.annotations.map((annotation) => ANNOTATIONS[annotation].trim()).join(' ') || 'update';
}

class TypePrinter {
  #characters = 0;

  textOf(type: CandidType, depth: number): string {
    // Parts are counted only once they are whole: the text exceeds the limit a little, never much.
    if (depth > DEPTH_MAX || this.#characters > CHARACTERS_MAX) return CUT;
    const text = this.#made(type, depth);
    this.#characters += text.length;
    return text;
  }

  #made(type: CandidType, depth: number): string {
    switch (type.op) {
      case Op.OPT:
        return `opt ${this.textOf(type.inner, depth + 1)}`;
      case Op.VEC:
        return isBlob(type) ? 'blob' : `vec ${this.textOf(type.inner, depth + 1)}`;
      case Op.RECORD:
        return `record {${this.#list(type.fields, '; ', (field) => this.#field(field, depth, isTuple(type)))}}`;
      case Op.VARIANT:
        return `variant {${this.#list(type.fields, '; ', (field) => this.#tag(field, depth))}}`;
      case Op.FUNC:
        return `func ${this.#signature(type, depth)}`;
      case Op.SERVICE:
        return `service {${this.#list(type.methods, '; ', ({ name, type: method }) => `${labelText(name)} : ${this.#signature(method, depth + 1)}`)}}`;
      default:
        return TYPE_NAMES[type.op];
    }
  }

  #field({ label, type }: CandidField, depth: number, isUnnamed: boolean): string {
    const text = this.textOf(type, depth + 1);
    return isUnnamed ? text : `${labelText(label)} : ${text}`;
  }

  #tag({ label, type }: CandidField, depth: number): string {
    return type.op === Op.NULL ? labelText(label) : `${labelText(label)} : ${this.textOf(type, depth + 1)}`;
  }

  #signature({ parameters, results, annotations }: CandidType, depth: number): string {
    const tuple = (types: readonly CandidType[]): string =>
      `(${this.#list(types, ', ', (type) => this.textOf(type, depth + 1))})`;
    return `${tuple(parameters)} -> ${tuple(results)}${annotations.map((annotation) => ANNOTATIONS[annotation]).join('')}`;
  }

  #list<T>(items: readonly T[], separator: string, textOf: (item: T) => string): string {
    const texts: string[] = [];
    for (const item of items) {
      if (this.#characters > CHARACTERS_MAX) {
        texts.push(CUT);
        break;
      }
      texts.push(textOf(item));
    }
    return texts.join(separator);
  }
}

const LABEL_CHARACTERS_MAX = 60;

/** Returns a name as in a .did file, cut if it is long. */
function labelText(label: string): string {
  const match = /^_(\d+)_$/.exec(label);
  if (match?.[1] !== undefined) return match[1];
  if (/^[A-Za-z_]\w*$/.test(label) && label.length <= LABEL_CHARACTERS_MAX) return label;
  return JSON.stringify(label.length > LABEL_CHARACTERS_MAX ? `${label.slice(0, LABEL_CHARACTERS_MAX)}${CUT}` : label);
}
