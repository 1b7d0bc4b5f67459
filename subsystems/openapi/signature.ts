/** Types as in .did files, for descriptions: short, so long and deep parts are left out. */
import {
  type DescribedField,
  type DescribedParameter,
  type DescribedType,
  labelWord,
  nameWord,
} from '../codec/description/index.ts';

const CHARACTERS_MAX = 300;
const DEPTH_MAX = 4;
/** Matches a lone half of a surrogate pair at the end. */
const HALF_AT_END = /[\ud800-\udbff]$/;

type FunctionType = Pick<DescribedType & { readonly kind: 'func' }, 'parameters' | 'results' | 'annotation'>;

/** Returns text like `func (nat, name : text) -> (Balance) query`. */
export function signatureOf({ parameters, results, annotation }: FunctionType): string {
  const writer = new SignatureWriter();
  writer.function({ parameters, results, annotation }, 0);
  return writer.text;
}

class SignatureWriter {
  #text = '';

  get text(): string {
    if (this.#text.length <= CHARACTERS_MAX) return this.#text;
    return `${this.#text.slice(0, CHARACTERS_MAX).replace(HALF_AT_END, '')}…`;
  }

  #write(text: string): void {
    if (this.#text.length <= CHARACTERS_MAX) this.#text += text;
  }

  function({ parameters, results, annotation }: FunctionType, depth: number): void {
    this.#write('func ');
    this.#list(parameters, depth);
    this.#write(' -> ');
    this.#list(results, depth);
    if (annotation !== undefined) this.#write(` ${annotation}`);
  }

  #list(parameters: readonly DescribedParameter[], depth: number): void {
    this.#write('(');
    for (const [at, { name, type }] of parameters.entries()) {
      if (this.#text.length > CHARACTERS_MAX) return;
      if (at > 0) this.#write(', ');
      if (name !== undefined) this.#write(`${nameWord(name)} : `);
      this.#type(type, depth);
    }
    this.#write(')');
  }

  #type(type: DescribedType, depth: number): void {
    if (depth > DEPTH_MAX) {
      this.#write('…');
      return;
    }
    switch (type.kind) {
      case 'named':
        this.#write(type.name);
        return;
      case 'opt':
      case 'vec':
        this.#write(`${type.kind} `);
        this.#type(type.inner, depth + 1);
        return;
      case 'record':
      case 'variant':
        this.#write(`${type.kind} {`);
        this.#fields(type.fields, type.kind === 'record' && type.isTuple, depth);
        this.#write(' }');
        return;
      case 'func':
        this.function(type, depth + 1);
        return;
      default:
        this.#write(type.kind);
    }
  }
  #fields(fields: readonly DescribedField[], isTuple: boolean, depth: number): void {
    for (const [at, { label, type }] of fields.entries()) {
      if (this.#text.length > CHARACTERS_MAX) return;
      this.#write(at === 0 ? ' ' : '; ');
      if (!isTuple) this.#write(`${labelWord(label)} : `);
      this.#type(type, depth + 1);
    }
  }
}
