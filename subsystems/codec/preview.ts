import { CandidReader } from './candid-reader.ts';
import { integerReader } from './decode-values.ts';
import { isInteger } from './encode-values.ts';
import { escapeText } from './escape-text.ts';
import { float32Text, floatText } from './json-output.ts';
import { principalToText } from '../ic/index.ts';
import { SkipTable } from './skip-candid.ts';
import { decodeHeader } from './type-table.ts';
import { isTuple, Op, TYPE_NAMES, type CandidType } from './types.ts';

/*
 * Candid messages as value text, for people who read logs: limited in length, without work for parts that are not
 * shown. Messages do not contain the names of fields, so their ids are shown.
 */

const PLAIN = /^[\x20-\x21\x23-\x5b\x5d-\x7e]*$/;

/**
 * Returns the first characters of a message as Candid text; throws a ServerError if that part is not Candid. `isCut`:
 * only the first bytes of the message are there, and the text ends with them.
 */
export function previewMessage(candid: Uint8Array, charactersMax: number, isCut = false): string {
  const reader = new CandidReader();
  reader.start(candid, 'message');
  const graph = decodeHeader(reader);
  const printer = new PreviewPrinter(reader, new SkipTable(graph.nodes.length), charactersMax, isCut);
  try {
    printer.printList('(', graph.roots, ')');
  } catch (error) {
    if (!(isCut && reader.hasRunOut)) throw error;
    printer.isFull = true;
  }
  if (!isCut && !printer.isFull && reader.remaining > 0) throw reader.fail('bytes are left over');
  return printer.text;
}

class PreviewPrinter {
  readonly #reader: CandidReader;
  readonly #skips: SkipTable;
  readonly #charactersMax: number;
  readonly #isCut: boolean;
  #text = '';
  /** True if the next addition is the last part of the cut message. */
  #isAtCut = false;
  isFull = false;

  constructor(reader: CandidReader, skips: SkipTable, charactersMax: number, isCut: boolean) {
    this.#isCut = isCut;
    this.#reader = reader;
    this.#skips = skips;
    this.#charactersMax = charactersMax;
  }

  get text(): string {
    if (!this.isFull) return this.#text;
    const cut = this.#text.slice(0, Math.max(0, this.#charactersMax - 1));
    // A lone half of a surrogate pair is removed.
    return `${/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut}${this.#charactersMax > 0 ? '…' : ''}`;
  }

  #add(text: string): void {
    if (this.isFull) return;
    this.#text += text;
    if (this.#isAtCut || this.#text.length > this.#charactersMax) this.isFull = true;
  }

  printList(open: string, types: readonly CandidType[], close: string): void {
    this.#add(open);
    for (const [index, type] of types.entries()) {
      if (this.isFull) return;
      if (index > 0) this.#add(', ');
      this.#print(type);
    }
    this.#add(close);
  }

