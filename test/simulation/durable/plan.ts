/** Choices in which seeds differ. */
import type { Seeded } from '../../support/seeded.ts';
import { PIECE_SIZES, type PieceSizes } from '../../../subsystems/execution/persistence/piece-sizes.ts';
import { RING_BYTES } from '../../../subsystems/storage/storage-wire.ts';

/** Mistakes that the simulator must find. */
export const BUGS = [
  /** An answer leaves when its unit is handed over. */
  'answers-too-early',
  /** An answer waits for the unit before its own. */
  'waits-for-the-unit-before',
  /** A unit lacks the changes that a step made to one page. */
  'lost-page',
  /** A unit lacks all changes of a step. */
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
  /** A key is sometimes not looked up. */
  'key-ignored',
  /** Keys are forgotten before their time. */
  'key-expires-early',
  /** Pages that an unfinished change of code had stored ahead are not deleted after the process has ended. */
  'left-ahead-stays',
  /** Payloads that a message had stored ahead which has not happened are not deleted after the process has ended. */
  'left-payloads-stay',
] as const;
/** Uses the machinery of planted mistakes without a mistake: nothing may be found. */
export const CONTROL = 'control';
/** An outcall leaves when it is asked for instead of when the request is durable; for seeds with outcalls. */
export const OUTSIDE_BUG = 'outcall-too-early';
export type Bug = (typeof BUGS)[number] | typeof CONTROL | typeof OUTSIDE_BUG;

/**
 * Common parts of actors: none; or the module, so that actors are the same until their first message, with or without
 * stable memory.
 */
export type Likeness = 'different' | 'alike' | 'alike-in-heap';

export interface Plan {
  readonly lanes: number;
  /** 0: no limit. */
  readonly liveCap: number;
  readonly snapshotBelowBytes: number;
  /** Bound of the time for running logs again; with a small one, actors are checkpointed all the time. */
  readonly replayBudgetSecs: number;
  readonly isSynced: boolean;
  /** Size of the ring to the storage thread; a small one is full all the time. */
  readonly ringBytes: number;
  readonly segmentBytes: number;
  readonly foldBytes: number;
  /** Weight of each kind of turn. */
  readonly weights: Readonly<Record<'execute' | 'tell' | 'seal' | 'work' | 'durable' | 'answer', number>>;
  readonly actors: number;
  readonly likeness: Likeness;
  readonly lives: number;
  /** Number of operations of clients in one life. */
  readonly operations: number;
  readonly hasHeartbeat: boolean;
  /** True if calls may be best-effort calls, whose cycles may be lost. */
  readonly hasTimeouts: boolean;
  /** True if actors come, go and are emptied. */
  readonly hasMayflies: boolean;
  /** True if actors are stopped, started and upgraded. */
  readonly hasChanges: boolean;
  /** True if one actor changes more pages than a checkpoint writes at once. */
  readonly hasLargeHeaps: boolean;
  /** True if earlier versions have left modules that no actor uses. */
  readonly hasLeftModules: boolean;
  /** True if executors die. */
  readonly hasDeaths: boolean;
  /** True if disks fail and fill up. */
  readonly hasDiskFaults: boolean;
  /** True if the host may also crash while it recovers. */
  readonly crashesInRecovery: boolean;
  /** Number of pages from which on a change of code stores its pages ahead, and the sizes of the pieces. */
  readonly pieceSizes: PieceSizes;
  /** Number of pages that come with the code of some actors. */
  readonly padPages: number;
  readonly keys: KeyPlan;
  /** True if actors ask servers outside. */
  readonly asksOutside: boolean;
  readonly bug: Bug | undefined;
}

/** Lifetime and maximum of clients' keys. */
export interface KeyPlan {
  readonly idempotencySecs: number;
  /** A bound that is reached after a few calls: then new keys are refused. Undefined: the bound is never reached. */
  readonly keysMax: number | undefined;
}

const PAGE = 65_536;
/** Heaps are kept by their changes, never by logs. */
export const NEVER_LOGGED_BYTES = 2 ** 40;

/** Chances that each decide one thing alone, so that other draws stay the same. */
interface OwnChances {
  readonly keyed: Seeded;
  readonly alike: Seeded;
  readonly pieces: Seeded;
}

/** Small actors have a dozen pages, not counting payloads; each piece takes turns of the host. */
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
    // An upgrade would drop the content of such a heap.
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
    // Large heaps are written with the shipped sizes.
    pieceSizes: hasLargeHeaps ? PIECE_SIZES : pieces.pick(PIECES),
    padPages: pieces.pick([0, 7, 20]),
    asksOutside,
    bug,
  };
}
