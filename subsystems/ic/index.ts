/**
 * The vocabulary of the Internet Computer that all rooms share: principals and canister ids, tasks and steps, reject
 * codes, states, units. Plain data and its text forms; nothing here runs anything, and only the kernel is imported.
 */
export * from './callback-buffer.ts';
export * from './canister-facts.ts';
export * from './canister-id.ts';
export * from './canister-status.ts';
export * from './ended-step.ts';
export * from './id-text.ts';
export type * from './methods.ts';
export type * from './noted-message.ts';
export type * from './open-calls-entry.ts';
export * from './outcome.ts';
export * from './principal.ts';
export * from './references.ts';
export * from './reject-codes.ts';
export * from './step.ts';
export * from './turn-of-calls.ts';
export * from './units.ts';
