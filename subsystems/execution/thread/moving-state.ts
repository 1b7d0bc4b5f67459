/**
 * Moves a canister's whole state out of it or into it, and makes the answer. State of gigabytes is moved in the turns
 * of a long message, which ends early if the canister is being deleted.
 *
 * Executor thread; touches the canister through the engine, while its gate is closed.
 */
import { messageOf } from '../../../kernel/index.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import { type Engine, type Running, runToEnd } from '../engine/engine.ts';
import { TooLong } from '../engine/fault.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import { Recalled } from '../memory/pieces.ts';
import { isLackOfMemory } from '../persistence/canister-image.ts';
import type { PieceSizes } from '../persistence/piece-sizes.ts';
import type { CanisterCommand, PortMessage } from '../wire/port-messages.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';

export type StateCommand = Extract<CanisterCommand, { readonly kind: 'capture' | 'restore' }>;
type MovingEngine = Pick<Engine, 'capturing' | 'restoring' | 'takeChanges'>;

/** Most bytes that are moved in one go: some milliseconds. */
const BYTES_AT_ONCE_MAX = 4 * 2 ** 20;

export function isMovedAtOnce(
  { installed, stable }: CanisterState,
  command: StateCommand,
  { atOncePages }: PieceSizes,
): boolean {
  let bytes = (installed?.instance.heapBytes ?? 0) + stable.storedBytes;
  if (command.kind === 'restore') {
    bytes += command.image.heap.length;
    for (const run of command.image.stable) bytes += run.bytes.length;
  }
  return bytes <= Math.min(BYTES_AT_ONCE_MAX, atOncePages * PAGE_BYTES);
}

/** Moves state without pauses; returns undefined if that would wait for memory: the canister is as it was. */
export function atOnce(moving: Running<PortMessage>): PortMessage | undefined {
  try {
    return runToEnd(moving);
  } catch (error) {
    if (error instanceof TooLong) return undefined;
    throw error;
  }
}

/**
 * Executes the command, and returns the answer. Once `isRecalled` returns true, the canister stays as it is. Throws as
 * `restoreState` does where it waits for memory.
 */
export function* movingState(
  engine: MovingEngine,
  canister: CanisterState,
  code: InstrumentedCode | undefined,
  command: StateCommand,
  isRecalled: () => boolean,
): Running<PortMessage> {
  const { kind, call, handle } = command;
  try {
    if (kind === 'capture') return { kind: 'image', call, image: yield* engine.capturing(canister, isRecalled) };
    const problem = yield* engine.restoring(canister, code, command.image, isRecalled);
    return { kind: 'restored', call, handle, problem, isShort: false, changes: engine.takeChanges() };
  } catch (error) {
    const isShort = isLackOfMemory(error);
    if (!isShort && !(error instanceof Recalled)) throw error;
    const problem = messageOf(error);
    if (kind === 'capture') return { kind: 'notCaptured', call, problem, isShort };
    return { kind: 'restored', call, handle, problem, isShort, changes: engine.takeChanges() };
  }
}
