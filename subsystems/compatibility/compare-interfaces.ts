/**
 * Compares two Candid interfaces: finds out if the new service is a subtype of the old one, so that callers made for
 * the old one can still call, and lists the differences, each with its place and its consequence.
 *
 * Types may be recursive, so a pair of types that is being compared counts as compatible (the rules are coinductive).
 * All rules are conjunctions, because any `opt` is a subtype of any other: a worklist of pairs is enough, each pair is
 * compared once in each role, nothing recurses, and the interfaces are compatible if no pair breaks. The price is one
 * more property of a pair: below an `opt` on both sides nothing breaks, since a value that does not fit reads as null
 * there. Such differences are reported with that warning (`isSoft`).
 *
 * Work is limited: comparing a pair costs its fields, and once `WORK_MAX` is spent the comparison ends as one that
 * breaks. Two interfaces of the host's largest size (50,000 parts) that hardly share anything take less than that; only
 * types made for the purpose take more.
 */
import { type CandidType, type InterfaceTypes, isNullable, Op, TYPE_NAMES } from '../codec/interface-types/index.ts';
import { DifferenceList, moreText } from './difference-list.ts';
import type { CandidDifferences, ChangedEntry, Effect, SideEntry } from './index.ts';
import { named, type Path, pathText, stepped } from './path.ts';
import { annotationsText, typeText } from './type-text.ts';

/** Work on pairs, and on the fields, tags, parameters and methods of each: about half a second. */
const WORK_MAX = 1_000_000;

export interface InterfaceComparison extends CandidDifferences {
  readonly isCompatible: boolean;
}

export function compareInterfaces(
  before: InterfaceTypes,
  after: InterfaceTypes,
  workMax: number = WORK_MAX,
): InterfaceComparison {
  const comparison = new Comparison(after.nodeCount, workMax);
  comparison.methods(before.methods, after.methods);
  comparison.run();
  return comparison.result();
}

/** Methods of an interface or of a service type. */
type Methods = readonly { readonly name: string; readonly type: CandidType }[];

/** Two types in the same place. */
interface Pair {
  readonly before: CandidType;
  readonly after: CandidType;
  readonly role: Role;
  readonly path: Path;
}

interface Role {
  /**
   * True for values that callers send: the old type has to be a subtype of the new one. False for values that they
   * receive, where the new type has to be a subtype of the old one.
   */
  readonly isSent: boolean;
  /** True if a value that does not fit reads as null. */
  readonly isSoft: boolean;
}

const NULLED = 'what does not fit reads as null, without an error';

