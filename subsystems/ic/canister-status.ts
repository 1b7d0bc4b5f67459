/** `stopping`: no new call is taken, and those that are open end. In the order in which they are stored. */
export const CANISTER_STATUSES = ['running', 'stopping', 'stopped'] as const;

export type CanisterStatus = (typeof CANISTER_STATUSES)[number];

/** Whether a canister's low-memory hook is due. In the order in which they are stored. */
export const LOW_MEMORY_HOOKS = ['condition_not_satisfied', 'ready', 'executed'] as const;

export type LowMemoryHook = (typeof LOW_MEMORY_HOOKS)[number];
