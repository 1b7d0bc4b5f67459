/**
 * Example values of Candid types, as JSON in the default encoding: always the same for the same types, valid by their
 * schemas, and small.
 *
 * The smallest value of a type may be endless (`type A = record { a : A }`) or have more parts than memory (each of forty
 * definitions a pair of the one before). So first the size of each type's smallest value is found, up to a bound; then a
 * value is built that keeps to the bound, richer than the smallest where there is room.
 */
import {
  type DescribedParameter,
  type DescribedType,
  type PlainKind,
  resolveNamed,
} from '../codec/description/index.ts';
import { isNullable } from './schemas.ts';

/** Parts (numbers, texts, records …) of an example; more would hide what it shows. */
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
/** The tags that results of calls have by convention: what went well is the better example. */
const SUCCESS = /^ok$/i;

export class Examples {
  /** Parts of the smallest value of each type with parts; Infinity: more than an example may have, or there is none. */
  readonly #sizes = new Map<Resolved, number>();
  /** Types that the value being built is inside of. */
  readonly #path = new Set<Resolved>();

  /** `roots` are all types that examples will be asked for. */
  constructor(roots: readonly DescribedType[]) {
    this.#measure(typesIn(roots));
  }

  /** One value a parameter; undefined where no small example exists. */
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

  /** Each round sees types whose smallest value is one level higher, and values of so many levels have as many parts. */
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

  /** A value of at most `room` parts, which are enough for the smallest, and how many it has. */
  #build(named: DescribedType, room: number): readonly [value: unknown, used: number] {
    const type = resolveNamed(named);
    // Inside of itself a type is as small as it can be.
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

/** Records and variants that values of the roots may have. */
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