class Comparison {
  readonly #afterNodes: number;
  readonly #workMax: number;
  readonly #added = new DifferenceList<SideEntry & Effect>((count) => ({
    ...NOTHING,
    path: '',
    type: moreText(count),
  }));
  readonly #removed = new DifferenceList<SideEntry & Effect>((count) => ({
    ...NOTHING,
    path: '',
    type: moreText(count),
  }));
  readonly #changed = new DifferenceList<ChangedEntry & Effect>((count) => ({
    ...NOTHING,
    path: '',
    from: moreText(count),
    to: moreText(count),
  }));
  readonly #met = new Set<number>();
  readonly #pending: Pair[] = [];
  #work = 0;
  #isCompatible = true;

  constructor(afterNodes: number, workMax: number) {
    this.#afterNodes = afterNodes;
    this.#workMax = workMax;
  }

  result(): InterfaceComparison {
    return {
      isCompatible: this.#isCompatible,
      added: this.#added.toArray(),
      removed: this.#removed.toArray(),
      changed: this.#changed.toArray(),
    };
  }

  run(): void {
    // In order of demand, so that the shortest path to a pair is reported.
    for (let next = 0; next < this.#pending.length && this.#work <= this.#workMax; next++) {
      const pair = this.#pending[next];
      if (pair !== undefined) this.#compare(pair);
    }
    if (this.#work > this.#workMax) {
      const why = `the types are too large, or too entangled, to be compared in ${this.#workMax} steps`;
      this.#change(undefined, 'service', 'service', { breaks: true, why });
    }
  }

  /** Compares the methods of a service that callers use. */
  methods(before: Methods, after: Methods, role: Role = { isSent: false, isSoft: false }, path?: Path): void {
    this.#work += before.length + after.length;
    const { isSent, isSoft } = role;
    const afterByName = new Map(after.map(({ name, type }) => [name, type]));
    const beforeNames = new Set<string>();
    for (const { name, type } of before) {
      beforeNames.add(name);
      const other = afterByName.get(name);
      const place = named(path, name);
      if (other !== undefined) this.#demand({ before: type, after: other, role, path: place });
      else this.#remove(place, type, effectOf(!isSent, isSoft, 'callers that use the method fail'));
    }
    for (const { name, type } of after) {
      if (beforeNames.has(name)) continue;
      this.#add(named(path, name), type, effectOf(isSent, isSoft, 'what callers send has no such method'));
    }
  }

  #demand(pair: Pair): void {
    const { before, after, role } = pair;
    // Shallow pairs are reported at each place: nothing below them could lead back.
    if (isShallow(before) && isShallow(after)) {
      this.#work++;
      this.#pending.push(pair);
      return;
    }
    const roleNumber = (role.isSent ? 2 : 0) + (role.isSoft ? 1 : 0);
    const number = (before.index * this.#afterNodes + after.index) * 4;
    // A pair that must not break covers the same pair in a soft role.
    if (this.#met.has(number + roleNumber) || this.#met.has(number + (roleNumber & 2))) return;
    this.#met.add(number + roleNumber);
    this.#pending.push(pair);
  }

  #compare(pair: Pair): void {
    const { before, after, role, path } = pair;
    this.#work += 1 + before.fields.length + after.fields.length;
    const [sub, sup] = role.isSent ? [before, after] : [after, before];
    if (sup.op === Op.OPT) {
      this.#compareOption(pair, sub, sup);
    } else if (sub.op !== sup.op) {
      const isSubtype =
        sup.op === Op.RESERVED ||
        sub.op === Op.EMPTY ||
        (sub.op === Op.NAT && sup.op === Op.INT) ||
        (sub.op === Op.SERVICE && sup.op === Op.PRINCIPAL);
      const why = `${TYPE_NAMES[sub.op]} is no ${TYPE_NAMES[sup.op]}`;
      this.#change(path, typeText(before), typeText(after), effectOf(!isSubtype, role.isSoft, why));
    } else {
      this.#compareParts(pair);
    }
  }

  /**
   * Compares with an `opt`. Any type is a subtype of any `opt`: a value that is none of the inner type reads as null.
   */
  #compareOption({ before, after, role, path }: Pair, sub: CandidType, sup: CandidType): void {
    const soft: Role = { isSent: role.isSent, isSoft: true };
    if (sub.op === Op.OPT) {
      this.#demand({ before: before.inner, after: after.inner, role: soft, path: stepped(path, '?') });
      return;
    }
    this.#change(path, typeText(before), typeText(after), NOTHING);
    if (sub.op === Op.NULL || sub.op === Op.RESERVED || sub.op === Op.EMPTY) return;
    const [innerBefore, innerAfter] = role.isSent ? [before, sup.inner] : [sup.inner, after];
    this.#demand({ before: innerBefore, after: innerAfter, role: soft, path: stepped(path, '?') });
  }

  #compareParts(pair: Pair): void {
    const { before, after, role, path } = pair;
    switch (before.op) {
      case Op.VEC:
        this.#demand({ before: before.inner, after: after.inner, role, path: stepped(path, '[]') });
        break;
      case Op.RECORD:
        this.#compareFields(pair, (isInSup, type) => isInSup && !isNullable(type), [
          'callers expect it',
          'callers do not send it',
        ]);
        break;
      case Op.VARIANT:
        this.#compareFields(pair, (isInSup) => !isInSup, ['callers do not know it', 'callers may send it']);
        break;
      case Op.FUNC:
        this.#compareFunctions(pair);
        break;
      case Op.SERVICE:
        this.methods(before.methods, after.methods, role, path);
        break;
      default:
    }
  }

  /**
   * Compares fields. `breaks` returns true if a field must not be on one side alone; `whys` are the reasons for
   * received and for sent values.
   */
  #compareFields(
    { before, after, role, path }: Pair,
    breaks: (isInSup: boolean, type: CandidType) => boolean,
    whys: readonly [gotten: string, sent: string],
  ): void {
    const why = whys[role.isSent ? 1 : 0];
    let left = 0;
    let right = 0;
    // Both lists are in increasing order of ids.
    while (left < before.fields.length || right < after.fields.length) {
      const old = before.fields[left];
      const fresh = after.fields[right];
      if (old !== undefined && fresh !== undefined && old.id === fresh.id) {
        this.#demand({ before: old.type, after: fresh.type, role, path: named(path, fresh.label) });
        left++;
        right++;
      } else if (old !== undefined && (fresh === undefined || old.id < fresh.id)) {
        this.#remove(named(path, old.label), old.type, effectOf(breaks(!role.isSent, old.type), role.isSoft, why));
        left++;
      } else if (fresh !== undefined) {
        this.#add(named(path, fresh.label), fresh.type, effectOf(breaks(role.isSent, fresh.type), role.isSoft, why));
        right++;
      }
    }
  }

  #compareFunctions({ before, after, role, path }: Pair): void {
    const [from, to] = [annotationsText(before), annotationsText(after)];
    if (from !== to) this.#change(path, from, to, effectOf(true, role.isSoft, 'it is called in another way'));
    const { isSent, isSoft } = role;
    this.#compareTuples(before.parameters, after.parameters, { isSent: !isSent, isSoft }, stepped(path, '.args'));
    this.#compareTuples(before.results, after.results, role, stepped(path, '.results'));
  }

  #compareTuples(before: readonly CandidType[], after: readonly CandidType[], role: Role, path: Path): void {
    this.#work += before.length + after.length;
    const { isSent, isSoft } = role;
    for (let at = 0; at < before.length || at < after.length; at++) {
      const [old, fresh] = [before[at], after[at]];
      const place = stepped(path, `[${at}]`);
      if (old !== undefined && fresh !== undefined) this.#demand({ before: old, after: fresh, role, path: place });
      else if (old !== undefined)
        this.#remove(place, old, effectOf(!isSent && !isNullable(old), isSoft, 'callers expect it'));
      else if (fresh !== undefined)
        this.#add(place, fresh, effectOf(isSent && !isNullable(fresh), isSoft, 'callers do not send it'));
    }
  }

  #add(path: Path, type: CandidType, effect: Effect): void {
    this.#tell(effect);
    this.#added.add(() => ({ path: pathText(path), type: typeText(type), ...effect }));
  }

  #remove(path: Path, type: CandidType, effect: Effect): void {
    this.#tell(effect);
    this.#removed.add(() => ({ path: pathText(path), type: typeText(type), ...effect }));
  }

  #change(path: Path | undefined, from: string, to: string, effect: Effect): void {
    this.#tell(effect);
    this.#changed.add(() => ({ path: pathText(path), from, to, ...effect }));
  }

  #tell({ breaks }: Effect): void {
    if (breaks) this.#isCompatible = false;
  }
}

function isShallow(type: CandidType): boolean {
  const inner = type.op === Op.OPT || type.op === Op.VEC ? type.inner : type;
  return inner.op > Op.OPT || inner.op === Op.PRINCIPAL;
}

const NOTHING: Effect = { breaks: false, why: null };

function effectOf(breaks: boolean, isSoft: boolean, why: string): Effect {
  if (!breaks) return NOTHING;
  return isSoft ? { breaks: false, why: NULLED } : { breaks: true, why };
}
