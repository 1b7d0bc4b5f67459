/**
 * Canisters that go to another shard of the service, and that come from one (ADR 130): locked, put to sleep, stored,
 * and forgotten here without a trace in what is stored; or made of what the other server has stored.
 *
 * Main thread. Between two servers and their database it is subsystems/cluster that decides.
 */
import { type Clock, messageOf, ServerError, sleep } from '../../kernel/index.ts';
import type { MovedActor } from '../cluster/index.ts';
import type { ActorMoves, CodeLocks, Departure, SchedulerSetup } from '../scheduler/index.ts';
import { type MovedRows, rowsOfCanister, type Storage } from '../storage/index.ts';
import { recordOf, type CanisterRecord } from './canister-record.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import type { ChangeTurns } from './change-turns.ts';
import type { Deployments } from './deployments.ts';
import type { Canister } from './index.ts';
import type { MessageHistories } from './message-histories.ts';
import type { CanisterMoves } from './moves/index.ts';
import { recoverArrived, type RecoveryDependencies } from './recover-canisters.ts';

interface MovingCanistersNeeds extends Pick<
  RecoveryDependencies,
  'directory' | 'execution' | 'storage' | 'prepared' | 'interfaces'
> {
  readonly directory: CanisterDirectory;
  readonly scheduler: RecoveryDependencies['scheduler'] & CodeLocks;
  readonly schedulerSetup: Pick<SchedulerSetup, 'moves'>;
  readonly storage: Storage;
  readonly deployments: Pick<Deployments, 'management'>;
  readonly histories: Pick<MessageHistories, 'forget'>;
  readonly turns: ChangeTurns;
  readonly clock: Clock;
}

/** Milliseconds that an actor has to come to rest. */
const REST_MS = 3_000;
/** Milliseconds for which calls of other shards wait for that, and until they wait again. */
const HOLD_MS = 250;
const PAUSE_MS = 25;
const LOOK_MS = 2;

export class MovingCanisters implements CanisterMoves {
  readonly #needs: MovingCanistersNeeds;

  constructor(needs: MovingCanistersNeeds) {
    this.#needs = needs;
  }

  get #moves(): ActorMoves {
    const { moves } = this.#needs.schedulerSetup;
    if (moves !== undefined) return moves;
    throw new ServerError('invalid', 'scheduler-unsupported', "this server's scheduler does not move actors");
  }

  has(id: Uint8Array): boolean {
    return this.#needs.directory.find(id) !== undefined;
  }

  async storeAhead(canister: Canister): Promise<void> {
    const { execution, scheduler, storage } = this.#needs;
    const record = recordOf(canister);
    if (!record.isLive) return;
    const release = await scheduler.pin(record.handle);
    try {
      await execution.checkpoint(record.handle);
      await storage.settled();
    } finally {
      release();
    }
  }

  async depart(
    canister: Canister,
    isQuiet: () => boolean,
    transfer: (rows: MovedRows) => Promise<MovedActor>,
  ): Promise<MovedActor> {
    const record = recordOf(canister);
    const { turns, storage } = this.#needs;
    return await turns.take(record, async () => {
      this.#throwUnlessPresent(record);
      const { departure, open } = await this.#rest(record, isQuiet);
      let moved: MovedActor;
      try {
        await departure.sleep();
        // With all that waits for a unit to be erased.
        storage.markDirty();
        await storage.settled();
        const { module } = record;
        moved = await transfer(rowsOfCanister(record.id, module && Buffer.from(module.hash, 'hex')));
      } catch (error) {
        departure.stay();
        open();
        throw error;
      }
      departure.leave(moved.shard, moved.version);
      this.#forget(record);
      open();
      return moved;
    });
  }

  /** Locks the actor when nothing of it is under way. Calls of other shards wait then, until `open` is called. */
  async #rest(
    record: CanisterRecord,
    isQuiet: () => boolean,
  ): Promise<{ readonly departure: Departure; readonly open: () => void }> {
    const { clock } = this.#needs;
    const moves = this.#moves;
    const untilMs = clock.nowMs() + REST_MS;
    while (clock.nowMs() < untilMs) {
      const open = moves.hold(record.id);
      const holdUntilMs = clock.nowMs() + HOLD_MS;
      while (clock.nowMs() < holdUntilMs) {
        this.#throwUnlessPresent(record);
        const departure = isQuiet() && moves.mayRest(record.handle) ? await moves.depart(record.handle) : undefined;
        if (departure !== undefined) return { departure, open };
        await sleep(clock, LOOK_MS);
      }
      open();
      // Who is called by this actor may have to call it before it answers.
      await sleep(clock, PAUSE_MS);
    }
    throw new ServerError(
      'unavailable',
      'actor-busy',
      `${record.name} did not come to rest within ${REST_MS / 1000} s: calls, requests or changes of it are open; ` +
        'it stays where it is: try again, or stop it first',
    );
  }

  #throwUnlessPresent({ id, name, damage }: CanisterRecord): void {
    if (this.#needs.directory.find(id) === undefined)
      throw new ServerError('missing', 'actor-missing', `actor ${name} has been deleted meanwhile`);
    if (damage !== undefined)
      throw new ServerError('missing', 'actor-rejected', `actor ${name} was rejected: ${damage}`);
  }

  /** Nothing is erased: what is stored of it is another server's. */
  #forget(record: CanisterRecord): void {
    const { execution, directory, histories, deployments } = this.#needs;
    execution.remove(record.handle);
    record.removed();
    directory.store.left(record);
    directory.leave(record);
    histories.forget(record.handle);
    record.outputIfAny?.end();
    deployments.management.left?.(record);
  }

  async prepare(id: Uint8Array, moduleHash: Uint8Array | undefined): Promise<(() => void) | undefined> {
    const { storage, directory } = this.#needs;
    const moves = this.#moves;
    const open = moves.hold(id);
    const release = moduleHash && directory.store.expectModule(Buffer.from(moduleHash).toString('hex'));
    // With ends of calls that wait for a unit to be erased.
    storage.markDirty();
    await storage.settled();
    if (moves.owesNothing(id))
      return () => {
        open();
        release?.();
      };
    open();
    release?.();
    return undefined;
  }

  async arrive({ id, version }: MovedActor): Promise<void> {
    const { scheduler, directory, deployments } = this.#needs;
    let unlock: (() => void) | undefined;
    const record = await recoverArrived(this.#needs, id, ({ handle }) => {
      unlock = scheduler.lock(handle);
      this.#moves.arrived(handle, version);
    });
    try {
      await this.#moves.arriving(record.handle);
      const damage = await deployments.management.arrived?.(record);
      if (damage !== undefined) throw damage;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      directory.quarantine(record, messageOf(error));
    } finally {
      unlock?.();
    }
    if (record.damage === undefined) record.steps.checkMemory();
  }
}
