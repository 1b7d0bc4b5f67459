/**
 * The past of an actor put into use: its state of then is restored, forked, or asked.
 *
 * A query of the past runs on a copy that nobody can address, as copies of states do (state-copies.ts): the actor is
 * not touched. Copies are kept for a while, for the next query of the same moment.
 */
import { type Clock, ServerError } from '../../kernel/index.ts';
import type { Execution, ModuleInfo } from '../execution/index.ts';
import { FULL_LIMIT, type Outcome, outcomeKindOf, REJECT_CODE, type Step, timerNsOf } from '../ic/index.ts';
import type { RestoredState } from '../management/index.ts';
import type { CodeLocks } from '../scheduler/index.ts';
import type { PastState } from '../timeline/index.ts';
import type { CanisterDirectory } from './canister-directory.ts';
import { type CanisterRecord, recordOf } from './canister-record.ts';
import type { Deployments } from './deployments.ts';
import type { HostBackend } from './host-backend.ts';
import { type Canister, methodMissing, refuseInternal } from './index.ts';
import type { ForkOptions, PastActor, PastActors, RestoredNumbers } from './past/index.ts';

/** Copies that are kept: each has the memory of an actor. */
const COPIES_MAX = 4;
/** Time for which a copy that nobody asks is kept. */
const COPY_IDLE_MS = 30_000;
/** Queries of the past that may be under way; each may take as long as a query. */
const QUERIES_MAX = 16;
/** Time that one may take. */
const QUERY_MS_MAX = 10_000;

interface PastActorsNeeds {
  readonly execution: Execution;
  readonly scheduler: CodeLocks;
  readonly directory: Pick<CanisterDirectory, 'specOf'>;
  readonly deployments: Deployments;
  readonly backend: () => HostBackend;
  readonly clock: Clock;
  /** Resolves when everything that has been done is durable. */
  readonly settled: () => Promise<void>;
}

/** A copy of an actor as it was. */
interface Copy {
  readonly key: string;
  readonly handle: number;
  readonly past: Omit<PastState, 'image' | 'wasm'>;
  readonly module: ModuleInfo;
  readonly kept: Disposable;
  readonly actor: Pick<PastActor, 'candid' | 'candidProblem'>;
  /** Queries that are under way. */
  asked: number;
  idle: Disposable | undefined;
}

export class KeptPastActors implements PastActors {
  readonly #needs: PastActorsNeeds;
  /** Copies by actor and moment, the one that was asked longest ago first. */
  readonly #copies = new Map<string, Promise<Copy>>();
  #asked = 0;

  constructor(needs: PastActorsNeeds) {
    this.#needs = needs;
  }

  // ---- restore

