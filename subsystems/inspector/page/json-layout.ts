/**
 * Lays out JSON text in lines. It works on the text, without parsing numbers or keys, so that nothing that a reader
 * wants to see exactly (`-0`, `1e400`, the order of keys) changes.
 */
type JsonTokenKind = 'key' | 'string' | 'number' | 'word' | 'sign' | 'space';

export interface JsonToken {
  readonly kind: JsonTokenKind;
  readonly text: string;
}

/** Arrays and objects up to this width stay on one line. */
const LINE_CHARACTERS_MAX = 66;
const INDENT = '  ';
/** Deeper lines are not indented further. */
const INDENT_LEVELS_MAX = 40;
const TOKEN = /\s+|"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[a-z]+|[{}[\],:]/y;

/** Returns the text's tokens with blanks and line feeds between them; undefined if the text is not JSON. */
export function layoutJson(text: string): readonly JsonToken[] | undefined {
  const signs = scan(text);
  if (signs === undefined) return undefined;
  const ends = bracketEnds(signs);
  if (ends === undefined) return undefined;
  return new Layout(signs, ends).run();
}

function scan(text: string): readonly string[] | undefined {
  const signs: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const match = TOKEN.exec(text);
    if (match === null) return undefined;
    if (match[0].trim() !== '') signs.push(match[0]);
  }
  return signs;
}

interface Extent {
  /** Index of the closing bracket. */
  readonly end: number;
  /** Width on one line. */
  readonly width: number;
}

/** Returns the extent of each opening bracket; undefined if the brackets do not match. */
function bracketEnds(signs: readonly string[]): ReadonlyMap<number, Extent> | undefined {
  const ends = new Map<number, Extent>();
  const open: { readonly start: number; readonly widthBefore: number }[] = [];
  let width = 0;
  for (const [index, sign] of signs.entries()) {
    if (sign === '{' || sign === '[') open.push({ start: index, widthBefore: width });
    width += sign.length + (sign === ',' || sign === ':' ? 1 : 0);
    if (sign !== '}' && sign !== ']') continue;
    const opening = open.pop();
    if (opening === undefined) return undefined;
    ends.set(opening.start, { end: index, width: width - opening.widthBefore });
  }
  return open.length === 0 ? ends : undefined;
}

class Layout {
  readonly #signs: readonly string[];
  readonly #ends: ReadonlyMap<number, Extent>;
  readonly #tokens: JsonToken[] = [];
  #level = 0;

  constructor(signs: readonly string[], ends: ReadonlyMap<number, Extent>) {
    this.#signs = signs;
    this.#ends = ends;
  }

  run(): readonly JsonToken[] {
    /** Everything up to this index is on one line. */
    let inlineUntil = -1;
    for (const [index, sign] of this.#signs.entries()) {
      const isInline = index <= inlineUntil;
      const extent = this.#ends.get(index);
      if (extent !== undefined && !isInline && extent.width + this.#level * 2 <= LINE_CHARACTERS_MAX) {
        inlineUntil = extent.end;
        this.#put('sign', sign);
      } else if (isInline) this.#inline(index, sign);
      else this.#inLines(index, sign);
    }
    return this.#tokens;
  }

  #inline(index: number, sign: string): void {
    this.#put(this.#kindOf(index), sign);
    if (sign === ',' || sign === ':') this.#put('space', ' ');
  }

  #inLines(index: number, sign: string): void {
    const isEnd = sign === '}' || sign === ']';
    if (isEnd) {
      this.#level--;
      if (!this.#ends.has(index - 1)) this.#break();
    }
    this.#put(this.#kindOf(index), sign);
    if (sign === '{' || sign === '[') {
      this.#level++;
      const isEmpty = this.#ends.get(index)?.end === index + 1;
      if (!isEmpty) this.#break();
    } else if (sign === ',') this.#break();
    else if (sign === ':') this.#put('space', ' ');
  }

  #kindOf(index: number): JsonTokenKind {
    const sign = this.#signs[index] ?? '';
    if (sign.startsWith('"')) return this.#signs[index + 1] === ':' ? 'key' : 'string';
    if (/^[a-z]/.test(sign)) return 'word';
    return /^[-0-9]/.test(sign) ? 'number' : 'sign';
  }

  #break(): void {
    this.#put('space', `\n${INDENT.repeat(Math.min(this.#level, INDENT_LEVELS_MAX))}`);
  }

  #put(kind: JsonTokenKind, text: string): void {
    this.#tokens.push({ kind, text });
  }
}
