import { type DidType, type Field, isBlob, isTuple, type Parameter } from './did-types.ts';

/** Largest length of a type's text; a cut text ends with `…`. */
const TEXT_CHARACTERS_MAX = 400;

/** Returns the type's text with its names; long texts are cut. */
export function typeText(type: DidType): string {
  const writer = new TypeWriter();
  writer.type(type);
  return writer.text.length > TEXT_CHARACTERS_MAX ? `${writer.text.slice(0, TEXT_CHARACTERS_MAX)}…` : writer.text;
}

/** Appends types to a text, until the text is long enough. */
class TypeWriter {
  text = '';

  type(type: DidType): void {
    if (this.#isFull()) return;
    switch (type.kind) {
      case 'name':
        this.text += type.name;
        return;
      case 'vec':
      case 'opt':
        if (isBlob(type)) this.text += 'blob';
        else {
          this.text += `${type.kind} `;
          this.type(type.inner);
        }
        return;
      case 'record':
        this.#fields(type.kind, type.fields, !isTuple(type.fields));
        return;
      case 'variant':
        this.#fields(type.kind, type.fields, true);
        return;
      case 'func':
        this.#tuple(type.parameters);
        this.text += ' -> ';
        this.#tuple(type.results);
        if (type.annotation !== undefined) this.text += ` ${type.annotation}`;
        return;
      case 'service':
        this.text += 'service { … }';
        return;
      default:
        this.text += type.kind;
    }
  }

  #fields(kind: 'record' | 'variant', fields: readonly Field[], areNamed: boolean): void {
    this.text += `${kind} { `;
    this.#list(fields, '; ', ({ label, type }) => {
      if (areNamed) this.text += label;
      if (kind === 'variant' && type.kind === 'null') return;
      if (areNamed) this.text += ' : ';
      this.type(type);
    });
    this.text += ' }';
  }

  #tuple(parameters: readonly Parameter[]): void {
    this.text += '(';
    this.#list(parameters, ', ', ({ name, type }) => {
      if (name !== undefined) this.text += `${name} : `;
      this.type(type);
    });
    this.text += ')';
  }

  #list<T>(items: readonly T[], separator: string, write: (item: T) => void): void {
    for (const [index, item] of items.entries()) {
      if (this.#isFull()) return;
      if (index > 0) this.text += separator;
      write(item);
    }
  }

  #isFull(): boolean {
    return this.text.length > TEXT_CHARACTERS_MAX;
  }
}
