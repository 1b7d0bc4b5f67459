import type { CheckerName } from './index.ts';
import type { StableVerdict } from '../compiler/index.ts';

/** Decides if one stable signature may follow another. */
export interface StableChecker {
  readonly name: CheckerName;
  /**
   * Compares the signatures. Never rejects, and takes at most until its deadline. Signatures come from modules and may
   * be any text.
   */
  compareStable(before: string, after: string): Promise<StableVerdict>;
}
