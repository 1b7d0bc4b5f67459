/**
 * The differences of two stable signatures, variable by variable and into records, variants, tuples and arrays, through
 * the names of types (which the compiler renames whenever a definition changes). They are for people: only the compiler
 * decides which of them lose data.
 *
 * A worklist of pairs of types, each pair once, so that recursive types end; `WORK_MAX` limits the cost of texts made
 * to be expensive.
 */
import { DifferenceList, moreText } from './difference-list.ts';
import type { ChangedEntry, SideEntry, StableDifferences } from './index.ts';
import { named, type Path, pathText, stepped } from './path.ts';
import {
  partsOf,
  readSignature,
  type Signature,
  type SignatureGroup,
  type SignatureNode,
  signatureText,
  type SignatureType,
  UnreadableSignature,
} from './signature/index.ts';

/** Nodes of types that are compared at most. */
const WORK_MAX = 1_000_000;

export function compareSignatures(before: string, after: string): StableDifferences {
  try {
    const signatures = [readSignature(before), readSignature(after)] as const;
    const differences = new SignatureDifferences(signatures[0], signatures[1]);
    differences.compareGroups(signatures[0].variables, signatures[1].variables, undefined);
    return differences.run();
  } catch (error) {
    if (!(error instanceof UnreadableSignature)) throw error;
    // All that is known is that the texts differ.
    return {
      added: [],
      removed: [],
      changed: [{ path: '', from: signatureText([before]), to: signatureText([after]) }],
    };
  }
}

interface Pair {
  readonly before: SignatureType;
  readonly after: SignatureType;
  readonly path: Path;
}

interface Field {
  readonly name: string;
  /** True if the variable or field may be assigned. */
  readonly isVar: boolean;
  readonly type: SignatureType;
}

