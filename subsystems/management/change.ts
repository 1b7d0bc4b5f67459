/** What was done to a canister, by whom: what its history keeps, and `canister_info` tells. */

export type ChangeOrigin =
  | { readonly kind: 'user'; readonly id: Uint8Array }
  | { readonly kind: 'canister'; readonly id: Uint8Array; readonly version: bigint | undefined };

export type ChangeDetails =
  | {
      readonly kind: 'creation';
      readonly controllers: readonly Uint8Array[];
      /** SHA-256, when there are variables. */
      readonly environmentHash: Uint8Array | undefined;
    }
  | { readonly kind: 'codeUninstall' }
  | {
      readonly kind: 'codeDeployment';
      readonly mode: 'install' | 'reinstall' | 'upgrade';
      readonly moduleHash: Uint8Array;
    }
  | {
      readonly kind: 'loadSnapshot';
      /** When it is another canister's snapshot. */
      readonly from: Uint8Array | undefined;
      readonly snapshotId: Uint8Array;
      readonly version: bigint;
      readonly takenAtNs: bigint;
      readonly isUploaded: boolean;
    }
  | { readonly kind: 'controllersChange'; readonly controllers: readonly Uint8Array[] };

export interface Change {
  readonly origin: ChangeOrigin;
  readonly details: ChangeDetails;
}

export interface HistoryEntry extends Change {
  readonly timeNs: bigint;
  /** The canister's version after the change. */
  readonly version: number;
}
