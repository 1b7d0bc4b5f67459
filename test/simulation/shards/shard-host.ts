/** One life of a server that has a shard: the shipped scheduler, over an executor and a journal of the simulation. */
import assert from 'node:assert/strict';
import { idInShard, idToText, type EndedStep, type Task } from '../../../subsystems/ic/index.ts';
import type { CallExchange } from '../../../subsystems/scheduler/index.ts';
import { Elsewhere } from '../../../subsystems/scheduler/elsewhere/elsewhere.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import type { Entry } from '../../../subsystems/storage/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { endedStep, HeldExecution } from '../../subsystems/scheduler/held-execution.ts';
import { RecordingJournal } from '../recording-journal.ts';
import { execute, type Ledger, LEDGER_MODULE, newLedger, type Order, orderOf } from './ledger.ts';

export const SHARDS = 2;
/** Canisters of each shard. */
export const CANISTERS = 2;

/** All that a server leaves. */
interface Left {
  readonly entries: readonly Entry[];
  readonly state: readonly Ledger[];
}

class LedgerExecution extends HeldExecution {
  readonly #waiting: { readonly handle: number; readonly task: Task; readonly ended: (ended: EndedStep) => void }[] =
    [];
  ledgers: readonly Ledger[];

  constructor(ledgers: readonly Ledger[]) {
    super();
    this.ledgers = ledgers;
  }

  override run(handle: number, task: Task, ended: (ended: EndedStep) => void): void {
    this.#waiting.push({ handle, task, ended });
  }

  get canExecute(): boolean {
    return this.#waiting.length > 0;
  }

  executeOne(): void {
    const { handle, task, ended } = this.#waiting.shift() ?? assert.fail('nothing waits');
    const ledger = this.ledgers[handle] ?? assert.fail(`there is no canister ${handle}`);
    ended(endedStep(execute(ledger, task)));
  }
}

export class ShardHost {
  readonly shard: number;
  readonly epoch: number;
  readonly clock: FakeClock;
  readonly journal: RecordingJournal<readonly Ledger[]>;
  readonly #execution: LedgerExecution;
  readonly #scheduler: RoundScheduler;
  /** Orders whose client has been told. */
  answered = 0;
  /** False from its crash on. */
  isAlive = true;
  isStopping = false;

  constructor(shard: number, epoch: number, nowMs: number, left?: Left) {
    this.shard = shard;
    this.epoch = epoch;
    this.clock = new FakeClock(nowMs);
    const state = left?.state ?? Array.from({ length: CANISTERS }, newLedger);
    this.journal = new RecordingJournal<readonly Ledger[]>(structuredClone(state), left?.entries);
    this.#execution = new LedgerExecution(structuredClone(state));
    this.#scheduler = new RoundScheduler(
      {
        execution: this.#execution,
        clock: this.clock,
        storage: this.journal,
        service: { shards: SHARDS, shard, node: `node-${shard}-${epoch}` },
      },
      { heartbeatMs: 1000, timerMs: 100, queryInstructionsMax: 1000, liveCap: 0, liveBytes: 0 },
    );
    for (let handle = 0; handle < CANISTERS; handle++)
      this.#scheduler.admit(handle, idToText(idInShard(shard, BigInt(handle))), { module: LEDGER_MODULE });
    this.#scheduler.restore(left?.entries ?? []);
    this.#scheduler.beginTicking();
  }

  get exchange(): CallExchange {
    return this.#scheduler.exchange;
  }

  /** Canisters of other shards that it has stand-ins for. */
  get stubs(): number {
    assert.ok(this.exchange instanceof Elsewhere);
    return this.exchange.stubs.size;
  }

  order(handle: number, order: Order): void {
    const message = { kind: 'update', method: 'go', caller: Uint8Array.of(4), argument: orderOf(order) } as const;
    void this.#scheduler.deliver(handle, message).then(() => this.answered++);
  }

  get canExecute(): boolean {
    return this.#execution.canExecute;
  }

  execute(): void {
    this.#execution.executeOne();
  }

  /** Ends a turn: what has changed is a unit. */
  seal(): void {
    this.journal.seal(() => structuredClone(this.#execution.ledgers));
  }

  get ledgers(): readonly Ledger[] {
    return this.#execution.ledgers;
  }

  /** Begins to stop: what has begun ends, and all else is the next life's. */
  stop(): void {
    this.isStopping = true;
    void this.#scheduler.drain();
  }

  /** Ends with so many units written that nobody was told of. */
  crash(units: number): Left {
    this.isAlive = false;
    this.clock.dropTimers();
    return this.journal.crash(units);
  }
}
