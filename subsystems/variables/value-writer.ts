/**
 * Writes values of a heap as JSON, in the manner of docs/json-encoding.md. Whatever the heap holds, the answer is valid
 * JSON, and bounded: what does not fit is left out, and its place is in the list of cuts.
 *
 * Worker thread.
 */
import { principalToText } from '../ic/index.ts';
import type { Budget } from './budget.ts';
import { type Collection, collectionOf, elementsOf, optionValue, sizeOf } from './collections.ts';
import { type HeapObject, type HeapReader, NULL, TAG, UnreadableHeap } from './heap-reader.ts';
import type { FieldType, StableType, TypeNames } from './stable-types.ts';
import { integerText, primitiveText } from './scalars.ts';
import { textBytes, textLength, utf8Start } from './texts.ts';

/** Elements and bytes that are shown of what lies within the value that was asked for. */
const INNER_ELEMENTS_MAX = 1_000;
const INNER_BYTES_MAX = 16 * 1024;
/** Levels of a value that are shown. */
const DEPTH_MAX = 100;
const CUTS_MAX = 100;
const PRINCIPAL_BYTES_MAX = 29;

/** A place where something was left out: `total` elements or bytes, of which those before `next` are shown. */
interface Cut {
  readonly path: string;
  readonly total: number | null;
  readonly next: number;
}

/** The part of a sequence to show. */
interface Page {
  readonly from: number;
  readonly count: number;
}

/** A sequence that was shown: its elements or bytes, and the first one that was not shown. */
interface Shown {
  readonly total: number;
  readonly from: number;
  readonly next: number | null;
}

export class ValueWriter {
  readonly #heap: HeapReader;
  readonly #names: TypeNames;
  readonly #budget: Budget;
  readonly #parts: string[] = [];
  readonly #path: string[];
  readonly cuts: Cut[] = [];
  /** Number of cuts that are not in the list. */
  cutsMore = 0;
  /** The sequence that was asked for, if it is one. */
  shown: Shown | undefined;
  /** The page that was asked for, until the value that it is of is written. */
  #page: Page | undefined;

  constructor(heap: HeapReader, names: TypeNames, budget: Budget, path: string, page: Page) {
    this.#heap = heap;
    this.#names = names;
    this.#budget = budget;
    this.#path = [path];
    this.#page = page;
  }

  get text(): string {
    return this.#parts.join('');
  }

  write(value: bigint, type: StableType): void {
    this.#budget.look();
    const resolved = this.#names.resolved(type);
    if (resolved.kind === 'option') {
      this.#option(value, resolved.of);
      return;
    }
    if (this.#path.length > DEPTH_MAX) {
      this.#leaveOut(null, 0);
      return;
    }
    switch (resolved.kind) {
      case 'primitive':
        this.#primitive(value, resolved.name);
        return;
      case 'array':
        if (!resolved.isMutable && isByte(this.#names.resolved(resolved.of))) this.#byteArray(value);
        else this.#array(value, resolved.of);
        return;
      case 'tuple':
        this.#tuple(value, resolved.of);
        return;
      case 'object': {
        const collection = collectionOf(resolved, this.#names);
        if (collection === undefined) this.#object(value, resolved.fields);
        else this.#collection(value, collection);
        return;
      }
      case 'variant':
        this.#variant(value, resolved.tags);
        return;
      case 'actor':
        this.#put(JSON.stringify(this.#principal(value, TAG.ACTOR)));
        return;
      case 'function':
        this.#function(value);
        return;
      case 'weak':
        this.#weak(value, resolved.of);
        return;
      case 'unknown':
        throw new UnreadableHeap(`the type ${resolved.text} is not known to this server`);
    }
  }

  #put(text: string): void {
    this.#parts.push(text);
    this.#budget.wrote(text.length);
  }

  #within(segment: string, write: () => void): void {
    this.#path.push(segment);
    write();
    this.#path.pop();
  }

  /** Writes null for something that is left out. */
  #leaveOut(total: number | null, next: number): void {
    this.#put('null');
    this.#cut(total, next);
  }

  #cut(total: number | null, next: number): void {
    if (this.cuts.length === CUTS_MAX) this.cutsMore++;
    else this.cuts.push({ path: this.#path.join(''), total, next });
  }

  #takePage(innerMax: number): Page & { readonly isAsked: boolean } {
    const page = this.#page;
    this.#page = undefined;
    return page === undefined ? { from: 0, count: innerMax, isAsked: false } : { ...page, isAsked: true };
  }

