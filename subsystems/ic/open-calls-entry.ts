/** Both sides of a ring; plain data. */

/** Calls of a canister to one callee that are open. */
export interface OpenCallsEntry {
  /** Principal bytes; none: the management canister. */
  readonly callee: Uint8Array;
  readonly slot: number;
  readonly count: number;
}
