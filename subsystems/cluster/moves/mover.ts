/**
 * Moves actors between the shards of two servers (ADR 130): what this server gives away, and what it is given.
 *
 *     old owner   requests wait · rest ─ prepare ─► · transaction ─ take ─► · forgets the actor, requests go there
 *     new owner                          ready ◄──                loads the actor, whose requests have waited
 *
 * Whatever is lost on the way, the table of moves says where the actor is: every server reads it once a second.
 *
 * Main thread; touches gates and the link.
 */
import { type Clock, type Logger, messageOf, ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../canisters/index.ts';
import type { CanisterMoves } from '../../canisters/moves/index.ts';
import { idToText } from '../../ic/index.ts';
import { ID_BYTES, type MovedRows } from '../../storage/index.ts';
import type { CallLinks, Asking } from '../calls/call-links.ts';
import type { MoveAsk } from '../calls/frames.ts';
import type { MovingActor, ServiceStore, ShardOwner } from '../index.ts';
import type { MovedActor } from '../moved-actors.ts';
import { RequestGate } from './request-gate.ts';

interface MoverNeeds {
  readonly store: Pick<ServiceStore, 'shards' | 'shard' | 'node' | 'moved' | 'newMoves' | 'settleTables' | 'move'>;
  readonly owners: { readonly owners: readonly (ShardOwner | undefined)[] };
  readonly links: Pick<CallLinks, 'ask'>;
  readonly canisters: CanisterMoves;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  readonly isLeaving: () => boolean;
}

/** An actor that is about to come. */
interface Expected {
  readonly id: Uint8Array;
  readonly from: Asking;
  readonly sinceMs: number;
  /** Lets its requests and the calls to it go on. */
  readonly release: () => void;
}

const LOOK_MS = 1_000;
/** Milliseconds after which the new owner asks whether an actor is still to come. */
const DOUBT_MS = 5_000;
/** Milliseconds for which the new owner tries to become ready. */
const READY_MS = 1_000;
const READY_LOOK_MS = 5;
/** Milliseconds that the old owner waits for an answer. */
const ANSWER_MS = 5_000;
/** Times that what has changed is stored while clients are served: what changes meanwhile is less each time. */
const STORED_AHEAD = 2;
/** Moves that wait for their turn at one server. */
const WAITING_MAX = 100;
const NO_MOVE = 'this server does not move it';

export class Mover {
  readonly gate = new RequestGate();
  readonly #needs: MoverNeeds;
  readonly #going = new Map<string, MovingActor>();
  readonly #expected = new Map<string, Expected>();
  /** Moves to this server whose actors are not loaded yet. */
  readonly #due = new Map<string, MovedActor>();
  #turn: Promise<unknown> = Promise.resolve();
  #looking: Promise<void> | undefined;
  #isLookingAgain = false;
  #timer: Disposable | undefined;
  #isFailing = false;
  moves = 0;

  constructor(needs: MoverNeeds) {
    this.#needs = needs;
  }

  start(): void {
    this.#timer = this.#needs.clock.every(LOOK_MS, () => {
      void this.look();
      for (const expected of this.#expected.values()) void this.#doubt(expected);
    });
  }

  close(): void {
    this.#timer?.[Symbol.dispose]();
  }

  /** Actors on their way to other servers, or that wait for it. */
  get going(): readonly MovingActor[] {
    return [...this.#going.values()];
  }

  // ---- the old owner

  /**
   * Gives an actor of this server to that shard. Resolves when the shard has it. Rejects with ServerError: nothing was
   * moved then.
   */
  async move(canister: Canister, shard: number): Promise<void> {
    this.#refuseBad(shard);
    const { id, idHex } = canister;
    const idText = idToText(id);
    if (this.#going.has(idText))
      throw new ServerError('unavailable', 'actor-moving', `${canister.name} is on its way already: try again later`);
    if (this.#going.size >= WAITING_MAX)
      throw new ServerError('unavailable', 'actor-moving', `${WAITING_MAX} actors wait to be moved: try again later`);
    this.#going.set(idText, { id: idHex, name: canister.name, shard, sinceMs: this.#needs.clock.nowMs() });
    try {
      const moving = this.#turn.then(() => this.#move(canister, shard));
      this.#turn = moving.catch(() => undefined);
      await moving;
    } finally {
      this.#going.delete(idText);
    }
  }

  #refuseBad(shard: number): void {
    const { store, isLeaving } = this.#needs;
    if (!Number.isSafeInteger(shard) || shard < 0 || shard >= store.shards)
      throw new ServerError(
        'invalid',
        'shard-unknown',
        `there is no shard ${shard}: name one from 0 to ${store.shards - 1}`,
      );
    if (shard === store.shard)
      throw new ServerError('invalid', 'actor-there', `the actor is in shard ${shard} already`);
    if (isLeaving())
      throw new ServerError('unavailable', 'owner-unready', 'this server leaves: ask the next owner of the actor');
  }

  async #move(canister: Canister, shard: number): Promise<void> {
    const { store, owners, canisters, links, clock, log } = this.#needs;
    this.#refuseBad(shard);
    const owner = owners.owners[shard];
    if (owner === undefined)
      throw new ServerError(
        'unavailable',
        'owner-missing',
        `shard ${shard} has no owner now; nothing was moved: try again`,
      );
    // Most of what the tables lack gets there before anybody waits.
    for (let times = 0; times < STORED_AHEAD; times++) {
      await canisters.storeAhead(canister);
      await store.settleTables();
    }
    const { id } = canister;
    const open = this.gate.close(id);
    const startedMs = clock.nowMs();
    let taking: Promise<string> | undefined;
    try {
      await canisters.depart(
        canister,
        () => this.gate.isQuiet(canister),
        async (rows) => {
          const moved = await this.#transfer(rows, owner);
          taking = links.ask(shard, 'take', id);
          return moved;
        },
      );
    } finally {
      open();
    }
    const problem = await this.#answered(taking ?? Promise.resolve(''), `shard ${shard} has not said that it has it`);
    const tookMs = Math.round(clock.nowMs() - startedMs);
    this.moves++;
    log.info(`${canister.name} has moved to shard ${shard} in ${tookMs} ms${problem === '' ? '' : `: ${problem}`}`);
  }

  async #transfer(rows: MovedRows, owner: ShardOwner): Promise<MovedActor> {
    const { store, links } = this.#needs;
    const { id, moduleHash } = rows;
    const { shard } = owner;
    const told = moduleHash === undefined ? id : Buffer.concat([id, moduleHash]);
    const problem = await this.#answered(links.ask(shard, 'prepare', told), 'it does not answer');
    try {
      if (problem === '') return await store.move(rows, owner);
    } catch (error) {
      void links.ask(shard, 'forget', id);
      throw error;
    }
    void links.ask(shard, 'forget', id);
    throw new ServerError(
      'unavailable',
      'owner-unready',
      `the owner of shard ${shard} is not ready for the actor: ${problem}; nothing was moved: try again`,
    );
  }

  async #answered(asked: Promise<string>, late: string): Promise<string> {
    const patience = Promise.withResolvers<string>();
    using _patience = this.#needs.clock.after(ANSWER_MS, () => patience.resolve(late));
    return await Promise.race([asked, patience.promise]);
  }

  // ---- the new owner

  /** Answers another server: why not, or with an empty text. */
  async asked(what: MoveAsk, told: Uint8Array, from: Asking): Promise<string> {
    const id = told.slice(0, ID_BYTES);
    if (id.length !== ID_BYTES) return 'there is no such actor';
    try {
      switch (what) {
        case 'prepare':
          return await this.#prepare(id, told.length > ID_BYTES ? told.slice(ID_BYTES) : undefined, from);
        case 'take':
          await this.look();
          return this.#due.has(idToText(id)) ? 'it cannot be loaded now' : '';
        case 'forget':
          this.#forget(idToText(id));
          return '';
        case 'moving':
          return this.#going.has(idToText(id)) ? '' : NO_MOVE;
      }
    } catch (error) {
      return messageOf(error);
    }
  }

  async #prepare(id: Uint8Array, moduleHash: Uint8Array | undefined, from: Asking): Promise<string> {
    const { canisters, store, clock, isLeaving } = this.#needs;
    const idText = idToText(id);
    if (isLeaving()) return 'it leaves';
    if (canisters.has(id)) return 'it has the actor';
    this.#forget(idText);
    const untilMs = clock.nowMs() + READY_MS;
    for (;;) {
      const release = await canisters.prepare(id, moduleHash);
      if (release !== undefined) {
        const open = this.gate.close(id);
        const releaseAll = (): void => {
          release();
          open();
        };
        this.#expected.set(idText, { id, from, sinceMs: clock.nowMs(), release: releaseAll });
        // A module that was deleted here may be in the tables yet, and would be deleted from them later.
        await store.settleTables();
        return '';
      }
      if (clock.nowMs() >= untilMs) return 'calls of the actor are not over there';
      await new Promise<void>((resolve) => void clock.after(READY_LOOK_MS, resolve));
    }
  }

  #forget(idText: string): void {
    this.#expected.get(idText)?.release();
    this.#expected.delete(idText);
  }

  /** An actor is late: its old owner says whether it comes, or is gone. */
  async #doubt({ id, from, sinceMs }: Expected): Promise<void> {
    const { clock, links, owners } = this.#needs;
    if (clock.nowMs() - sinceMs < DOUBT_MS) return;
    const isGone = owners.owners[from.shard]?.node !== from.node;
    if (!isGone && (await links.ask(from.shard, 'moving', id)) !== NO_MOVE) return;
    await this.look();
    const idText = idToText(id);
    if (!this.#due.has(idText) && this.#expected.get(idText)?.sinceMs === sinceMs) this.#forget(idText);
  }

  /** Asks for moves that are not known yet, and loads actors that have come. Never rejects. */
  look(): Promise<void> {
    // The answer that is under way may be too old for this caller.
    this.#isLookingAgain = this.#looking !== undefined;
    this.#looking ??= this.#lookUntilDone().finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  async #lookUntilDone(): Promise<void> {
    do {
      this.#isLookingAgain = false;
      await this.#look();
    } while (this.#isLookingAgain);
  }

  async #look(): Promise<void> {
    const { store, canisters, log } = this.#needs;
    try {
      for (const move of await store.newMoves()) {
        if (move.shard !== store.shard) store.moved.moved(move);
        else if (!canisters.has(move.id)) this.#due.set(idToText(move.id), move);
      }
      for (const [idText, move] of this.#due) {
        await canisters.arrive(move);
        this.#due.delete(idText);
        this.#forget(idText);
      }
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) log.warn(`actors that have moved cannot be looked for now: ${messageOf(error)}`);
      this.#isFailing = true;
    }
  }
}
