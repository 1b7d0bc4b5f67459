/** Statuses in the order of their stored numbers. `stopping`: no new call is accepted, and open calls end. */
export const CANISTER_STATUSES = ['running', 'stopping', 'stopped'] as const;

export type CanisterStatus = (typeof CANISTER_STATUSES)[number];

/** States of a canister's low-memory hook, in the order of their stored numbers. */
export const LOW_MEMORY_HOOKS = ['condition_not_satisfied', 'ready', 'executed'] as const;

export type LowMemoryHook = (typeof LOW_MEMORY_HOOKS)[number];