  #print(type: CandidType): void {
    const reader = this.#reader;
    if (this.isFull) return;
    reader.charge(1);
    if (isInteger(type.op)) {
      const value = integerReader(type.op)(reader);
      this.#add(type.op === Op.INT ? String(value) : `${value} : ${TYPE_NAMES[type.op]}`);
      return;
    }
    switch (type.op) {
      case Op.NULL:
        return this.#add('null');
      case Op.RESERVED:
        return this.#add('null : reserved');
      case Op.BOOL:
        return this.#add(String(reader.readFlag('a bool')));
      case Op.FLOAT32:
        return this.#add(`${floatWord(float32Text(reader.readFloat(4)))} : float32`);
      case Op.FLOAT64:
        return this.#add(`${floatWord(floatText(reader.readFloat(8)))} : float64`);
      case Op.TEXT:
        return this.#add(this.#quote('a text'));
      case Op.PRINCIPAL:
        return this.#add(`principal "${principalToText(reader.readPrincipal())}"`);
      case Op.SERVICE:
        return this.#add(`service "${principalToText(reader.readPrincipal())}"`);
      case Op.FUNC:
        return this.#printFunc();
      case Op.OPT:
        return this.#printOpt(type.inner);
      case Op.VEC:
        return type.inner.op === Op.NAT8 ? this.#add(`blob ${this.#quote('a blob')}`) : this.#printVec(type.inner);
      case Op.RECORD:
        return this.#printRecord(type);
      case Op.VARIANT:
        return this.#printVariant(type);
      default:
        throw reader.fail(`a value of the type ${TYPE_NAMES[type.op]} cannot be shown`);
    }
  }

  /** Adds a text or a blob; only as much of it is read as can be shown. */
  #quote(what: 'a text' | 'a blob' | 'a method name'): string {
    const reader = this.#reader;
    const announced = reader.readLength(what);
    const isCut = this.#isCut && announced > reader.remaining;
    if (!isCut) reader.need(announced, what);
    const length = Math.min(announced, reader.remaining);
    const start = reader.position;
    const shown = Math.min(length, (this.#charactersMax + 1) * 4);
    const isText = what !== 'a blob';
    if (isText && !isCut) reader.checkUtf8(start, start + length);
    reader.position += length;
    const bytes = Buffer.from(reader.bytes.buffer, reader.bytes.byteOffset + start, shown);
    const end = isCut ? '' : '"';
    if (isCut) this.#isAtCut = true;
    if (!isText) return `"${[...bytes].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')}${end}`;
    // The cut may have split a character.
    const text = isCut ? bytes.toString('utf8').replace(/\ufffd+$/, '') : bytes.toString('utf8');
    return `"${PLAIN.test(text) ? text : escapeText(text)}${end}`;
  }

  #printFunc(): void {
    const reader = this.#reader;
    if (!reader.readFlag('a func')) throw reader.fail('an opaque reference cannot be shown');
    const principal = principalToText(reader.readPrincipal());
    this.#add(`func "${principal}".${this.#quote('a method name')}`);
  }

  #printOpt(inner: CandidType): void {
    if (!this.#reader.readFlag('an opt')) return this.#add('null');
    // Without the parentheses the type would be that of the opt.
    const [open, close] = isShownWithType(inner) ? ['(', ')'] : ['', ''];
    this.#add(`opt ${open}`);
    const level = this.#reader.enter();
    this.#print(inner);
    this.#reader.depth = level - 1;
    this.#add(close);
  }

  #printVec(element: CandidType): void {
    const reader = this.#reader;
    const count = reader.readLength('a vec');
    if (!this.#isCut) this.#skips.checkCount(reader, element, count);
    this.#add('vec {');
    const level = reader.enter();
    for (let index = 0; index < count && !this.isFull; index++) {
      this.#add(index > 0 ? '; ' : ' ');
      this.#print(element);
    }
    reader.depth = level - 1;
    this.#add(count > 0 ? ' }' : '}');
  }

  #printRecord(type: CandidType): void {
    this.#add('record {');
    const isPositional = isTuple(type);
    const level = this.#reader.enter();
    for (const [index, field] of type.fields.entries()) {
      if (this.isFull) return;
      // Ids that count from 0 are those of a tuple, and are left out.
      this.#add(`${index > 0 ? ';' : ''} ${isPositional ? '' : `${field.id} = `}`);
      this.#print(field.type);
    }
    this.#reader.depth = level - 1;
    this.#add(type.fields.length > 0 ? ' }' : '}');
  }

  #printVariant(type: CandidType): void {
    const reader = this.#reader;
    const index = reader.readLength('a variant');
    const field = type.fields[index];
    if (field === undefined)
      throw reader.fail(`the variant has tag ${index}, and only ${type.fields.length} tags exist`);
    this.#add(`variant { ${field.id}`);
    if (field.type.op !== Op.NULL) {
      this.#add(' = ');
      const level = reader.enter();
      this.#print(field.type);
      reader.depth = level - 1;
    }
    this.#add(' }');
  }
}

/** Tells whether ` : <type>` stands behind a value. */
function isShownWithType({ op }: CandidType): boolean {
  return op === Op.FLOAT32 || op === Op.FLOAT64 || op === Op.RESERVED || (isInteger(op) && op !== Op.INT);
}

/** Returns Candid's own words for the special values. */
function floatWord(text: string): string {
  return text.replace('NaN', 'nan').replace('Infinity', 'inf');
}
