/** Stable variables of actors, read from copies of their states. */
import { defineCapability } from '../../kernel/index.ts';
import type { Canister } from '../canisters/index.ts';

/** The value that is asked for. */
export interface AskedValue {
  /** Name of a variable, and the way to a part of its value: `users[3].name`. */
  readonly path: string;
  /** First element, or byte, of a sequence that is shown; default: 0. */
  readonly from?: number | undefined;
  /** Most elements, or bytes, that are shown; default: as many as an answer has room for. */
  readonly count?: number | undefined;
  /** Number of the copy that an earlier answer was about; default: a new copy, if the actor has changed. */
  readonly copy?: number | undefined;
}

/**
 * Reads stable variables. The actor itself is only read: values come from a copy of its state that has run the upgrade
 * hook. Answers are UTF-8 JSON (docs/variables.md). Rejects with ServerError: `variables-off` (missing),
 * `variables-none`, `variables-path`, `variables-undecoded`, `variables-slow`, `variables-too-large`,
 * `variables-hook-failed` (invalid), `variables-copy-gone` (missing), `variables-copying`, `variables-busy`,
 * `variables-replay`, `variables-failed`, `variables-closed`, `memory-full` (unavailable).
 */
export interface Variables {
  /** Resolves with the variables' names, types and sizes, and figures of the memory. */
  list(canister: Canister): Promise<Uint8Array>;
  valueAt(canister: Canister, asked: AskedValue): Promise<Uint8Array>;
}
export const Variables = defineCapability<Variables>('variables');
