/**
 * One canister on its way to another shard, step by step: what subsystems/cluster does between two servers and their
 * database, over the shipped schedulers. It may be broken off before the transaction at any step; each server may end
 * between any two.
 */
import assert from 'node:assert/strict';
import type { MovedActor } from '../../../subsystems/cluster/index.ts';
import type { Departure } from '../../../subsystems/scheduler/index.ts';
import type { ShardHost } from './shard-host.ts';

export class Relocation {
  readonly id: string;
  readonly from: ShardHost;
  readonly to: ShardHost;
  readonly #bytes: Uint8Array;
  readonly #mistake: string | undefined;
  readonly #release: (() => void)[] = [];
  #departure: Departure | undefined;
  #isAsking = false;
  #isSettled = false;
  #isReady = false;
  #isBroken = false;
  #move: MovedActor | undefined;
  #hasLeft = false;
  #hasArrived = false;

  constructor(id: string, from: ShardHost, to: ShardHost, mistake: string | undefined) {
    this.id = id;
    this.from = from;
    this.to = to;
    this.#bytes = new Uint8Array(Buffer.from(id, 'hex'));
    this.#mistake = mistake;
  }

  get isCommitted(): boolean {
    return this.#move !== undefined;
  }

  get #isUnfenced(): boolean {
    return this.#mistake === 'rows move without the fence of the new owner' && this.#isReady;
  }

  get isOver(): boolean {
    if (this.#move === undefined) return !this.from.isAlive || (!this.to.isAlive && !this.#isUnfenced);
    return (this.#hasLeft || !this.from.isAlive) && (this.#hasArrived || !this.to.isAlive);
  }

  /** Goes one step on. `isOldFirst`: who hears of the transaction first. Returns true if it was committed now. */
  step(isOldFirst: boolean, commit: (id: string) => MovedActor): boolean {
    if (this.#move !== undefined) {
      if (isOldFirst) this.#leave();
      else this.#arrive();
      return false;
    }
    if (this.#departure === undefined) void this.#depart();
    else if (!this.#isSettled) void this.#store();
    else if (!this.#isReady) void this.#prepare();
    else if (!this.#isUnfenced || !this.to.isAlive) {
      this.#move = commit(this.id);
      return true;
    }
    return false;
  }

  async #depart(): Promise<void> {
    const handle = this.from.handleOf(this.id) ?? assert.fail();
    const { moves } = this.from;
    if (this.#isAsking || !moves.mayRest(handle)) return;
    this.#isAsking = true;
    const open = moves.hold(this.#bytes);
    const departure = await moves.depart(handle);
    this.#isAsking = false;
    if (departure === undefined || this.#isBroken) {
      departure?.stay();
      open();
      return;
    }
    this.#departure = departure;
    this.#release.push(open);
    await departure.sleep();
  }

  async #settle(host: ShardHost): Promise<void> {
    this.#isAsking = true;
    host.journal.markDirty();
    await host.journal.settled();
    this.#isAsking = false;
  }

  async #store(): Promise<void> {
    if (this.#isAsking) return;
    await this.#settle(this.from);
    this.#isSettled = true;
  }

  async #prepare(): Promise<void> {
    if (this.#mistake === 'rows move although the new owner is not ready') {
      this.#isReady = true;
      return;
    }
    const { moves } = this.to;
    if (this.#isAsking || !moves.owesNothing(this.#bytes)) return;
    this.#release.push(moves.hold(this.#bytes));
    await this.#settle(this.to);
    this.#isReady = moves.owesNothing(this.#bytes);
  }

  #leave(): void {
    const { from } = this;
    if (this.#hasLeft || !from.isAlive) return;
    this.#hasLeft = true;
    from.lost(this.id);
    const { shard, version } = this.#moveMade();
    this.#departure?.leave(shard, version);
    this.#release[0]?.();
  }

  #arrive(): void {
    const { to } = this;
    if (this.#hasArrived || !to.isAlive) return;
    this.#hasArrived = true;
    to.moves.arrived(to.load(this.id), this.#moveMade().version);
    this.#release[1]?.();
  }

  #moveMade(): MovedActor {
    return this.#move ?? assert.fail('nothing was committed');
  }

  /** Nothing was committed: the canister stays. */
  breakOff(): void {
    this.#isBroken = true;
    for (const open of this.#release) open();
    this.#departure?.stay();
  }
}
