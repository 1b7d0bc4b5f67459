import { shortText } from './encode-json.ts';
import { MARKER } from './encode-lossless.ts';
import { compactGraph, InferredTypes } from './inferred-types.ts';
import type { JsonReader } from './json-reader.ts';
import { labelToId, Op, TYPE_NAMES, type CandidField, type CandidType, type TypeGraph } from './types.ts';
import { CLOSE_BRACE, CLOSE_BRACKET, COLON, OPEN_BRACE, OPEN_BRACKET, QUOTE } from './json-bytes.ts';

/*
 * Infers the types of lossless JSON from its markers alone. This is the first of two passes: the second encodes the
 * values with the inferred types, and checks their details; here only the shape matters.
 */

const MARKED_BY_VALUE: ReadonlyMap<string, Op> = new Map<string, Op>(
  [
    Op.NAT,
    Op.INT,
    Op.NAT8,
    Op.NAT16,
    Op.NAT32,
    Op.NAT64,
    Op.INT8,
    Op.INT16,
    Op.INT32,
    Op.INT64,
    Op.FLOAT32,
    Op.FLOAT64,
    Op.PRINCIPAL,
    Op.SERVICE,
    Op.FUNC,
    Op.RESERVED,
  ].map((op) => [TYPE_NAMES[op], op]),
);

/** Members of an object, before it is known to be a record or a marked value. */
interface Members {
  readonly fields: Map<string, CandidType>;
  /** The marker's value, if the object has one. */
  kind: string | undefined;
  /** Text of a member called `tag`. */
  tag: string | undefined;
  /** Offset of the text of a member called `value`, if it came before any marker. */
  valueAt: number;
}

/** Returns the types of a JSON array of arguments in the lossless encoding. */
export function inferArguments(reader: JsonReader): TypeGraph {
  const inference = new JsonInference(reader);
  const types = inference.inferElements('an array of arguments');
  reader.expectEnd();
  return compactGraph(types);
}

class JsonInference {
  readonly #reader: JsonReader;
  readonly #types: InferredTypes;

  constructor(reader: JsonReader) {
    this.#reader = reader;
    this.#types = new InferredTypes((units) => reader.charge(units));
  }

  inferElements(expected: string): CandidType[] {
    const reader = this.#reader;
    if (!reader.take(OPEN_BRACKET)) throw reader.unexpected(expected);
    const level = reader.enter();
    const types: CandidType[] = [];
    if (!reader.take(CLOSE_BRACKET)) {
      do {
        reader.path[level] = types.length;
        types.push(this.#infer());
      } while (!reader.endOrComma(CLOSE_BRACKET));
    }
    reader.depth = level - 1;
    return types;
  }

  #infer(): CandidType {
    const reader = this.#reader;
    const first = reader.peek();
    if (first === OPEN_BRACE) return this.#inferObject();
    if (first === OPEN_BRACKET) return this.#inferVec();
    if (first === QUOTE) {
      reader.readString();
      return this.#types.plain(Op.TEXT);
    }
    if (reader.takeWord('null')) return this.#types.plain(Op.NULL);
    if (reader.takeWord('true') || reader.takeWord('false')) return this.#types.plain(Op.BOOL);
    if (first === 0x2d || (first >= 0x30 && first <= 0x39)) {
      throw reader.fail(
        `a plain number has no Candid type here; write {"${MARKER}":"nat","value":"5"}, or another type's name`,
      );
    }
    throw reader.unexpected('a JSON value');
  }

