/** Executor thread: the contexts of executions that no call has led to. Constants; touches nothing. */
import type { ContextView } from '../../ic/index.ts';

const NO_BYTES = new Uint8Array(0);

/** The context of a hook, which nobody waits for: only who asked for it is known. */
export function hookContext(caller: Uint8Array): ContextView {
  return { caller, deadlineNs: 0n, canAnswer: false, cyclesAvailable: 0n, instructions: 0 };
}

/** The context of heartbeats, timers and the low memory hook. Its caller is the management canister. */
export const SYSTEM_CONTEXT: ContextView = hookContext(NO_BYTES);
