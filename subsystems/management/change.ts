/** Changes of canisters and their origins, as the history keeps them and `canister_info` shows them. */

export type ChangeOrigin =
  | { readonly kind: 'user'; readonly id: Uint8Array }
  | { readonly kind: 'canister'; readonly id: Uint8Array; readonly version: bigint | undefined };

export type ChangeDetails =
  | {
      readonly kind: 'creation';
      readonly controllers: readonly Uint8Array[];
      /** SHA-256 of the environment variables, if there are any. */
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
      /** The canister that the snapshot belongs to, if it is another one. */
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
