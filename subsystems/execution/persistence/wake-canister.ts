/**
 * Brings a stored canister to life: its memory as it is stored, and the later messages of its log, run again.
 * Executor thread; touches the canister that it brings to life, which has no message under way.
 */
import { at } from '../../../kernel/index.ts';
import type { Shortages } from '../memory/shortage.ts';
import { areSameNumbers, numbersOf, takeNumbers, type Task } from '../../ic/index.ts';
import type { MeteringPolicy } from '../../metering/index.ts';
import type { CanisterState } from '../engine/canister-state.ts';
import { type StoredState, wakeState } from './canister-image.ts';
import { Environment } from '../engine/environment.ts';
import type { EngineRuntime, Running } from '../engine/engine-runtime.ts';
import type { CanisterSettings, Replayed, SleepingCanister, StandingSettings } from '../index.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { decodeCheckpointHeader, LogReader, type CheckpointHeader } from './log-record.ts';
import { OutOfMemory } from '../memory/memory-budget.ts';

/** Runs the records of a log again. */
interface LogRunner {
  executing(canister: CanisterState, task: Task, nowMs: number, isAgain: boolean, refused: Shortages): Running<unknown>;
  configure(canister: CanisterState, settings: CanisterSettings): void;
}

/** A canister that is brought back: as it is stored, or as it was packed. */
export type StoredCanisterState = Omit<SleepingCanister, 'spec' | 'module' | 'memory'> & Pick<StoredState, 'memory'>;

/**
 * Wakes a canister. Returns the reason for a refusal, or the number of records that were run again. Throws OutOfMemory
 * if there is no room for it now.
 */
export function* wakeCanister(
  runtime: EngineRuntime,
  engine: LogRunner,
  canister: CanisterState,
  code: InstrumentedCode | undefined,
  stored: StoredCanisterState,
): Running<string | number> {
  const { log } = stored;
  if (log === undefined || log.records.ends.length === 0) {
    const problem = yield* wakeState(runtime, canister, code, stored);
    if (problem !== undefined) return problem;
    takeNumbers(canister, stored.settings);
    canister.configure(stored.settings);
    canister.timerNs = stored.timerNs;
    canister.instantMs = stored.instantMs;
    canister.openCalls.load(stored.openCalls);
    // While the canister slept it may have been configured, and paid: its log begins anew.
    if (log !== undefined && canister.persistence !== undefined) {
      canister.persistence.isLogged = true;
      runtime.changes.checkpoint(canister, canister.persistence);
    }
    return 0;
  }
  const header = decodeCheckpointHeader(log.checkpoint);
  const difference = policyDifference(header.policy, runtime.policy);
  if (difference !== undefined)
    return `the actor's log was written with ${difference}: start the server with that once, stop it gracefully, and change the setting then`;
  const problem = yield* wakeState(runtime, canister, code, { ...stored, ...header });
  if (problem !== undefined) return problem;
  stand(canister, header);
  const { shared, persistence } = canister;
  if (persistence !== undefined) persistence.isReplaying = true;
  // A message that read another key than zeros has it in its record.
  canister.shared = shared.withoutRootKey();
  const { bytes, ends } = log.records;
  const reader = new LogReader(bytes);
  let start = 0;
  for (const end of ends) {
    const record = reader.read(start, end);
    start = end;
    switch (record.kind) {
      case 'task':
        if (record.shared !== undefined) canister.shared = new Environment(record.shared);
        yield* engine.executing(canister, record.task, record.nowMs, false, record.shortages ?? []);
        if (runtime.control.message.lacksRoom)
          throw new OutOfMemory(
            runtime.control.message.budget.explain("running the actor's log again takes more memory than there is"),
          );
        break;
      case 'configure':
        engine.configure(canister, record.settings);
        break;
      case 'numbers':
        canister.account.add(record.balance - canister.account.balance);
        takeNumbers(canister, record);
        canister.timerNs = record.timerNs;
        if (persistence !== undefined) persistence.records++;
    }
  }
  canister.shared = shared;
  if (persistence !== undefined) {
    persistence.isReplaying = false;
    persistence.sharedInLog = undefined;
  }
  // Queries are in no log, but their time must not go back either.
  canister.instantMs = Math.max(canister.instantMs, stored.instantMs);
  // Settings that came while the canister slept: the messages from now on depend on them.
  if (!areSame(canister.settings, stored.settings)) engine.configure(canister, stored.settings);
  return ends.length;
}

/** Returns what running a log of so many records has come to. */
export function replayedIn(canister: CanisterState, records: number): Replayed {
  const loggedInstructions = canister.persistence?.instructions ?? 0;
  return { ...numbersOf(canister), records, loggedInstructions, balance: canister.account.balance };
}

function areSame(a: StandingSettings, b: StandingSettings): boolean {
  return (
    a.status === b.status &&
    areSameNumbers(a, b) &&
    a.heapBytesMax === b.heapBytesMax &&
    a.env.size === b.env.size &&
    [...a.env].every(([name, value]) => b.env.get(name) === value) &&
    a.controllers.length === b.controllers.length &&
    a.controllers.every((each, index) => Buffer.compare(each, at(b.controllers, index, 'controller')) === 0)
  );
}

function stand(canister: CanisterState, header: CheckpointHeader): void {
  canister.configure(header.settings);
  canister.account.add(header.balance - canister.account.balance);
  takeNumbers(canister, header);
  canister.timerNs = header.timerNs;
  canister.instantMs = header.instantMs;
  canister.openCalls.load(header.openCalls);
  if (canister.persistence !== undefined) canister.persistence.isLogged = true;
}

/**
 * Returns the setting of the metering that was different when a log was written; undefined: none that its execution
 * depends on.
 */
function policyDifference(then: MeteringPolicy, now: MeteringPolicy): string | undefined {
  if (then.instructionLimit !== now.instructionLimit) return `--instruction-limit ${then.instructionLimit}`;
  if (then.isEnabled !== now.isEnabled) return then.isEnabled ? 'metering on' : '--cycles 0';
  return undefined;
}
