import { isNullable, Op, type CandidType } from './types.ts';

/*
 * Subtyping of Candid types, which decides if a function or service reference may stand for another.
 *
 * Types may be recursive, so a pair that is being checked counts as true (the rules are coinductive). All rules are
 * conjunctions, since `opt` is a subtype of any `opt`: the first failure ends the whole check, and after a success
 * every visited pair is true. So a worklist of pairs is enough: no recursion, each pair once.
 */

/** Checking a part takes 100 ns, reading a value 10. */
const WORK_PER_PART = 8;

/** Returns true if every value of `sub` may be used as `sup`. `charge` pays for the work and may throw. */
export function isSubtype(sub: CandidType, sup: CandidType, charge: (units: number) => void): boolean {
  const met = new Map<CandidType, Set<CandidType>>();
  const pending: [CandidType, CandidType][] = [];

  /** Adds a pair to be checked; returns false if it cannot hold. */
  const demand = (left: CandidType, right: CandidType): boolean => {
    const partners = met.get(left);
    if (partners === undefined) met.set(left, new Set([right]));
    else if (partners.has(right)) return true;
    else partners.add(right);
    pending.push([left, right]);
    return true;
  };

  demand(sub, sup);
  for (let pair = pending.pop(); pair !== undefined; pair = pending.pop()) {
    charge(1 + WORK_PER_PART * (partsOf(pair[0]) + partsOf(pair[1])));
    if (!holds(pair[0], pair[1], demand)) return false;
  }
  return true;
}

/** Returns the number of parts of a type that are looked at for one pair. */
function partsOf({ fields, methods, parameters, results, annotations }: CandidType): number {
  return fields.length + methods.length + parameters.length + results.length + annotations.length;
}

type Demand = (left: CandidType, right: CandidType) => boolean;

function holds(sub: CandidType, sup: CandidType, demand: Demand): boolean {
  // Following the special rule, a value that is no `opt` of the right type reads as null.
  if (sup.op === Op.RESERVED || sup.op === Op.OPT || sub.op === Op.EMPTY) return true;
  if (sub.op !== sup.op)
    return (sub.op === Op.NAT && sup.op === Op.INT) || (sub.op === Op.SERVICE && sup.op === Op.PRINCIPAL);
  switch (sup.op) {
    case Op.VEC:
      return demand(sub.inner, sup.inner);
    case Op.RECORD:
      return recordHolds(sub, sup, demand);
    case Op.VARIANT:
      return variantHolds(sub, sup, demand);
    case Op.FUNC:
      return (
        sameAnnotations(sub, sup) &&
        tupleHolds(sup.parameters, sub.parameters, demand) &&
        tupleHolds(sub.results, sup.results, demand)
      );
    case Op.SERVICE:
      return serviceHolds(sub, sup, demand);
    case Op.FUTURE:
      return false;
    default:
      return true;
  }
}

function recordHolds(sub: CandidType, sup: CandidType, demand: Demand): boolean {
  const fields = new Map(sub.fields.map((field) => [field.id, field.type]));
  return sup.fields.every((field) => {
    const known = fields.get(field.id);
    return known === undefined ? isNullable(field.type) : demand(known, field.type);
  });
}

function variantHolds(sub: CandidType, sup: CandidType, demand: Demand): boolean {
  const tags = new Map(sup.fields.map((field) => [field.id, field.type]));
  return sub.fields.every((field) => {
    const known = tags.get(field.id);
    return known !== undefined && demand(field.type, known);
  });
}

function tupleHolds(sub: readonly CandidType[], sup: readonly CandidType[], demand: Demand): boolean {
  return sup.every((type, index) => {
    const known = sub[index];
    return known === undefined ? isNullable(type) : demand(known, type);
  });
}

function serviceHolds(sub: CandidType, sup: CandidType, demand: Demand): boolean {
  const methods = new Map(sub.methods.map((method) => [method.name, method.type]));
  return sup.methods.every((method) => {
    const known = methods.get(method.name);
    return known !== undefined && demand(known, method.type);
  });
}

function sameAnnotations(left: CandidType, right: CandidType): boolean {
  return (
    left.annotations.every((annotation) => right.annotations.includes(annotation)) &&
    right.annotations.every((annotation) => left.annotations.includes(annotation))
  );
}
