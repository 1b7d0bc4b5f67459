import { CandidType, Op, type CandidField, type TypeGraph } from './types.ts';

/*
 * Types inferred from values, without an interface: for the untyped lossless JSON encoding, and for value text.
 *
 * Such types are trees. Elements of a vec must have one type; each element adds to what is known about it (`none` shows
 * an opt of some type, a variant's value shows one tag), so types are joined. At the end the tree becomes a graph in
 * which equal types are one node.
 */

export class InferredTypes {
  readonly #charge: (units: number) => void;
  readonly #primitives = new Map<Op, CandidType>();
  #count = 0;

  /** `charge` pays for the work and may throw. */
  constructor(charge: (units: number) => void) {
    this.#charge = charge;
  }

  /** Returns a primitive type, or a function or service type without details. */
  plain(op: Op): CandidType {
    let type = this.#primitives.get(op);
    if (type === undefined) {
      type = this.#node(op);
      this.#primitives.set(op, type);
    }
    return type;
  }

  #node(op: Op): CandidType {
    this.#charge(1);
    return new CandidType(op, this.#count++);
  }

  of(op: typeof Op.OPT | typeof Op.VEC, element: CandidType): CandidType {
    const type = this.#node(op);
    type.element = element;
    return type;
  }

  blob(): CandidType {
    return this.of(Op.VEC, this.plain(Op.NAT8));
  }

  /** Returns a record or variant; the fields may be in any order, but their ids must be distinct. */
  withFields(op: typeof Op.RECORD | typeof Op.VARIANT, fields: CandidField[]): CandidType {
    const type = this.#node(op);
    type.fields = fields.sort((left, right) => left.id - right.id);
    return type;
  }

  /** Returns the least type that has the values of both, or undefined if they have nothing in common. */
  join(left: CandidType, right: CandidType): CandidType | undefined {
    if (left === right || right.op === Op.EMPTY) return left;
    if (left.op === Op.EMPTY) return right;
    // A bare `null` is an opt of any type, too.
    if (left.op === Op.NULL && right.op === Op.OPT) return right;
    if (left.op === Op.OPT && right.op === Op.NULL) return left;
    if (left.op !== right.op) return undefined;
    this.#charge(1 + left.fields.length + right.fields.length);
    switch (left.op) {
      case Op.OPT:
      case Op.VEC: {
        const inner = this.join(left.inner, right.inner);
        if (inner === undefined) return undefined;
        return inner === left.inner ? left : this.of(left.op, inner);
      }
      case Op.RECORD:
        return left.fields.length === right.fields.length ? this.#joinFields(left, right, false) : undefined;
      case Op.VARIANT:
        return this.#joinFields(left, right, true);
      default:
        return left;
    }
  }

  /** Joins two field lists. Both are sorted, so they are merged; a record must have the same fields on both sides. */
  #joinFields(left: CandidType, right: CandidType, isUnion: boolean): CandidType | undefined {
    const merged: CandidField[] = [];
    let isSame = true;
    let from = 0;
    for (const field of right.fields) {
      let known = left.fields[from];
      while (known !== undefined && known.id < field.id) {
        merged.push(known);
        known = left.fields[++from];
      }
      if (known === undefined || known.id !== field.id) {
        merged.push(field);
        isSame = false;
        continue;
      }
      from++;
      if (known.label !== field.label) return undefined;
      const type = this.join(known.type, field.type);
      if (type === undefined) return undefined;
      if (type !== known.type) isSame = false;
      merged.push(type === known.type ? known : { ...known, type });
    }
    merged.push(...left.fields.slice(from));
    if (isSame) return left;
    if (!isUnion && merged.length !== left.fields.length) return undefined;
    return this.withFields(left.op === Op.RECORD ? Op.RECORD : Op.VARIANT, merged);
  }
}

/**
 * Turns trees of types into a separate graph with one node for equal types. The depth of recursion is that of the
 * trees.
 */
export function compactGraph(roots: readonly CandidType[]): TypeGraph {
  const nodes: CandidType[] = [];
  const byKey = new Map<string, CandidType>();
  const done = new Map<CandidType, CandidType>();

  function copy(type: CandidType): CandidType {
    const known = done.get(type);
    if (known !== undefined) return known;
    const element = type.element === undefined ? undefined : copy(type.element);
    const fields = type.fields.map((field) => ({ ...field, type: copy(field.type) }));
    const parameters = type.parameters.map(copy);
    const results = type.results.map(copy);
    const methods = type.methods.map((method) => ({ ...method, type: copy(method.type) }));
    const key = JSON.stringify([
      type.op,
      element?.index,
      fields.map((field) => [field.id, field.label, field.type.index]),
      parameters.map((parameter) => parameter.index),
      results.map((result) => result.index),
      type.annotations,
      methods.map((method) => [method.name, method.type.index]),
    ]);
    let node = byKey.get(key);
    if (node === undefined) {
      node = new CandidType(type.op, nodes.length);
      node.element = element;
      Object.assign(node, { fields, parameters, results, methods, annotations: type.annotations });
      nodes.push(node);
      byKey.set(key, node);
    }
    done.set(type, node);
    return node;
  }

  return { roots: roots.map(copy), nodes };
}