  #inferVec(): CandidType {
    const reader = this.#reader;
    reader.take(OPEN_BRACKET);
    const level = reader.enter();
    let element = this.#types.plain(Op.EMPTY);
    let count = 0;
    if (!reader.take(CLOSE_BRACKET)) {
      do {
        reader.path[level] = count++;
        const type = this.#infer();
        const joined = this.#types.join(element, type);
        if (joined === undefined) {
          throw reader.fail(
            `a vec has elements of one type; this ${TYPE_NAMES[type.op]} does not fit the ${TYPE_NAMES[element.op]} before it`,
          );
        }
        element = joined;
      } while (!reader.endOrComma(CLOSE_BRACKET));
    }
    reader.depth = level - 1;
    return this.#types.of(Op.VEC, element);
  }

  #inferObject(): CandidType {
    const reader = this.#reader;
    const level = reader.enter();
    const members = this.#readMembers(level, true);
    if (members.valueAt !== -1) this.#inferLateValue(members, level);
    const type = members.kind === undefined ? this.#record(members.fields) : this.#marked(members.kind, members);
    reader.depth = level - 1;
    return type;
  }

  /** Reads an object; `hasMarkers` is false within `{"$svc":"record"}`, where `$svc` is a field like any other. */
  #readMembers(level: number, hasMarkers: boolean): Members {
    const reader = this.#reader;
    const members: Members = { fields: new Map(), kind: undefined, tag: undefined, valueAt: -1 };
    reader.expect(OPEN_BRACE, 'an object');
    if (!reader.take(CLOSE_BRACE)) {
      do {
        reader.path[level] = undefined;
        if (reader.peek() !== QUOTE) throw reader.unexpected('a key in quotes');
        const key = reader.readText();
        reader.expect(COLON, '":"');
        reader.path[level] = key;
        if (members.fields.has(key) || (hasMarkers && key === MARKER && members.kind !== undefined))
          throw reader.fail('duplicate key');
        this.#readMember(members, key, hasMarkers);
      } while (!reader.endOrComma(CLOSE_BRACE));
    }
    reader.path[level] = undefined;
    return members;
  }

  #readMember(members: Members, key: string, hasMarkers: boolean): void {
    const reader = this.#reader;
    const isText = reader.peek() === QUOTE;
    if (hasMarkers && key === MARKER) {
      if (!isText) throw reader.unexpected('the name of a kind');
      members.kind = reader.readText();
    } else if (key === 'tag' && isText) {
      members.tag = reader.readText();
      members.fields.set(key, this.#types.plain(Op.TEXT));
    } else {
      members.fields.set(key, this.#inferValue(members, key, hasMarkers));
    }
  }

  /**
   * Infers the type of a member. Within `value` of `{"$svc":"record"}`, `$svc` is a field; a value that precedes the
   * marker is read after it.
   */
  #inferValue(members: Members, key: string, hasMarkers: boolean): CandidType {
    const reader = this.#reader;
    if (!hasMarkers || key !== 'value' || (members.kind !== undefined && members.kind !== 'record'))
      return this.#infer();
    if (members.kind === 'record') return this.#plainRecord();
    members.valueAt = reader.position;
    reader.skipValue();
    // The value is read twice, at worst once for each level, and the second reading is charged.
    reader.charge((reader.position - members.valueAt) >> 3);
    return this.#types.plain(Op.EMPTY);
  }

  /** Reads the value that had to wait for a marker. */
  #inferLateValue(members: Members, level: number): void {
    const reader = this.#reader;
    const end = reader.position;
    reader.position = members.valueAt;
    reader.path[level] = 'value';
    members.fields.set('value', members.kind === 'record' ? this.#plainRecord() : this.#infer());
    reader.path[level] = undefined;
    reader.position = end;
  }

  /** Reads the value of `{"$svc":"record"}`. */
  #plainRecord(): CandidType {
    const reader = this.#reader;
    const level = reader.enter();
    const { fields } = this.#readMembers(level, false);
    reader.depth = level - 1;
    // The second pass expects the wrapping only where it is needed, so it is refused elsewhere.
    if (!fields.has(MARKER))
      throw reader.fail(`{"${MARKER}":"record"} is only for records with a field called ${MARKER}`);
    return this.#record(fields);
  }

  #record(members: ReadonlyMap<string, CandidType>): CandidType {
    const fields: CandidField[] = [];
    const labels = new Map<number, string>();
    for (const [label, type] of members) {
      const id = labelToId(label);
      const clash = labels.get(id);
      if (clash !== undefined)
        throw this.#reader.fail(`the keys ${shortText(clash)} and ${shortText(label)} have the same field id ${id}`);
      labels.set(id, label);
      fields.push({ id, label, type });
    }
    return this.#types.withFields(Op.RECORD, fields);
  }

  #marked(kind: string, members: Members): CandidType {
    const reader = this.#reader;
    const types = this.#types;
    const value = members.fields.get('value');
    const op = MARKED_BY_VALUE.get(kind);
    if (op !== undefined) return types.plain(op);
    switch (kind) {
      case 'blob':
        return types.blob();
      case 'none':
        return types.of(Op.OPT, types.plain(Op.EMPTY));
      case 'some':
        if (value === undefined) throw reader.fail('"some" needs a value');
        return types.of(Op.OPT, value);
      case 'variant': {
        const label = members.tag;
        if (label === undefined) throw reader.fail('"variant" needs a tag');
        return types.withFields(Op.VARIANT, [{ id: labelToId(label), label, type: value ?? types.plain(Op.NULL) }]);
      }
      case 'record':
        if (value === undefined) throw reader.fail('"record" needs a value');
        return value;
      default:
        throw reader.fail(
          `unknown kind ${shortText(kind)}; write {"${MARKER}":"record","value":{…}} for a record with a field called ${MARKER}`,
        );
    }
  }
}
