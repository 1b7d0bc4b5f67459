/** The engines of an executor thread: the part of them that it uses, and a maker for them. Executor thread. */
import { ControlMemory, type ControlMemoryOptions } from '../memory/control-memory.ts';
import { type Certify, Engine, type EngineOptions, type SharedStores } from '../engine/engine.ts';
import type { StoreAhead } from '../persistence/ahead-store.ts';
import type { ExecutorOptions } from '../wire/port-messages.ts';

/** Pre-images of one message: a message that touches more of its heap than this traps. */
const JOURNAL_BYTES_MAX = 3 * 2 ** 30;

/** The part of an engine that a thread uses. */
export type ThreadEngine = Pick<
  Engine,
  | 'addCycles'
  | 'adopt'
  | 'capturing'
  | 'carriesMuch'
  | 'change'
  | 'changing'
  | 'checkpoint'
  | 'configure'
  | 'createCanister'
  | 'dispose'
  | 'execute'
  | 'executing'
  | 'isHomeOf'
  | 'journalBytes'
  | 'prepareCheckpoint'
  | 'putToSleep'
  | 'removeCanister'
  | 'restoring'
  | 'takeChanges'
  | 'uninstall'
  | 'waking'
>;

/** Makes an engine for a thread. */
export type CreateEngine = (
  yields: Yields,
  shared: SharedStores,
  reportBug: EngineOptions['reportBug'],
) => ThreadEngine;

/**
 * Callback that an engine's messages make about once a millisecond, see `ControlMemoryOptions`; and, if they can be
 * suspended, functions that store their changes ahead, and that certify data.
 */
export type Yields = Pick<ControlMemoryOptions, 'onYield' | 'canSuspend'> & {
  readonly store?: StoreAhead;
  readonly certify?: Certify;
};

export function engineOf({ wasmStackBytes: stackBytes, policy, pieceSizes }: ExecutorOptions): CreateEngine {
  return ({ store, certify, ...yields }, shared, reportBug) => {
    const { budget } = shared;
    const control = new ControlMemory({ stackBytes, journalBytesMax: JOURNAL_BYTES_MAX, budget, ...yields });
    return new Engine({ policy, control, shared, reportBug, ahead: { store }, certify, pieceSizes });
  };
}
