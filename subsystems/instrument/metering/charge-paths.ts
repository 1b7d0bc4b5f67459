/**
 * Moves charges to places after a split of control flow, so that a path meets fewer of them.
 *
 *     loop  [charge 3]  (if (i < n)  (then  [charge 9] … br loop))  [charge 1]      ;; two charges per iteration
 *     loop              (if (i < n)  (then [charge 12] … br loop))  [charge 4]      ;; one
 *
 * A charge point may leave its cost to the charge points behind its first split if these cover all paths and are
 * reached from nowhere else: then each execution of the first is followed by exactly one execution of one of the
 * others. Completed paths pay the same sum. The postponed charge is never visible, because nothing is called in
 * between.
 */
import { numberAt } from '../../../kernel/index.ts';
import type { Uint32List } from '../analyze/number-list.ts';

const NOBODY = -1;
const SEVERAL = -2;

/** A place where a charge point's code splits. */
interface Split {
  readonly from: number;
  /** The charge points behind the split. */
  readonly to: number[];
  /** False if a path leads to no charge point, or back to a loop's head. */
  isComplete: boolean;
}

/** Control flow between the charge points of one function, recorded by the analyzer's walk; labels are nestings. */
export class ChargePaths {
  readonly #charges: Uint32List;
  readonly #splits: Split[] = [];
  /** The only predecessor of each charge point, from `#first` on. */
  readonly #before: number[] = [];
  #first = 0;
  /** Charge point that branches to each label, and splits that do. */
  readonly #source: number[] = [];
  readonly #waiting: Split[][] = [];
  /** Split of the `if` at each label, until its other path is known. */
  readonly #branching: (Split | undefined)[] = [];
  /** True if the current charge point's code is reachable; `#isPlain`: it has neither split nor called so far. */
  #isReached = true;
  #isPlain = true;

  constructor(charges: Uint32List) {
    this.#charges = charges;
  }

  /** Records the beginning of a function, after its first charge point was added. */
  begin(): void {
    this.#first = this.#charges.length - 1;
    this.#splits.length = 0;
    this.#before.length = 0;
    this.#open(SEVERAL);
  }

  /** Records a call, or anything else that must not come before the charge. */
  calls(): void {
    this.#isPlain = false;
  }

  enter(label: number): void {
    this.#source[label] = NOBODY;
    (this.#waiting[label] ??= []).length = 0;
    this.#branching[label] = undefined;
  }

  /** Records a loop's charge point. */
  loop(): void {
    this.#open(SEVERAL);
  }

  /** Records the charge point of an `if`'s first arm; `charge` is the one before the `if`. */
  firstArm(label: number, charge: number): void {
    const split = this.#split(charge);
    this.#branching[label] = split;
    this.#openBehind(charge, split);
  }

  /**
   * Records the charge point of the second arm; `last` is the one at the end of the first arm, `charge` the one before
   * the `if`.
   */
  secondArm(label: number, charge: number, last: number): void {
    this.#comesTo(label, last);
    this.#isReached = true;
    this.#openBehind(charge, this.#branching[label]);
    this.#branching[label] = undefined;
  }

  /**
   * Records the end of a block that no branch leaves: the code after it belongs to the charge point before it.
   * `isSame`: that is still the current one.
   */
  continues(label: number, isSame: boolean): void {
    for (const split of this.#waiting[label] ?? []) split.isComplete = false;
    const branching = this.#branching[label];
    if (branching !== undefined) branching.isComplete = false;
    if (isSame) return;
    this.#isPlain = false;
    this.#isReached = true;
  }

  /**
   * Records the end of a block, after a charge point for the code behind it was added. `last` is the one at the end of
   * the block's code; `skips` is the one before an `if` without `else`.
   */
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

  /**
   * Records a conditional branch, after the charge point behind it was added. `isLost`: the target is label 0 or a
   * loop.
   */
  branchIf(label: number, isLost: boolean, charge: number): void {
    const split = this.#split(charge);
    this.#goes(label, isLost, charge, split);
    this.#openBehind(charge, split);
  }

  /** Records a label of a `br_table`, with its `split` from `table`, or the label of a `br`. */
  branch(label: number, isLost: boolean, charge: number, split: Split | undefined): void {
    this.#goes(label, isLost, charge, split);
  }

  table(charge: number): Split | undefined {
    return this.#split(charge);
  }

  /** Records that the code behind is unreachable, after its charge point was added. */
  ends(): void {
    this.#isReached = false;
    this.#open(NOBODY);
  }

  /** Moves the charges at the end of a function. */
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
