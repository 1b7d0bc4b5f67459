import type { CheckerName } from './index.ts';
import type { StableVerdict } from '../compiler/index.ts';

/** Somebody who can say whether one stable signature may follow another. */
export interface StableChecker {
  readonly name: CheckerName;
  /** Never rejects; takes as long as its deadline says, at most. The signatures are modules' and may be any text. */
  compareStable(before: string, after: string): Promise<StableVerdict>;
}
