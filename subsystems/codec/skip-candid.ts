import type { CandidReader } from './candid-reader.ts';
import { unreachable } from './faults.ts';
import { INTEGER_BYTES, Op, TYPE_NAMES, type CandidType } from './types.ts';

/** Skips one value. */
interface SkipSlot {
  run: (reader: CandidReader) => void;
}

/** Depth of the search for a byte, after which a type counts as possibly having none; see `takesNoBytes`. */
const ZERO_SIZE_SEARCH_DEPTH = 16;

const FIXED_SIZE: ReadonlyMap<Op, number> = new Map<Op, number>([
  [Op.NULL, 0],
  [Op.RESERVED, 0],
  ...INTEGER_BYTES,
  [Op.FLOAT32, 4],
  [Op.FLOAT64, 8],
]);

/**
 * Closures that skip values of a message's types: extra fields and arguments, and values that an `opt` turns to null.
 */
export class SkipTable {
  readonly #slots: (SkipSlot | undefined)[];
  readonly #zeroSized: (boolean | undefined)[];

  constructor(nodeCount: number) {
    this.#slots = Array.from({ length: nodeCount });
    this.#zeroSized = Array.from({ length: nodeCount });
  }

  of(type: CandidType): SkipSlot {
    const known = this.#slots[type.index];
    if (known !== undefined) return known;
    const slot: SkipSlot = {
      run: (reader) => {
        reader.charge(1 + type.fields.length);
        slot.run = this.#compile(type);
        slot.run(reader);
      },
    };
    this.#slots[type.index] = slot;
    return slot;
  }

  /** Refuses a count of elements that the rest of the message cannot hold, and charges each of them. */
  checkCount(reader: CandidReader, element: CandidType, count: number): void {
    if (count > reader.remaining && !this.#takesNoBytes(element, 0))
      throw reader.fail(`a vec announces ${count} elements, but only ${reader.remaining} bytes follow`);
    reader.charge(count);
  }

  /**
   * Returns true if values of the type have no bytes. If the answer is too deep, `true` is assumed: then only the work
   * counter limits the elements, which is less exact but equally safe.
   */
  #takesNoBytes(type: CandidType, depth: number): boolean {
    const known = this.#zeroSized[type.index];
    if (known !== undefined) return known;
    if (depth === ZERO_SIZE_SEARCH_DEPTH) return true;
    let isZero = type.op === Op.NULL || type.op === Op.RESERVED;
    if (type.op === Op.RECORD) {
      // Set first: a record that contains itself has no values at all.
      this.#zeroSized[type.index] = true;
      isZero = type.fields.every((field) => this.#takesNoBytes(field.type, depth + 1));
    }
    this.#zeroSized[type.index] = isZero;
    return isZero;
  }

  #compile(type: CandidType): (reader: CandidReader) => void {
    const size = FIXED_SIZE.get(type.op);
    if (size !== undefined) {
      return (reader) => {
        reader.charge(1);
        reader.need(size, 'a value');
        reader.position += size;
      };
    }
    switch (type.op) {
      case Op.BOOL:
        return (reader) => {
          reader.charge(1);
          reader.readFlag('a bool');
        };
      case Op.NAT:
      case Op.INT:
        return (reader) => {
          reader.charge(1);
          reader.skipLeb();
        };
      case Op.TEXT:
        return (reader) => {
          reader.charge(1);
          const length = reader.readByteCount('a text');
          reader.checkUtf8(reader.position, reader.position + length);
          reader.position += length;
        };
      case Op.EMPTY:
        return (reader) => {
          throw reader.fail('a value of the type empty cannot exist');
        };
      case Op.PRINCIPAL:
      case Op.SERVICE:
        return (reader) => {
          reader.charge(1);
          reader.readPrincipal();
        };
      case Op.FUNC:
        return (reader) => {
          reader.charge(1);
          if (!reader.readFlag('a func')) throw reader.fail('an opaque reference cannot be read');
          reader.readPrincipal();
          const length = reader.readByteCount('a method name');
          reader.position += length;
        };
      case Op.FUTURE:
        return (reader) => {
          reader.charge(1);
          const length = reader.readLength('a value of a later Candid version');
          if (reader.readLength('a value of a later Candid version') > 0)
            throw reader.fail('references of a later Candid version cannot be read');
          reader.need(length, 'a value of a later Candid version');
          reader.position += length;
        };
      case Op.OPT:
        return this.#skipOpt(this.of(type.inner));
      case Op.VEC:
        return this.#skipVec(type.inner);
      case Op.RECORD:
        return this.#skipRecord(type.fields.map((field) => this.of(field.type)));
      case Op.VARIANT:
        return this.#skipVariant(type.fields.map((field) => this.of(field.type)));
      default:
        return unreachable(`cannot skip ${TYPE_NAMES[type.op]}`);
    }
  }

  #skipOpt(inner: SkipSlot): (reader: CandidReader) => void {
    return (reader) => {
      reader.charge(1);
      if (!reader.readFlag('an opt')) return;
      const level = reader.enter();
      inner.run(reader);
      reader.depth = level - 1;
    };
  }

  #skipVec(element: CandidType): (reader: CandidReader) => void {
    if (element.op === Op.NAT8) {
      return (reader) => {
        reader.charge(1);
        const length = reader.readByteCount('a blob');
        reader.position += length;
      };
    }
    const inner = this.of(element);
    return (reader) => {
      reader.charge(1);
      const count = reader.readLength('a vec');
      this.checkCount(reader, element, count);
      const level = reader.enter();
      for (let index = 0; index < count; index++) inner.run(reader);
      reader.depth = level - 1;
    };
  }

  #skipRecord(fields: readonly SkipSlot[]): (reader: CandidReader) => void {
    return (reader) => {
      reader.charge(1);
      const level = reader.enter();
      for (const field of fields) field.run(reader);
      reader.depth = level - 1;
    };
  }

  #skipVariant(tags: readonly SkipSlot[]): (reader: CandidReader) => void {
    return (reader) => {
      reader.charge(1);
      const index = reader.readLength('a variant');
      const tag = tags[index];
      if (tag === undefined) throw reader.fail(`the variant has tag ${index}, and only ${tags.length} tags exist`);
      const level = reader.enter();
      tag.run(reader);
      reader.depth = level - 1;
    };
  }
}