  /** Notes how far a sequence was shown. */
  #ended(total: number, from: number, next: number, isAsked: boolean): void {
    if (isAsked) this.shown = { total, from, next: next < total ? next : null };
    else if (next < total) this.#cut(total, next);
  }

  #option(value: bigint, of: StableType): void {
    const inner = this.#names.resolved(of);
    const isNested = isOptional(inner);
    if (value === NULL) {
      this.#put(isNested ? '[]' : 'null');
      return;
    }
    if (!isNested) {
      this.write(optionValue(this.#heap, value), inner);
      return;
    }
    this.#put('[');
    this.#within('[0]', () => this.write(optionValue(this.#heap, value), inner));
    this.#put(']');
  }

  #primitive(value: bigint, name: string): void {
    const heap = this.#heap;
    switch (name) {
      case 'Text':
        this.#text(value);
        return;
      case 'Blob':
        this.#blob(heap.object(value, TAG.BLOB));
        return;
      case 'Principal':
        this.#put(JSON.stringify(this.#principal(value, TAG.PRINCIPAL)));
        return;
      case 'Region': {
        const region = heap.object(value, TAG.REGION);
        this.#put(`{"id":${integerText(heap.part(region, 0))},"pages":${integerText(heap.part(region, 1))}}`);
        return;
      }
      case 'Nat':
      case 'Int': {
        const digits = heap.digitsOf(value);
        if (digits > SHOWN_DIGITS_MAX) this.#leaveOut(digits * WORD_BYTES, 0);
        else this.#put(integerText(heap.integer(value)));
        return;
      }
      default:
        this.#put(primitiveText(heap, value, name));
    }
  }

  #text(value: bigint): void {
    const { from, count, isAsked } = this.#takePage(INNER_BYTES_MAX);
    const total = textLength(this.#heap, value);
    const max = Math.min(count, isAsked ? Math.floor(this.#budget.charactersLeft / WORST_ESCAPE) : count);
    const bytes = textBytes(this.#heap, value, from, Math.min(total, from + max + 3), this.#budget.pass);
    const length = from + max >= total ? bytes.length : utf8Start(bytes, max);
    this.#put(JSON.stringify(decoded(bytes.subarray(0, length))));
    this.#ended(total, from, from + length, isAsked);
  }

  #blob(blob: HeapObject): void {
    const { from, count, isAsked } = this.#takePage(INNER_BYTES_MAX);
    const total = this.#heap.byteLengthOf(blob);
    const max = isAsked ? Math.min(count, base64Room(this.#budget.charactersLeft)) : count;
    const bytes = this.#heap.bytesOf(blob, from, from + max);
    this.#put(`"${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')}"`);
    this.#ended(total, from, Math.min(total, from + bytes.length), isAsked);
  }

  /** Writes a `[Nat8]`, which is a blob in Candid. */
  #byteArray(value: bigint): void {
    const { from, count, isAsked } = this.#takePage(INNER_BYTES_MAX);
    const heap = this.#heap;
    const array = heap.object(value, TAG.ARRAY);
    const total = heap.lengthOf(array);
    const max = isAsked ? Math.min(count, base64Room(this.#budget.charactersLeft)) : count;
    const end = Math.min(total, from + max);
    const bytes = Buffer.alloc(Math.max(0, end - from));
    for (let k = from; k < end; k++) {
      this.#budget.look();
      bytes[k - from] = Number(primitiveText(heap, heap.element(array, k), 'Nat8'));
    }
    this.#put(`"${bytes.toString('base64')}"`);
    this.#ended(total, from, end, isAsked);
  }

  #array(value: bigint, of: StableType): void {
    const heap = this.#heap;
    const array = heap.object(value, TAG.ARRAY, TAG.MUTABLE_ARRAY);
    const total = heap.lengthOf(array);
    const elements = function* (from: number): Generator<bigint, void, void> {
      for (let k = from; k < total; k++) yield heap.element(array, k);
    };
    this.#sequence(total, elements, of);
  }

  #collection(value: bigint, collection: Collection): void {
    const heap = this.#heap;
    const elements = (from: number): Iterable<bigint> => elementsOf(heap, value, collection, from, this.#budget.pass);
    this.#sequence(sizeOf(heap, value, collection), elements, collection.of);
  }

  #sequence(total: number, elements: (from: number) => Iterable<bigint>, of: StableType): void {
    const { from, count, isAsked } = this.#takePage(INNER_ELEMENTS_MAX);
    let next = from;
    this.#put('[');
    if (!this.#budget.isSpent && count > 0) {
      for (const element of elements(from)) {
        if (next > from) this.#put(',');
        this.#within(`[${next}]`, () => this.write(element, of));
        next++;
        if (next - from === count || this.#budget.isSpent) break;
      }
    }
    this.#put(']');
    this.#ended(total, from, next, isAsked);
  }

  #tuple(value: bigint, of: readonly StableType[]): void {
    if (of.length === 0) {
      // In Candid, `()` is `null`.
      this.#put('null');
      return;
    }
    const heap = this.#heap;
    const tuple = heap.object(value, TAG.TUPLE);
    if (heap.lengthOf(tuple) !== of.length)
      throw new UnreadableHeap(`the tuple at ${tuple.at} has ${heap.lengthOf(tuple)} parts instead of ${of.length}`);
    this.#page = undefined;
    for (const [k, type] of of.entries()) {
      this.#put(k === 0 ? '[' : ',');
      this.#within(`[${k}]`, () => this.#part(heap.element(tuple, k), type));
    }
    this.#put(']');
  }

  #object(value: bigint, fields: readonly FieldType[]): void {
    const heap = this.#heap;
    const object = heap.object(value, TAG.OBJECT);
    this.#page = undefined;
    this.#put('{');
    for (const [k, { name, hash, isMutable, type }] of fields.entries()) {
      this.#put(`${k === 0 ? '' : ','}${JSON.stringify(name)}:`);
      const slot = heap.field(object, hash);
      if (slot === undefined) throw new UnreadableHeap(`the object at ${object.at} has no field ${name}`);
      const content = isMutable ? heap.part(heap.object(slot, TAG.BOX), 0) : slot;
      this.#within(`.${name}`, () => this.#part(content, type));
    }
    this.#put('}');
  }

  /** Writes one of several parts that must all be there. */
  #part(value: bigint, type: StableType): void {
    if (this.#budget.isSpent) this.#leaveOut(null, 0);
    else this.write(value, type);
  }

  #variant(
    value: bigint,
    tags: readonly { readonly name: string; readonly hash: number; readonly type: StableType }[],
  ): void {
    const heap = this.#heap;
    const variant = heap.object(value, TAG.VARIANT);
    const hash = heap.part(variant, 0);
    const tag = tags.find((each) => BigInt(each.hash) === hash);
    if (tag === undefined) throw new UnreadableHeap(`the variant at ${variant.at} has a tag with hash ${hash}`);
    this.#page = undefined;
    this.#put(`{${JSON.stringify(tag.name)}:`);
    this.#within(`.${tag.name}`, () => this.#part(heap.part(variant, 1), tag.type));
    this.#put('}');
  }

  #function(value: bigint): void {
    const heap = this.#heap;
    const pair = heap.object(value, TAG.FUNCTION);
    const principal = JSON.stringify(this.#principal(heap.element(pair, 0), TAG.ACTOR));
    const name = heap.element(pair, 1);
    const method = textBytes(heap, name, 0, Math.min(textLength(heap, name), INNER_BYTES_MAX), this.#budget.pass);
    this.#put(`{"principal":${principal},"method":${JSON.stringify(decoded(method))}}`);
  }

  #weak(value: bigint, of: StableType): void {
    const heap = this.#heap;
    const target = heap.part(heap.object(value, TAG.WEAK), 0);
    if (heap.isPointer(target)) this.write(target, of);
    else this.#put('null');
  }

  #principal(value: bigint, tag: number): string {
    const bytes = this.#heap.bytesOf(this.#heap.object(value, tag));
    if (bytes.length > PRINCIPAL_BYTES_MAX) throw new UnreadableHeap(`a principal has ${bytes.length} bytes`);
    return principalToText(bytes.slice());
  }
}

const WORD_BYTES = 8;
/** Digits of a number that is shown, of 60 bits each: about 150,000 decimal ones. */
const SHOWN_DIGITS_MAX = 8 * 1024;
/** Characters of JSON that one byte of text may take: `\u0001`. */
const WORST_ESCAPE = 6;

/** Returns how many bytes have room as base64. */
function base64Room(characters: number): number {
  return Math.floor(characters / 4) * 3;
}

function isByte(type: StableType): boolean {
  return type.kind === 'primitive' && type.name === 'Nat8';
}

/** Returns true for types whose option has brackets in JSON: `null` would mean two values. */
export function isOptional(type: StableType): boolean {
  if (type.kind === 'tuple') return type.of.length === 0;
  return type.kind === 'option' || (type.kind === 'primitive' && (type.name === 'Null' || type.name === 'Any'));
}

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes.slice());
  } catch {
    throw new UnreadableHeap('a text is not UTF-8, or the page begins within a character');
  }
}
