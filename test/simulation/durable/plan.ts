/** What a seed makes different. */
import type { Seeded } from '../../support/seeded.ts';

/** Mistakes that the simulator must find. */
export const BUGS = ['answers-too-early', 'lost-page', 'queue-before-state'] as const;
export type Bug = (typeof BUGS)[number];

export interface Plan {
  readonly lanes: number;
  /** 0 is no limit. */
  readonly liveCap: number;
  readonly snapshotBelowBytes: number;
  /** How long running logs again may take; small: they are checkpointed all the time. */
  readonly replayBudgetSecs: number;
  readonly isSynced: boolean;
  readonly segmentBytes: number;
  readonly foldBytes: number;
  /** How often each kind of turn comes. */
  readonly weights: Readonly<Record<'execute' | 'tell' | 'seal' | 'work' | 'durable' | 'answer', number>>;
  readonly actors: number;
  readonly lives: number;
  /** What clients do in one life. */
  readonly operations: number;
  readonly hasHeartbeat: boolean;
  /** Best-effort calls, whose cycles may be lost. */
  readonly hasTimeouts: boolean;
  /** Actors come, go and are emptied. */
  readonly hasMayflies: boolean;
  /** Actors are stopped, started and upgraded. */
  readonly hasChanges: boolean;
  /** One actor changes more pages than a checkpoint writes at once. */
  readonly hasLargeHeaps: boolean;
  /** Executors die. */
  readonly hasDeaths: boolean;
  /** Disks fail, and fill up. */
  readonly hasDiskFaults: boolean;
  /** It may also crash while it recovers. */
  readonly crashesInRecovery: boolean;
  readonly bug: Bug | undefined;
}

const PAGE = 65_536;

export function planOf(seeded: Seeded, bug: Bug | undefined): Plan {
  const weight = (): number => seeded.pick([1, 2, 4, 8]);
  const hasLargeHeaps = seeded.oneIn(40);
  return {
    lanes: 1 + seeded.below(3),
    liveCap: seeded.pick([0, 0, 1, 2, 3]),
    snapshotBelowBytes: seeded.pick([2 ** 40, 2 ** 40, 0, 0, 2 * PAGE, 3 * PAGE]),
    replayBudgetSecs: seeded.pick([10, 0.0005, 0.005]),
    isSynced: !seeded.oneIn(6),
    segmentBytes: seeded.pick([8192, 32_768, 131_072]),
    foldBytes: seeded.pick([4096, 65_536, 1 << 20]),
    weights: { execute: weight(), tell: weight(), seal: weight(), work: weight(), durable: weight(), answer: weight() },
    actors: 3 + seeded.below(2),
    lives: 2 + seeded.below(3),
    operations: 10 + seeded.below(40),
    hasHeartbeat: seeded.oneIn(3),
    hasTimeouts: seeded.oneIn(4),
    hasMayflies: seeded.oneIn(3),
    // An upgrade would give up what such a heap has.
    hasChanges: !hasLargeHeaps && seeded.oneIn(2),
    hasLargeHeaps,
    hasDeaths: seeded.oneIn(6),
    hasDiskFaults: seeded.oneIn(5),
    crashesInRecovery: seeded.oneIn(2),
    bug,
  };
}
