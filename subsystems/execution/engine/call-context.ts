/** Executor thread: contexts of executions that no call started. Constants; touches nothing. */
import type { ContextView } from '../../ic/index.ts';
import { NO_BYTES } from '../../bytes/index.ts';

/** Returns the context of a hook. Nobody waits for a hook, so only its requester is known. */
export function hookContext(caller: Uint8Array): ContextView {
  return { caller, deadlineNs: 0n, canAnswer: false, cyclesAvailable: 0n, instructions: 0 };
}

/** The context of heartbeats, timers and the low memory hook. Its caller is the management canister. */
export const SYSTEM_CONTEXT: ContextView = hookContext(NO_BYTES);