  async restore(
    canister: Canister,
    past: PastState,
    { waits, restored }: { readonly waits: boolean; readonly restored: (now: RestoredNumbers) => Promise<void> },
  ): Promise<void> {
    const record = recordOf(canister);
    const { scheduler, settled } = this.#needs;
    refuseOpenCalls(record, past);
    const state = { ...(await this.#restoredState(past)), timerNs: timerNsOf(past.timerMs) };
    const unlock = await scheduler.lockBetweenMessages(record.handle, { pauses: waits });
    if (unlock === undefined) {
      if (!waits) throw openNow(record);
      await scheduler.pause(record.handle);
    }
    try {
      const backend = this.#needs.backend();
      await backend.inTurn(record, async () => {
        await backend.restore(record, state);
        await restored({ version: record.version, balance: record.steps.balance });
      });
    } finally {
      unlock?.();
      if (unlock === undefined && !record.isRemoved) scheduler.resume(record.handle);
    }
    await settled();
  }

  async #restoredState({ image, wasm }: PastState): Promise<Omit<RestoredState, 'timerNs'>> {
    const module = wasm === undefined ? undefined : await this.#needs.execution.prepare(wasm);
    return { image: { ...image, module }, wasm, lowMemoryHook: undefined };
  }

  // ---- fork

  async fork(
    parent: Canister,
    name: string,
    past: PastState,
    { caller, cycles, forked }: ForkOptions,
  ): Promise<Canister> {
    const record = recordOf(parent);
    const { deployments, scheduler, settled } = this.#needs;
    if (past.wasm === undefined)
      throw new ServerError('invalid', 'actor-empty', `${record.name} had no code at that point`);
    refuseOpenCalls(record, past);
    const state = { ...(await this.#restoredState(past)), timerNs: 0n };
    const { controllers, environment, facts, givenCandid } = record;
    const spec = { balance: cycles, controllers, environment, facts, givenCandid };
    const fork = await deployments.placeFilled(name, spec, caller, async (made) => {
      // Nothing of it runs before somebody starts it: it would do its parent's work a second time.
      await scheduler.stop(made.handle);
      const backend = this.#needs.backend();
      await backend.restore(made, state);
      backend.configure(made, record.settings);
      deployments.management.inherit?.(made, record);
      forked(made.id, { version: made.version, balance: made.steps.balance });
    });
    await settled();
    return fork;
  }

  // ---- queries

  async ask<T>(
    canister: Canister,
    key: string,
    load: () => Promise<PastState>,
    work: (actor: PastActor) => Promise<T>,
  ): Promise<T> {
    if (this.#asked >= QUERIES_MAX)
      throw new ServerError('unavailable', 'past-busy', `${QUERIES_MAX} queries of the past are under way: try again`);
    this.#asked++;
    try {
      const record = recordOf(canister);
      const copy = await this.#copyOf(record, `${record.idHex} ${key}`, load);
      copy.asked++;
      copy.idle?.[Symbol.dispose]();
      try {
        return await work(this.#actorOf(record, copy));
      } finally {
        copy.asked--;
        if (copy.asked === 0) this.#rest(copy);
      }
    } finally {
      this.#asked--;
    }
  }

  async #copyOf(record: CanisterRecord, key: string, load: () => Promise<PastState>): Promise<Copy> {
    let copy = this.#copies.get(key);
    if (copy === undefined) copy = this.#made(record, key, load);
    // The newest is the last.
    this.#copies.delete(key);
    this.#copies.set(key, copy);
    for (const [other] of [...this.#copies].slice(0, -COPIES_MAX)) void this.#drop(other);
    try {
      return await copy;
    } catch (error) {
      this.#copies.delete(key);
      throw error;
    }
  }

  async #made(record: CanisterRecord, key: string, load: () => Promise<PastState>): Promise<Copy> {
    const { execution, directory, deployments } = this.#needs;
    const { image, wasm, ...past } = await load();
    if (wasm === undefined) throw new ServerError('invalid', 'actor-empty', `${record.name} had no code at that point`);
    const module = await execution.prepare(wasm);
    const kept = execution.keep(module);
    const { candid, candidProblem } = await deployments.recorded(record, { module, wasm });
    // Nobody stores the copy.
    const spec = { ...directory.specOf(record), balance: past.balance, snapshotBelowBytes: undefined };
    const handle = execution.create(spec);
    try {
      await execution.restore(handle, { ...image, module });
    } catch (error) {
      execution.remove(handle);
      kept[Symbol.dispose]();
      throw error;
    }
    return { key, handle, past, module, kept, actor: { candid, candidProblem }, asked: 0, idle: undefined };
  }

  #rest(copy: Copy): void {
    if (this.#copies.get(copy.key) === undefined) this.#forget(copy);
    else copy.idle = this.#needs.clock.after(COPY_IDLE_MS, () => void this.#drop(copy.key));
  }

  async #drop(key: string): Promise<void> {
    const dropped = this.#copies.get(key);
    this.#copies.delete(key);
    const copy = await dropped?.catch(() => undefined);
    if (copy?.asked === 0) this.#forget(copy);
  }

  #forget({ handle, kept, idle }: Copy): void {
    idle?.[Symbol.dispose]();
    this.#needs.execution.remove(handle);
    kept[Symbol.dispose]();
  }

  #actorOf({ id, controllers, name }: CanisterRecord, { handle, past, module, actor }: Copy): PastActor {
    return {
      ...actor,
      name,
      module,
      place: { seq: past.seq, unit: past.unit, timeMs: past.timeMs },
      query: (method, caller, argument) =>
        this.#query({ id, controllers, name, module }, handle, { method, caller, argument }),
    };
  }

  async #query(
    actor: Pick<PastActor, 'name' | 'module'> & Pick<CanisterRecord, 'id' | 'controllers'>,
    handle: number,
    asked: { readonly method: string; readonly caller: Uint8Array; readonly argument: Uint8Array },
  ): Promise<Outcome> {
    const { execution, clock } = this.#needs;
    const { method, caller, argument } = asked;
    refuseInternal(actor, method, caller);
    const kind = actor.module.methods.get(method);
    const entry = actor.module.entries.get(`canister_query ${method}`);
    if (kind === undefined) throw methodMissing(actor, method);
    if (kind !== 'query' || entry === undefined)
      throw new ServerError(
        'invalid',
        'past-query',
        `${method} is ${KINDS[kind]}: the past answers plain queries alone`,
      );
    const context = { caller, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };
    const task = { kind: 'query', entry, argument, context, instructionsMax: FULL_LIMIT } as const;
    using _limit = clock.after(QUERY_MS_MAX, () => execution.recall(handle, 'everything'));
    const outcome = await new Promise<Outcome>((resolve) =>
      execution.run(handle, task, ({ step }) => resolve(outcomeOf(step))),
    );
    // Later queries of the copy are wanted.
    execution.recall(handle, 'nothing');
    return outcome;
  }
}

const KINDS = { update: 'an update method', composite_query: 'a composite query', query: 'a query' } as const;

function outcomeOf({ fault, answer, instructions, charge }: Step): Outcome {
  if (fault !== undefined)
    return { instructions, charge, kind: outcomeKindOf(fault.kind), code: fault.code, message: fault.message };
  if (answer?.kind === 'reply') return { instructions, charge, kind: 'reply', data: answer.data };
  if (answer !== undefined) return { instructions, charge, ...answer };
  const message = 'the query did not reply';
  return { instructions, charge, kind: 'noReply', code: REJECT_CODE.CANISTER_ERROR, message };
}

/** Callbacks of then would come to nobody. */
function refuseOpenCalls({ name }: CanisterRecord, { openCalls, seq }: PastState): void {
  if (openCalls === 0) return;
  throw new ServerError(
    'invalid',
    'past-open-calls',
    `${name} waited for ${openCalls} call(s) at seq:${seq}, whose answers would come to nobody: ` +
      'choose a point whose openCalls is 0 (GET /x/time/timeline)',
  );
}

function openNow({ name }: CanisterRecord): ServerError {
  return new ServerError(
    'invalid',
    'past-open-calls',
    `${name} waits for calls now: try again when they have ended, or with calls=wait, which waits for that`,
  );
}
