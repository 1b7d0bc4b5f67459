/** What a seed makes different. */
import type { Seeded } from '../../support/seeded.ts';
import { PIECE_SIZES, type PieceSizes } from '../../../subsystems/execution/persistence/piece-sizes.ts';
import { RING_BYTES } from '../../../subsystems/storage/storage-wire.ts';

/** Mistakes that the simulator must find. */
export const BUGS = [
  /** An answer leaves when its unit is handed over. */
  'answers-too-early',
  /** An answer waits for the unit before its own. */
  'waits-for-the-unit-before',
  /** What a step changed of one page is not in the unit. */
  'lost-page',
  /** Nothing of what a step changed is in the unit. */
  'lost-step',
  /** A unit arrives without one of its operations. */
  'torn-unit',
  /** A unit arrives after the one that follows it. */
  'swapped-units',
  /** A unit that is handed over instead of copied arrives before the small ones that wait. */
  'overtaking-unit',
  /** A value that is too large to be copied with its unit arrives without its last byte. */
  'cut-value',
  /** Calls and queues arrive in a unit of their own, before the state that goes with them. */
  'queue-before-state',
  /** Modules come and go in a unit of their own, before the canisters that name them. */
  'modules-before-names',
  /** Answers that are kept under keys arrive in a unit of their own, after the effects. */
  'key-after-effect',
  /** A call that awaits is kept without its key. */
  'key-not-in-context',
  /** A key is not looked at now and then. */
  'key-ignored',
  /** Keys are forgotten before their time. */
  'key-expires-early',
  /** What a change of code had stored ahead when the process ended is not deleted. */
  'left-ahead-stays',
] as const;
/** What mistakes are made with, and none is: nothing may be found. */
export const CONTROL = 'control';
/** An outcall leaves when it is asked for, and not when that is durable: for seeds that ask outside. */
export const OUTSIDE_BUG = 'outcall-too-early';
export type Bug = (typeof BUGS)[number] | typeof CONTROL | typeof OUTSIDE_BUG;

/** What actors have in common: nothing; or a module, so that they are the same until their first message, with or without stable memory. */
export type Likeness = 'different' | 'alike' | 'alike-in-heap';

export interface Plan {
  readonly lanes: number;
  /** 0 is no limit. */
  readonly liveCap: number;
  readonly snapshotBelowBytes: number;
  /** How long running logs again may take; small: they are checkpointed all the time. */
  readonly replayBudgetSecs: number;
  readonly isSynced: boolean;
  /** Of the ring to the storage thread: a small one is full all the time. */
  readonly ringBytes: number;
  readonly segmentBytes: number;
  readonly foldBytes: number;
  /** How often each kind of turn comes. */
  readonly weights: Readonly<Record<'execute' | 'tell' | 'seal' | 'work' | 'durable' | 'answer', number>>;
  readonly actors: number;
  readonly likeness: Likeness;
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
  /** Earlier versions have left modules that nobody uses. */
  readonly hasLeftModules: boolean;
  /** Executors die. */
  readonly hasDeaths: boolean;
  /** Disks fail, and fill up. */
  readonly hasDiskFaults: boolean;
  /** It may also crash while it recovers. */
  readonly crashesInRecovery: boolean;
  /** From how many pages on what a change of code makes is stored ahead, and in which pieces. */
  readonly pieceSizes: PieceSizes;
  /** Pages that come with the code of some actors. */
  readonly padPages: number;
  readonly keys: KeyPlan;
  /** Actors ask servers outside. */
  readonly asksOutside: boolean;
  readonly bug: Bug | undefined;
}

/** How long keys of clients are known, and how many. */
export interface KeyPlan {
  readonly idempotencySecs: number;
  /** A bound that few calls reach: then new keys are refused. Undefined: nobody reaches it. */
  readonly keysMax: number | undefined;
}

const PAGE = 65_536;
/** Heaps are kept by what changed. */
export const NEVER_LOGGED_BYTES = 2 ** 40;

/** Chance for one thing alone: what it decides changes no other draw. */
interface OwnChances {
  readonly keyed: Seeded;
  readonly alike: Seeded;
  readonly pieces: Seeded;
}

/** Actors that are not large have a dozen pages, but for payloads: of those each piece takes turns of the host. */
const PIECES: readonly [PieceSizes, ...PieceSizes[]] = [
  PIECE_SIZES,
  { atOncePages: 0, slicePages: 3 },
  { atOncePages: 4, slicePages: 4 },
  { atOncePages: 8, slicePages: 8 },
];

export function planOf(
  seeded: Seeded,
  bug: Bug | undefined,
  { keyed, alike, pieces }: OwnChances,
  asksOutside: boolean,
): Plan {
  const weight = (): number => seeded.pick([1, 2, 4, 8]);
  const hasLargeHeaps = seeded.oneIn(40);
  return {
    lanes: 1 + seeded.below(3),
    liveCap: seeded.pick([0, 0, 1, 2, 3]),
    snapshotBelowBytes: seeded.pick([NEVER_LOGGED_BYTES, NEVER_LOGGED_BYTES, 0, 0, 2 * PAGE, 3 * PAGE]),
    replayBudgetSecs: seeded.pick([10, 0.0005, 0.005]),
    isSynced: !seeded.oneIn(6),
    ringBytes: seeded.pick([512, 8192, 131_072, RING_BYTES]),
    segmentBytes: seeded.pick([8192, 32_768, 131_072]),
    foldBytes: seeded.pick([4096, 65_536, 1 << 20]),
    weights: { execute: weight(), tell: weight(), seal: weight(), work: weight(), durable: weight(), answer: weight() },
    actors: 3 + seeded.below(2),
    likeness: alike.pick(['different', 'different', 'alike', 'alike-in-heap']),
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
    keys: {
      idempotencySecs: keyed.pick([86_400, 86_400, 0.5, 1, 3]),
      keysMax: keyed.pick([undefined, undefined, 8, 24]),
    },
    hasLeftModules: keyed.oneIn(3),
    // What fills a large heap is what is shipped.
    pieceSizes: hasLargeHeaps ? PIECE_SIZES : pieces.pick(PIECES),
    padPages: pieces.pick([0, 7, 20]),
    asksOutside,
    bug,
  };
}
