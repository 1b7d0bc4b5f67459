/** Changes that an upgrade makes, as the server tells them (docs/upgrades.md). */

/** A difference between two modules; its members depend on the list that it is in. */
export interface Difference {
  readonly path: string;
  readonly type?: string;
  readonly from?: string;
  readonly to?: string;
  readonly breaks?: boolean;
  readonly why?: string | null;
}

export interface Differences {
  readonly compatible: boolean | null;
  readonly added: readonly Difference[];
  readonly removed: readonly Difference[];
  readonly changed: readonly Difference[];
}

/** Changes that an upgrade made, or would have made. */
export interface UpgradeReport {
  readonly upgraded: boolean;
  readonly module: { readonly from: string | null; readonly to: string };
  readonly stable: Differences & {
    readonly checked: boolean;
    readonly checker: string | null;
    readonly message: string | null;
  };
  readonly candid: Differences;
  readonly persistence: string;
  readonly instructions: number;
}
