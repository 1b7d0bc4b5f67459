/**
 * Charges that are moved to where control flow has split, so that a path meets fewer of them.
 *
 *     loop  [charge 3]  (if (i < n)  (then  [charge 9] … br loop))  [charge 1]      ;; two charges each time round
 *     loop              (if (i < n)  (then [charge 12] … br loop))  [charge 4]      ;; one
 *
 * A charge point may leave its cost to those behind its first split if they are all the ways on and nobody else comes to
 * them: then each execution of the one is followed by exactly one execution of one of the others. Completed paths pay the
 * same sum. What is owed meanwhile is seen by nobody, because nothing is called in between.
 */
import { numberAt } from '../../../kernel/index.ts';
import type { Uint32List } from '../analyze/number-list.ts';

const NOBODY = -1;
const SEVERAL = -2;

/** A place where a charge point's code splits. */
interface Split {
  readonly from: number;
  /** The charge points behind it. */
  readonly to: number[];
  /** False when a way on leads to no charge point, or around a loop. */
  isComplete: boolean;
}

/** Control flow between the charge points of one function, recorded by the analyzer's walk; labels are nestings. */
export class ChargePaths {
  readonly #charges: Uint32List;
  readonly #splits: Split[] = [];
  /** By charge point from `#first` on: the only one before it. */
  readonly #before: number[] = [];
  #first = 0;
  /** By label: which charge point branches to it, and splits that do. */
  readonly #source: number[] = [];
  readonly #waiting: Split[][] = [];
  /** By label of an `if`: the split there, until its other way is known. */
  readonly #branching: (Split | undefined)[] = [];
  /** Whether the current charge point's code is reached, and has neither split nor called so far. */
  #isReached = true;
  #isPlain = true;

  constructor(charges: Uint32List) {
    this.#charges = charges;
  }

  /** A function begins; its first charge point has been added. */
  begin(): void {
    this.#first = this.#charges.length - 1;
    this.#splits.length = 0;
    this.#before.length = 0;
    this.#open(SEVERAL);
  }

  /** A call, or whatever else must not come before the charge. */
  calls(): void {
    this.#isPlain = false;
  }

  enter(label: number): void {
    this.#source[label] = NOBODY;
    (this.#waiting[label] ??= []).length = 0;
    this.#branching[label] = undefined;
  }

  /** The charge point in a loop has been added. */
  loop(): void {
    this.#open(SEVERAL);
  }

  /** That of the first arm of an `if` has been added; `charge` is the one in front. */
  firstArm(label: number, charge: number): void {
    const split = this.#split(charge);
    this.#branching[label] = split;
    this.#openBehind(charge, split);
  }

  /** That of the second arm has been added, `last` is the end of the first arm's code, `charge` in front of the `if`. */
  secondArm(label: number, charge: number, last: number): void {
    this.#comesTo(label, last);
    this.#isReached = true;
    this.#openBehind(charge, this.#branching[label]);
    this.#branching[label] = undefined;
  }

  /** A block has ended and nothing was left out: the code behind belongs to the charge point in front, `isSame` as before. */
  continues(label: number, isSame: boolean): void {
    for (const split of this.#waiting[label] ?? []) split.isComplete = false;
    const branching = this.#branching[label];
    if (branching !== undefined) branching.isComplete = false;
    if (isSame) return;
    this.#isPlain = false;
    this.#isReached = true;
  }

  /** A block has ended and a charge point for what follows been added. `last`: the end of its code; `skips`: an `if` without `else`, and what stood in front of it. */
  joins(label: number, last: number, skips: number | undefined): void {
    this.#comesTo(label, last);
    if (skips !== undefined) {
      this.#isReached = true;
      this.#comesTo(label, skips);
    }
    const point = this.#charges.length - 1;
    for (const split of this.#waiting[label] ?? []) split.to.push(point);
    this.#branching[label]?.to.push(point);
    const source = this.#source[label] ?? NOBODY;
    this.#isReached = source !== NOBODY;
    this.#open(source);
  }

  /** A conditional branch; the charge point behind it has been added. Label 0, and loops: `isLost`. */
  branchIf(label: number, isLost: boolean, charge: number): void {
    const split = this.#split(charge);
    this.#goes(label, isLost, charge, split);
    this.#openBehind(charge, split);
  }

  /** One of the labels of a `br_table` or, alone, of a `br`: `split` is what `table` gave. */
  branch(label: number, isLost: boolean, charge: number, split: Split | undefined): void {
    this.#goes(label, isLost, charge, split);
  }

  table(charge: number): Split | undefined {
    return this.#split(charge);
  }

  /** Nothing reaches what follows; its charge point has been added. */
  ends(): void {
    this.#isReached = false;
    this.#open(NOBODY);
  }

  /** The function has ended: moves the charges. */
  move(): void {
    const { values } = this.#charges;
    for (const { from, to, isComplete } of this.#splits) {
      const cost = numberAt(values, from, 'charge');
      if (!isComplete || cost === 0 || !to.every((point) => this.#before[point - this.#first] === from)) continue;
      for (const point of to) values[point] = numberAt(values, point, 'charge') + cost;
      values[from] = 0;
    }
  }

  #open(before: number): void {
    this.#before.push(before);
    this.#isPlain = true;
  }

  #openBehind(charge: number, split: Split | undefined): void {
    split?.to.push(this.#charges.length - 1);
    this.#open(charge);
  }

  #split(from: number): Split | undefined {
    if (!this.#isPlain || !this.#isReached) return undefined;
    this.#isPlain = false;
    const split: Split = { from, to: [], isComplete: true };
    this.#splits.push(split);
    return split;
  }

  #goes(label: number, isLost: boolean, charge: number, split: Split | undefined): void {
    if (isLost) {
      if (split !== undefined) split.isComplete = false;
      return;
    }
    this.#comesTo(label, charge);
    const waiting = this.#waiting[label];
    if (split !== undefined && waiting?.at(-1) !== split) waiting?.push(split);
  }

  #comesTo(label: number, charge: number): void {
    if (!this.#isReached) return;
    const known = this.#source[label] ?? NOBODY;
    this.#source[label] = known === NOBODY || known === charge ? charge : SEVERAL;
  }
}
