/** One life of a server that has a shard: the shipped scheduler, over an executor and a journal of the simulation. */
import assert from 'node:assert/strict';
import { type MovedActor, MovedActors } from '../../../subsystems/cluster/index.ts';
import { type EndedStep, hexOf, idInShard, idToText, type Task } from '../../../subsystems/ic/index.ts';
import type { ActorMoves, CallExchange } from '../../../subsystems/scheduler/index.ts';
import { NO_LISTENER } from '../../../subsystems/scheduler/canister-port.ts';
import { Elsewhere } from '../../../subsystems/scheduler/elsewhere/elsewhere.ts';
import { RoundScheduler } from '../../../subsystems/scheduler/round-scheduler.ts';
import type { Entry } from '../../../subsystems/storage/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { endedStep, HeldExecution } from '../../subsystems/scheduler/held-execution.ts';
import { RecordingJournal } from '../recording-journal.ts';
import { execute, type Ledger, LEDGER_MODULE, newLedger, type Order, orderOf } from './ledger.ts';

export const SHARDS = 3;
/** Canisters that each shard has at first. */
export const CANISTERS = 2;

/** The ledgers of a shard, by the canisters' ids in hex. */
type Ledgers = Record<string, Ledger>;

/** All that a server leaves. */
interface Left {
  readonly entries: readonly Entry[];
  readonly state: Ledgers;
}

interface Life {
  readonly shard: number;
  readonly epoch: number;
  readonly nowMs: number;
  /** All moves of the service so far. */
  readonly moves: readonly MovedActor[];
  readonly left?: Left;
  /** A mistake that is planted. */
  readonly mistake: string | undefined;
}

const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, 'hex'));

class LedgerExecution extends HeldExecution {
  readonly #waiting: { readonly handle: number; readonly task: Task; readonly ended: (ended: EndedStep) => void }[] =
    [];
  readonly ledgers: Ledgers;
  /** Ids by handle; undefined: the canister has left. */
  readonly ids: (string | undefined)[] = [];

  constructor(ledgers: Ledgers) {
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
    const ledger = this.ledgers[this.ids[handle] ?? ''] ?? assert.fail(`canister ${handle} has left`);
    ended(endedStep(execute(ledger, task)));
  }
}

export class ShardHost {
  readonly shard: number;
  readonly epoch: number;
  readonly clock: FakeClock;
  readonly journal: RecordingJournal<Ledgers>;
  readonly #moved = new MovedActors();
  readonly #execution: LedgerExecution;
  readonly #scheduler: RoundScheduler;
  /** Orders whose client has been told. */
  answered = 0;
  /** False from its crash on. */
  isAlive = true;
  isStopping = false;

  constructor({ shard, epoch, nowMs, moves, left, mistake }: Life) {
    this.shard = shard;
    this.epoch = epoch;
    this.clock = new FakeClock(nowMs);
    const first = Array.from({ length: CANISTERS }, (_none, at) => [hexOf(idInShard(shard, BigInt(at))), newLedger()]);
    const state = left?.state ?? (Object.fromEntries(first) as Ledgers);
    this.journal = new RecordingJournal<Ledgers>(structuredClone(state), left?.entries);
    this.#execution = new LedgerExecution(structuredClone(state));
    for (const move of moves) this.#moved.moved(move);
    this.#scheduler = new RoundScheduler(
      {
        execution: this.#execution,
        clock: this.clock,
        storage: this.journal,
        service: { shards: SHARDS, shard, node: `node-${shard}-${epoch}`, moved: this.#moved },
      },
      { heartbeatMs: 1000, timerMs: 100, queryInstructionsMax: 1000, liveCap: 0, liveBytes: 0 },
    );
    const nothing = async (): Promise<void> => undefined;
    const loader = {
      wake: nothing,
      sleep: nothing,
      bytesOf: () => 0,
      heapBytesOf: () => 0,
      storedStableBytesOf: () => 0,
    };
    this.#scheduler.attachCanisters(loader, NO_LISTENER);
    for (const id of Object.keys(state)) this.#admit(id, false);
    this.#scheduler.restore(left?.entries ?? []);
    this.#scheduler.beginTicking();
    if (mistake === 'calls that waited are left behind') this.elsewhere.handOn = () => undefined;
  }

  #admit(id: string, isAsleep: boolean): number {
    const handle = this.#execution.ids.push(id) - 1;
    this.#scheduler.admit(handle, idToText(bytesOf(id)), { module: LEDGER_MODULE, isAsleep });
    return handle;
  }

  get exchange(): CallExchange {
    return this.#scheduler.exchange;
  }

  get moves(): ActorMoves {
    return this.#scheduler.moves;
  }

  /** Canisters of other shards that it has stand-ins for. */
  get stubs(): number {
    return this.elsewhere.stubs.size;
  }

  get elsewhere(): Elsewhere {
    assert.ok(this.exchange instanceof Elsewhere);
    return this.exchange;
  }

  /** Number of the newest move of a canister, as this server knows it. */
  versionOf(id: Uint8Array): number {
    return this.#moved.versionOf(id);
  }

  /** Returns the handle of a canister that is here. */
  handleOf(id: string): number | undefined {
    const handle = this.#execution.ids.indexOf(id);
    return handle < 0 ? undefined : handle;
  }

  order(id: string, order: Order): void {
    const message = { kind: 'update', method: 'go', caller: Uint8Array.of(4), argument: orderOf(order) } as const;
    void this.#scheduler.deliver(this.handleOf(id) ?? assert.fail(), message).then(() => this.answered++);
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

  get ledgers(): Ledgers {
    return this.#execution.ledgers;
  }

  /** Hears of moves, as from the table. */
  look(moves: readonly MovedActor[]): void {
    for (const move of moves) if (move.shard !== this.shard) this.#moved.moved(move);
  }

  /** The transaction takes a canister away: from what is stored, and from what will be. */
  taken(id: string): Ledger {
    const ledger = this.#execution.ledgers[id] ?? assert.fail();
    delete this.#execution.ledgers[id];
    this.journal.amend((state) => delete state[id]);
    return ledger;
  }

  /** The transaction brings a canister. */
  given(id: string, ledger: Ledger): void {
    this.#execution.ledgers[id] = structuredClone(ledger);
    this.journal.amend((state) => void (state[id] = structuredClone(ledger)));
  }

  /** Nobody finds the canister here any more. */
  lost(id: string): void {
    this.#execution.ids[this.handleOf(id) ?? assert.fail()] = undefined;
  }

  /** A canister that the transaction has brought is loaded. Returns its handle. */
  load(id: string): number {
    return this.#admit(id, true);
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
