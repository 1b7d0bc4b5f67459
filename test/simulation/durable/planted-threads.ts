/**
 * The mistake that once let a message run inside of another one of the same actor, planted again: a gate that lets in what is
 * too large for the ring, while a message is under way. With the shipped engine, which asserts that none is; and with one
 * that does not, so that the simulator has to find what comes of it.
 */
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import { Engine, type EngineResult, type Running } from '../../../subsystems/execution/engine/engine.ts';
import type { Task } from '../../../subsystems/ic/index.ts';
import { LeakyGate } from '../observed-gate.ts';
import type { PlantedThreads } from './simulated-threads.ts';

/** Takes no notice of a message that is under way: another one gets its instance. */
class CarelessEngine extends Engine {
  override execute(canister: CanisterState, task: Task, nowMs: number): EngineResult {
    letGo(canister);
    return super.execute(canister, task, nowMs);
  }

  override *executing(canister: CanisterState, task: Task, nowMs: number, isAgain = false): Running<EngineResult> {
    letGo(canister);
    return yield* super.executing(canister, task, nowMs, isAgain);
  }
}

/** An instance can leave the journal of its message only when that has ended. */
function letGo(canister: CanisterState): void {
  if (canister.isInMessage) canister.installed?.instance.commit();
  canister.isInMessage = false;
}

export const PLANTED_THREADS: Readonly<Record<string, PlantedThreads>> = {
  'a gate that lets in what is large': { createGate: (seen) => new LeakyGate(seen) },
  'such a gate, and an engine that does not notice': {
    createGate: (seen) => new LeakyGate(seen),
    createEngine: (options) => new CarelessEngine(options),
    isSilent: true,
  },
};

/** The same without the gate: that is no mistake, and nothing may be found. */
export const CARELESS: PlantedThreads = { createEngine: (options) => new CarelessEngine(options) };
