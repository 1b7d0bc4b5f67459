import { type Diagnostic, DIAGNOSTICS_SHOWN_MAX } from './diagnostics.ts';
import type { ImportReference } from './import-scanner.ts';
import { TextLines } from './text-lines.ts';

export interface ImportPlace {
  readonly file: string;
  readonly reference: ImportReference;
}

/** Problems of imports, for a person. */
export interface ProblemList {
  /** The problems that are shown. */
  readonly first: readonly Diagnostic[];
  /** Number of all problems. */
  readonly count: number;
}

interface FoundProblem {
  readonly place: ImportPlace;
  readonly message: (show: (file: string) => string, line: number) => string;
}

/**
 * Gathers problems of imports. A generated source may have a hundred thousand; only those that are shown are worked
 * out.
 */
export class ImportProblems {
  readonly #first: FoundProblem[] = [];
  #count = 0;

  /** True if problems that are added from now on are only counted. */
  get isFull(): boolean {
    return this.#first.length === DIAGNOSTICS_SHOWN_MAX;
  }

  /** `message` is given what says how a file is called, and the number of the line, from 1. */
  add(place: ImportPlace, message: FoundProblem['message']): void {
    this.#count++;
    if (!this.isFull) this.#first.push({ place, message });
  }

  /** Returns the problems as faults that the compiler would have found; `show` names a file for people. */
  list(linesOf: (file: string) => TextLines | undefined, show: (file: string) => string = (file) => file): ProblemList {
    const first = this.#first.map(({ place: { file, reference }, message }): Diagnostic => {
      const lines = linesOf(file) ?? new TextLines('');
      const start = lines.positionAt(reference.start);
      const end = lines.positionAt(reference.end);
      const what = { severity: 'error', category: 'import', code: '', message: message(show, start.line + 1) } as const;
      return { file: show(file), start, end, ...what };
    });
    return { first, count: this.#count };
  }
}

/** Returns the problems of two lists. */
export function joined(one: ProblemList, other: ProblemList): ProblemList {
  return { first: [...one.first, ...other.first], count: one.count + other.count };
}
