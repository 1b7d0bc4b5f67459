/**
 * Example values of Candid types, as JSON in the default encoding: always the same for the same types, valid by their
 * schemas, and small.
 *
 * The smallest value of a type may be endless (`type A = record { a : A }`) or have more parts than memory (each of
 * forty definitions a pair of the one before). So the size of each type's smallest value is computed first, up to a
 * limit; then a value within the limit is built, richer than the smallest if there is room.
 */
import {
  type DescribedParameter,
  type DescribedType,
  type PlainKind,
  resolveNamed,
} from '../codec/description/index.ts';
import { isNullable } from './schemas.ts';

/** Parts (numbers, texts, records …) of an example; a larger one would hide its point. */
const PARTS_MAX = 40;

type Resolved = ReturnType<typeof resolveNamed>;

const PLAIN: Readonly<Record<Exclude<PlainKind, 'empty'>, unknown>> = {
  null: null,
  bool: true,
  nat: 1,
  int: 1,
  nat8: 1,
  nat16: 1,
  nat32: 1,
  nat64: 1,
  int8: 1,
  int16: 1,
  int32: 1,
  int64: 1,
  float32: 1.5,
  float64: 1.5,
  text: 'text',
  reserved: null,
  principal: 'aaaaa-aa',
  blob: 'AP8=',
  service: 'aaaaa-aa',
};
const FUNC = { principal: 'aaaaa-aa', method: 'raw_rand' };
/** Tag that results of calls have by convention for success, which is the better example. */
const SUCCESS = /^ok$/i;

export class Examples {
  /**
   * Parts of the smallest value of each composite type; Infinity: more than an example may have, or there is no value.
   */
  readonly #sizes = new Map<Resolved, number>();
  /** Types that contain the value being built. */
  readonly #path = new Set<Resolved>();

  /** `roots` are all types for which examples will be requested. */
  constructor(roots: readonly DescribedType[]) {
    this.#measure(typesIn(roots));
  }

  /** Returns one value for each parameter; undefined if there is no small example. */
  listOf(parameters: readonly DescribedParameter[]): readonly unknown[] | undefined {
    let room = PARTS_MAX - parameters.reduce((sum, { type }) => sum + this.#sizeOf(resolveNamed(type)), 0);
    if (room < 0) return undefined;
    return parameters.map(({ type }) => {
      const size = this.#sizeOf(resolveNamed(type));
      const [value, used] = this.#build(type, size + room);
      room -= used - size;
      return value;
    });
  }

  /**
   * Computes sizes in rounds: each round finds types whose smallest value is one level deeper, and a value has at least
   * as many parts as levels.
   */
  #measure(types: readonly Resolved[]): void {
    for (let round = 0, hasChanged = true; hasChanged && round <= PARTS_MAX; round++) {
      hasChanged = false;
      for (const type of types) {
        const size = this.#smallest(type);
        if (size >= this.#sizeOf(type)) continue;
        this.#sizes.set(type, size);
        hasChanged = true;
      }
    }
  }

  #smallest(type: Resolved): number {
    let size = 1;
    if (type.kind === 'record') {
      for (const { type: field } of type.fields) size += this.#sizeOf(resolveNamed(field));
    } else if (type.kind === 'variant') {
      size += type.fields.reduce((least, tag) => Math.min(least, this.#sizeOf(resolveNamed(tag.type))), Infinity);
    }
    return size > PARTS_MAX ? Infinity : size;
  }

  #sizeOf(type: Resolved): number {
    if (type.kind === 'record' || type.kind === 'variant') return this.#sizes.get(type) ?? Infinity;
    return type.kind === 'empty' ? Infinity : 1;
  }

  /** Returns a value of at most `room` parts, which are enough for the smallest, and its number of parts. */
  #build(named: DescribedType, room: number): readonly [value: unknown, used: number] {
    const type = resolveNamed(named);
    // Inside itself a type is as small as possible.
    if (this.#path.has(type)) return this.#compose(type, this.#sizeOf(type));
    this.#path.add(type);
    const built = this.#compose(type, room);
    this.#path.delete(type);
    return built;
  }

  #compose(type: Resolved, room: number): readonly [value: unknown, used: number] {
    switch (type.kind) {
      case 'opt': {
        const isWrapped = isNullable(type.inner);
        if (!this.#fits(type.inner, room - 1)) return [isWrapped ? [] : null, 1];
        const [value, used] = this.#build(type.inner, room - 1);
        return [isWrapped ? [value] : value, used + 1];
      }
      case 'vec': {
        if (!this.#fits(type.inner, room - 1)) return [[], 1];
        const [value, used] = this.#build(type.inner, room - 1);
        return [[value], used + 1];
      }
      case 'record': {
        let spare = room - this.#sizeOf(type);
        const entries = type.fields.map(({ label, type: field }) => {
          const size = this.#sizeOf(resolveNamed(field));
          const [value, used] = this.#build(field, size + spare);
          spare -= used - size;
          return [label, value] as const;
        });
        const value = type.isTuple ? entries.map(([, part]) => part) : Object.fromEntries(entries);
        return [value, room - spare];
      }
      case 'variant': {
        const fitting = type.fields.filter((tag) => this.#fits(tag.type, room - 1));
        const [tag = fitting[0]] = fitting.filter(({ label }) => SUCCESS.test(label));
        if (tag === undefined) throw new Error('an example was asked for of a variant that has none');
        const [value, used] = this.#build(tag.type, room - 1);
        return [{ [tag.label]: value }, used + 1];
      }
      case 'func':
        return [FUNC, 1];
      case 'empty':
        throw new Error('an example was asked for of empty');
      default:
        return [PLAIN[type.kind], 1];
    }
  }

  #fits(type: DescribedType, room: number): boolean {
    return this.#sizeOf(resolveNamed(type)) <= room;
  }
}

/** Returns the records and variants that values of the roots may contain. */
function typesIn(roots: readonly DescribedType[]): Resolved[] {
  const seen = new Set<Resolved>();
  const pending = roots.map(resolveNamed);
  for (let type = pending.pop(); type !== undefined; type = pending.pop()) {
    if (seen.has(type)) continue;
    seen.add(type);
    if (type.kind === 'opt' || type.kind === 'vec') pending.push(resolveNamed(type.inner));
    else if (type.kind === 'record' || type.kind === 'variant') {
      for (const field of type.fields) pending.push(resolveNamed(field.type));
    }
  }
  return [...seen].filter(({ kind }) => kind === 'record' || kind === 'variant');
}
