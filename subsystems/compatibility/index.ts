/** Predicts the effects of an upgrade on an actor's stable variables and on its callers, before it is done. */
import { defineCapability, type ServerError } from '../../kernel/index.ts';
import type { MethodKind as DescribedKind } from '../codec/index.ts';
import type { MethodKind } from '../ic/index.ts';

/** A part that is on one side only. */
export interface SideEntry {
  /** Place: `list[].text`, `get.results[0].name`. */
  readonly path: string;
  readonly type: string;
}

/** A part that is on both sides, but differs. */
export interface ChangedEntry {
  readonly path: string;
  readonly from: string;
  readonly to: string;
}

/** Effect of a difference on callers of the actor. */
export interface Effect {
  /** True if callers that were made for the old interface may fail. */
  readonly breaks: boolean;
  /** Description of what may happen to callers; null: nothing. */
  readonly why: string | null;
}

/** Differences of two stable signatures. Long lists are cut; their last entry then says how many more there are. */
export interface StableDifferences {
  readonly added: readonly SideEntry[];
  readonly removed: readonly SideEntry[];
  readonly changed: readonly ChangedEntry[];
}

/** Differences of two Candid interfaces; cut like `StableDifferences`. */
export interface CandidDifferences {
  readonly added: readonly (SideEntry & Effect)[];
  readonly removed: readonly (SideEntry & Effect)[];
  readonly changed: readonly (ChangedEntry & Effect)[];
}

/** Comparer of stable signatures: the bundled compiler, the program of `SVC_BIN`, or `moc` beside the server. */
export type CheckerName = 'bundled' | 'svc_bin' | 'moc';

/** Findings about the stable variables. */
export interface StableFindings extends StableDifferences {
  /** True if the signatures have been compared; equal ones need no compiler. */
  readonly checked: boolean;
  readonly checker: CheckerName | null;
  /** Null: unknown. */
  readonly compatible: boolean | null;
  /** Message of the checker, or the reason why there was no check. */
  readonly message: string | null;
}

/** Findings about the interface. */
export interface CandidFindings extends CandidDifferences {
  /**
   * True if the new interface is a subtype of the old one. Null: one of them is not known, or a forced comparison
   * failed.
   */
  readonly compatible: boolean | null;
}

/** Description of a module. Its text may have been given separately, and describe more than the module exports. */
interface ComparedInterface {
  /** Text of a .did file. */
  readonly text: string;
  readonly methods: ReadonlyMap<string, { readonly kind: DescribedKind }>;
}

/** One of the two modules of an upgrade. */
export interface ComparedCode {
  /** Content of `motoko:stable-types`; undefined if the module has none. */
  readonly stableTypes: Uint8Array | undefined;
  /** Undefined if the interface is not known. */
  readonly candid: ComparedInterface | undefined;
  /** Methods that the module exports to everyone. */
  readonly methods: ReadonlyMap<string, MethodKind>;
}

export interface ComparedUpgrade {
  /** The actor's name, for messages. */
  readonly name: string;
  readonly from: ComparedCode;
  readonly to: ComparedCode;
  /** True if nothing is refused, no compiler is asked, and a failed comparison counts as one without differences. */
  readonly isForced: boolean;
}

/** The findings, and the decision of the policy (`--upgrade-policy`). */
export interface UpgradeFindings {
  readonly stable: StableFindings;
  readonly candid: CandidFindings;
  /**
   * Error if the upgrade must not be done: ServerError `upgrade-incompatible`, `upgrade-unverified` or
   * `upgrade-breaks-callers`.
   */
  readonly refusal: ServerError | undefined;
  /** Lines for the operator, to be logged once the upgrade is done. */
  readonly warnings: readonly string[];
}

/** Compares modules before one replaces the other. */
export interface Compatibility {
  /**
   * Compares in a separate thread; all work is limited, whatever the modules contain. Rejects with ServerError
   * `unavailable` if too many upgrades are being compared or the comparison fails, unless it is forced, and when the
   * server stops.
   */
  compare(upgrade: ComparedUpgrade): Promise<UpgradeFindings>;
}
export const Compatibility = defineCapability<Compatibility>('compatibility');
