import { statSync } from 'node:fs';
import type { Compiler } from '../compiler/index.ts';
import { ProgramChecker } from './program-checker.ts';
import type { StableChecker } from './stable-checker.ts';

export interface CheckerPlaces {
  /** Absolute path from `SVC_BIN`; undefined if it is not set. */
  readonly program: string | undefined;
  /** Absolute path of a `moc` beside the server; undefined: there is no such place. */
  readonly besideServer: string | undefined;
  /** PATH for the programs. */
  readonly searchPath: string | undefined;
}

/**
 * Finds the checker of stable signatures: only the program of SVC_BIN, if it is set; otherwise a `moc` beside the
 * server; otherwise the bundled compiler. Searched each time, because an operator may add one while the server runs.
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