class SignatureDifferences {
  readonly #before: Signature;
  readonly #after: Signature;
  readonly #added = new DifferenceList<SideEntry>((count) => ({ path: '', type: moreText(count) }));
  readonly #removed = new DifferenceList<SideEntry>((count) => ({ path: '', type: moreText(count) }));
  readonly #changed = new DifferenceList<ChangedEntry>((count) => {
    const text = moreText(count);
    return { path: '', from: text, to: text };
  });
  readonly #met = new Map<SignatureType, Set<SignatureType>>();
  readonly #pending: Pair[] = [];
  #work = 0;

  constructor(before: Signature, after: Signature) {
    this.#before = before;
    this.#after = after;
  }

  run(): StableDifferences {
    for (let next = 0; next < this.#pending.length; next++) {
      const pair = this.#pending[next];
      if (pair !== undefined) this.#compare(pair);
      if (this.#work <= WORK_MAX) continue;
      this.#changed.add(() => ({ path: '', from: 'more than is compared', to: 'more than is compared' }));
      break;
    }
    return {
      added: this.#added.toArray(),
      removed: this.#removed.toArray(),
      changed: this.#changed.toArray(),
    };
  }

  /** Compares fields of records, tags of variants, variables of actors. */
  compareGroups(before: SignatureGroup, after: SignatureGroup, path: Path | undefined): void {
    this.#work += before.items.length + after.items.length;
    const [old, fresh] = [fieldsOf(before), fieldsOf(after)];
    for (const [name, field] of old) {
      const other = fresh.get(name);
      const place = named(path, name);
      if (other === undefined) {
        this.#removed.add(() => ({ path: pathText(place), type: fieldText(field) }));
        continue;
      }
      if (field.isVar !== other.isVar)
        this.#changed.add(() => ({ path: pathText(place), from: fieldText(field), to: fieldText(other) }));
      this.#demand({ before: field.type, after: other.type, path: place });
    }
    for (const [name, field] of fresh) {
      if (!old.has(name)) this.#added.add(() => ({ path: pathText(named(path, name)), type: fieldText(field) }));
    }
  }

  #demand(pair: Pair): void {
    const { before, after } = pair;
    const partners = this.#met.get(before);
    if (partners === undefined) this.#met.set(before, new Set([after]));
    else if (partners.has(after)) return;
    else partners.add(after);
    this.#pending.push(pair);
  }

  #compare({ before, after, path }: Pair): void {
    this.#work += 1 + before.length + after.length;
    const [oldDefinition, freshDefinition] = [definitionOf(this.#before, before), definitionOf(this.#after, after)];
    if (oldDefinition !== undefined || freshDefinition !== undefined) {
      this.#demand({ before: oldDefinition ?? before, after: freshDefinition ?? after, path });
      return;
    }
    const parts = this.#partsOf({ before, after, path });
    if (parts === undefined) {
      this.#changed.add(() => ({ path: pathText(path), from: signatureText(before), to: signatureText(after) }));
      return;
    }
    for (const part of parts) part();
  }

  /** Returns the remaining comparisons if both are built alike; undefined if they are not. */
  #partsOf({ before, after, path }: Pair): readonly (() => void)[] | undefined {
    if (before.length !== after.length) return undefined;
    const parts: (() => void)[] = [];
    let place = path;
    for (const [at, old] of before.entries()) {
      const fresh = after[at];
      if (fresh === undefined) return undefined;
      if (typeof old === 'string' || typeof fresh === 'string') {
        if (!this.#areWordsAlike(old, fresh)) return undefined;
        const [oldType, freshType] = [definitionOf(this.#before, [old]), definitionOf(this.#after, [fresh])];
        const here = place;
        if (oldType !== undefined && freshType !== undefined)
          parts.push(() => this.#demand({ before: oldType, after: freshType, path: here }));
        if (old === '?') place = stepped(place, '?');
        continue;
      }
      const inside = this.#insideOf(old, fresh, place);
      if (inside === undefined) return undefined;
      parts.push(...inside);
    }
    return parts;
  }

  /** Returns true for the same word, or for two names of types, which are then compared. */
  #areWordsAlike(old: SignatureNode, fresh: SignatureNode): boolean {
    if (typeof old !== 'string' || typeof fresh !== 'string') return false;
    const [isOldName, isFreshName] = [this.#before.definitions.has(old), this.#after.definitions.has(fresh)];
    return isOldName && isFreshName ? true : old === fresh && isOldName === isFreshName;
  }

  #insideOf(old: SignatureGroup, fresh: SignatureGroup, path: Path): readonly (() => void)[] | undefined {
    if (old.open !== fresh.open) return undefined;
    if (old.open === '{') return [() => this.compareGroups(old, fresh, path)];
    const [before, after] = [partsOf(old, ','), partsOf(fresh, ',')];
    if (before.length !== after.length) return undefined;
    return before.map((type, at) => () => {
      const step = old.open === '[' ? '[]' : before.length === 1 ? '' : `.${at}`;
      this.#demand({ before: type, after: after[at] ?? [], path: stepped(path, step) });
    });
  }
}

function definitionOf({ definitions }: Signature, type: SignatureType): SignatureType | undefined {
  const [word, more] = type;
  return typeof word === 'string' && more === undefined ? definitions.get(word) : undefined;
}

function fieldsOf(group: SignatureGroup): ReadonlyMap<string, Field> {
  return new Map(
    partsOf(group, ';')
      .map(fieldOf)
      .map((field) => [field.name, field]),
  );
}

function fieldText({ isVar, type }: Field): string {
  return signatureText(isVar ? ['var', ...type] : type);
}

const UNIT: SignatureType = [{ open: '(', items: [] }];

/** Parses `stable var n : Nat`, `in n : Nat`, `var n : Nat`, `n : Nat`, `#tag : Nat`, `#tag`. */
function fieldOf(part: SignatureType): Field {
  const colon = part.indexOf(':');
  const head = (colon < 0 ? part : part.slice(0, colon)).filter((node) => node !== 'stable' && node !== 'in');
  const isVar = head[0] === 'var' && head.length > 1;
  const name = signatureText(isVar ? head.slice(1) : head);
  const type = colon < 0 ? UNIT : part.slice(colon + 1);
  return { name, isVar, type };
}
