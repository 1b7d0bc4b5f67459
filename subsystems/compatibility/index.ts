/** What an upgrade would do to an actor's stable variables and to its callers, found out before it is done. */
import { defineCapability, type ServerError } from '../../kernel/index.ts';
import type { MethodKind as DescribedKind } from '../codec/index.ts';
import type { MethodKind } from '../ic/index.ts';

/** Something that is on one side only. */
export interface SideEntry {
  /** Where: `list[].text`, `get.results[0].name`. */
  readonly path: string;
  readonly type: string;
}

/** Something that is on both sides, and not the same. */
export interface ChangedEntry {
  readonly path: string;
  readonly from: string;
  readonly to: string;
}

/** What a difference means to those who call the actor. */
export interface Effect {
  /** Callers that were made for the old interface may fail. */
  readonly breaks: boolean;
  /** What may happen to them; null: nothing. */
  readonly why: string | null;
}

/** Differences of two stable signatures. Long lists are cut, and their last entry says how many more there are. */
export interface StableDifferences {
  readonly added: readonly SideEntry[];
  readonly removed: readonly SideEntry[];
  readonly changed: readonly ChangedEntry[];
}

/** Differences of two Candid interfaces; cut as `StableDifferences` are. */
export interface CandidDifferences {
  readonly added: readonly (SideEntry & Effect)[];
  readonly removed: readonly (SideEntry & Effect)[];
  readonly changed: readonly (ChangedEntry & Effect)[];
}

/** Who has compared stable signatures: the bundled compiler, the program of `SVC_BIN`, or `moc` beside the server. */
export type CheckerName = 'bundled' | 'svc_bin' | 'moc';

/** What is known of the stable variables. */
export interface StableFindings extends StableDifferences {
  /** Whether anybody has compared the signatures; equal ones need no compiler. */
  readonly checked: boolean;
  readonly checker: CheckerName | null;
  /** Null: nobody knows. */
  readonly compatible: boolean | null;
  /** What the checker said, or why there was no check. */
  readonly message: string | null;
}

/** What is known of the interface. */
export interface CandidFindings extends CandidDifferences {
  /** Whether the new interface is a subtype of the old one. Null: one of them is not known, or a comparison that was forced has failed. */
  readonly compatible: boolean | null;
}

/** What a module is described by; the text may have been given, and describe more than the module exports. */
export interface ComparedInterface {
  /** As .did. */
  readonly text: string;
  readonly methods: ReadonlyMap<string, { readonly kind: DescribedKind }>;
}

/** One of the two modules of an upgrade. */
export interface ComparedCode {
  /** Content of `motoko:stable-types`; undefined: it has none. */
  readonly stableTypes: Uint8Array | undefined;
  /** Undefined: not known. */
  readonly candid: ComparedInterface | undefined;
  /** What it exports for everybody. */
  readonly methods: ReadonlyMap<string, MethodKind>;
}

export interface ComparedUpgrade {
  /** The actor's name, for messages. */
  readonly name: string;
  readonly from: ComparedCode;
  readonly to: ComparedCode;
  /** Nothing is refused, no compiler is asked, and a comparison that fails finds no differences. */
  readonly isForced: boolean;
}

/** What was found, and what the policy (`--upgrade-policy`) makes of it. */
export interface UpgradeFindings {
  readonly stable: StableFindings;
  readonly candid: CandidFindings;
  /** The upgrade must not be done: ServerError `upgrade-incompatible`, `upgrade-unverified` or `upgrade-breaks-callers`. */
  readonly refusal: ServerError | undefined;
  /** One line each, for the operator, once the upgrade is done. */
  readonly warnings: readonly string[];
}

/** Compares modules before one takes the place of the other. */
export interface Compatibility {
  /**
   * Compares in a thread of its own; all work is bounded, whatever the modules carry. Rejects with ServerError `unavailable` when too
   * many upgrades are being compared or the comparison fails, if it is not forced, and when the server stops.
   */
  compare(upgrade: ComparedUpgrade): Promise<UpgradeFindings>;
}
export const Compatibility = defineCapability<Compatibility>('compatibility');
