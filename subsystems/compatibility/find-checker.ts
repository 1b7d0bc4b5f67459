import { statSync } from 'node:fs';
import type { Compiler } from '../compiler/index.ts';
import { ProgramChecker } from './program-checker.ts';
import type { StableChecker } from './stable-checker.ts';

export interface CheckerPlaces {
  /** `SVC_BIN`, absolute; undefined: not set. */
  readonly program: string | undefined;
  /** Where a `moc` beside the server would be, absolute; undefined: nowhere. */
  readonly besideServer: string | undefined;
  /** PATH of the programs. */
  readonly searchPath: string | undefined;
}

/**
 * Whom to ask about stable signatures: the program of SVC_BIN, and nobody else if there is one; a `moc` that lies beside the server; the
 * bundled compiler. Looked for each time: an operator may put one there while the server runs.
 */
export function findChecker(
  { program, besideServer, searchPath }: CheckerPlaces,
  compiler: Pick<Compiler, 'compareStable'>,
): StableChecker {
  if (program !== undefined)
    return new ProgramChecker({ name: 'svc_bin', file: program, title: 'SVC_BIN', searchPath });
  if (besideServer !== undefined && statSync(besideServer, { throwIfNoEntry: false })?.isFile() === true)
    return new ProgramChecker({ name: 'moc', file: besideServer, title: 'the moc beside the server', searchPath });
  return { name: 'bundled', compareStable: (before, after) => compiler.compareStable(before, after) };
}
