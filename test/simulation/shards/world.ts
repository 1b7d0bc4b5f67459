/**
 * Servers of one service, each with a shard, whose actors pay each other: connections come late, twice, out of order or
 * not at all, and servers crash with any number of their last units written. In the end the sum is what it was, every
 * call was executed and answered once, in the order of each pair, and nothing of any is left.
 */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { MovedActor } from '../../../subsystems/cluster/index.ts';
import { hexOf, idInShard } from '../../../subsystems/ic/index.ts';
import { type Seeded, seeded } from '../../support/seeded.ts';
import { BEHAVIOURS, type Ledger, newLedger } from './ledger.ts';
import { Relocation } from './relocation.ts';
import { CANISTERS, ShardHost, SHARDS } from './shard-host.ts';
import { type Mistake, Wire, type Wires } from './wire.ts';

const TURNS = 600;
/** A server that stops is gone within about so many of its turns. */
const STOP_IN = 8;
/** More turns than any work takes. */
const TURNS_MAX = 20_000;
const START_MS = 1_000_000;

interface Counts {
  orders: number;
  crashes: number;
  stops: number;
  cuts: number;
  doubled: number;
  late: number;
  notes: number;
  trapped: number;
  moves: number;
  brokenOff: number;
}

export async function simulate(seed: number, mistake?: Mistake): Promise<Readonly<Counts>> {
  const world = new World(seeded(seed), mistake);
  await world.run();
  return world.counts;
}

class World {
  readonly counts: Counts = {
    orders: 0,
    crashes: 0,
    stops: 0,
    cuts: 0,
    doubled: 0,
    late: 0,
    notes: 0,
    trapped: 0,
    moves: 0,
    brokenOff: 0,
  };
  readonly #seeded: Seeded;
  readonly #wires: Wires;
  readonly #hosts: ShardHost[];
  /** Connections in use, and those from which something may come yet. */
  #connections: Wire[] = [];
  #nowMs = START_MS;
  /** Seeds differ in how often a server crashes, and a connection ends. */
  readonly #crashIn: number;
  readonly #cutIn: number;
  readonly #moveIn: number;
  /** Moves that were committed, as the table has them. */
  readonly #moves: MovedActor[] = [];
  readonly #relocations = new Set<Relocation>();

  constructor(random: Seeded, mistake: Mistake | undefined) {
    this.#seeded = random;
    this.#wires = { mistake, arrived: new Set(), ways: 0 };
    this.#hosts = Array.from({ length: SHARDS }, (_none, shard) => this.#hostOf({ shard, epoch: 1 }));
    this.#crashIn = random.pick([20, 60, 200]);
    this.#cutIn = random.pick([5, 20, 100]);
    this.#moveIn = random.pick([5, 20, 1_000_000]);
  }

  #hostOf(life: Pick<ConstructorParameters<typeof ShardHost>[0], 'shard' | 'epoch' | 'left'>): ShardHost {
    return new ShardHost({ ...life, nowMs: this.#nowMs, moves: this.#moves, mistake: this.#wires.mistake });
  }

  async run(): Promise<void> {
    for (let turn = 0; turn < TURNS; turn++) await this.#turn();
    await this.#settle();
    this.#check();
  }

  async #turn(): Promise<void> {
    const random = this.#seeded;
    const host = this.#host();
    if (random.oneIn(6)) this.#order(host);
    if (random.oneIn(host.isStopping ? STOP_IN : this.#crashIn)) {
      if (host.isStopping || !random.oneIn(4)) this.#crash(host);
      else {
        this.counts.stops++;
        host.stop();
      }
    }
    if (random.oneIn(this.#cutIn)) this.#cut();
    if (random.oneIn(40)) this.#pass(random.below(400));
    if (random.oneIn(3)) this.#connect();
    if (random.oneIn(this.#moveIn)) this.#move();
    for (const relocation of this.#relocations) if (random.oneIn(2)) this.#relocate(relocation);
    if (random.oneIn(20)) this.#host().look(this.#moves);
    for (let steps = random.below(12); steps > 0; steps--) this.#step(random.below(4), this.#host());
    await nextTurn();
  }

  #host(): ShardHost {
    return this.#hosts[this.#seeded.below(SHARDS)] ?? assert.fail();
  }

  #pass(ms: number): void {
    this.#nowMs += ms;
    for (const host of this.#hosts) host.clock.advance(ms);
  }

  #order(host: ShardHost): void {
    const random = this.#seeded;
    // Clients of a canister that is about to move wait.
    const id = this.#canisterOf(host);
    if (id === undefined) return;
    this.counts.orders++;
    host.order(id, {
      callee: idInShard(random.below(SHARDS), BigInt(random.below(CANISTERS))),
      amount: random.below(10),
      cycles: random.below(1000),
      behaviour: random.pick(BEHAVIOURS),
      isNote: random.oneIn(5),
      padding: random.oneIn(10) ? 5000 : random.below(10),
    });
  }

  /** Returns a canister of that server which is not about to move; undefined: there is none. */
  #canisterOf(host: ShardHost): string | undefined {
    const moving = new Set([...this.#relocations].map((relocation) => relocation.id));
    const ids = Object.keys(host.ledgers).filter((id) => host.handleOf(id) !== undefined && !moving.has(id));
    return ids[this.#seeded.below(Math.max(1, ids.length))];
  }

  /** Begins to move a canister. */
  #move(): void {
    const [from, to] = [this.#host(), this.#host()];
    const id = this.#canisterOf(from);
    if (from === to || from.isStopping || to.isStopping || id === undefined) return;
    this.#relocations.add(new Relocation(id, from, to, this.#wires.mistake));
  }

  #relocate(relocation: Relocation): void {
    const random = this.#seeded;
    if (!relocation.isCommitted && (relocation.isOver || random.oneIn(80))) {
      this.counts.brokenOff++;
      relocation.breakOff();
      this.#relocations.delete(relocation);
      return;
    }
    relocation.step(random.oneIn(2), (id) => this.#commit(id, relocation));
    if (relocation.isOver) this.#relocations.delete(relocation);
  }

  /** The transaction of a move. */
  #commit(id: string, { from, to: { shard } }: Relocation): MovedActor {
    this.counts.moves++;
    const to = this.#hosts[shard] ?? assert.fail();
    to.given(id, from.taken(id));
    const move = { id: new Uint8Array(Buffer.from(id, 'hex')), shard, version: this.#moves.length + 1 };
    this.#moves.push(move);
    return move;
  }

  #crash(host: ShardHost, units = this.#seeded.below(host.journal.pending + 1)): void {
    this.counts.crashes++;
    const { shard, epoch } = host;
    const left = host.crash(units);
    this.#hosts[shard] = this.#hostOf({ shard, epoch: epoch + 1, left });
    // Frames that this one has sent may arrive yet; those that were sent to it never do.
    for (const wire of this.#connections) {
      if (wire.caller === host) wire.isCut = true;
      if (wire.callee === host) wire.isOver = true;
    }
  }

  #cut(): void {
    const wire = this.#connections[this.#seeded.below(Math.max(1, this.#connections.length))];
    if (wire === undefined) return;
    this.counts.cuts++;
    wire.isCut = true;
    if (this.#seeded.oneIn(3)) wire.isOver = true;
    else this.counts.late++;
    if (!this.#seeded.oneIn(3)) return;
    this.counts.doubled++;
    this.#connections.push(wire.doubled());
  }

  /** Each server has a connection to each other one. */
  #connect(): void {
    this.#connections = this.#connections.filter(({ isOver }) => !isOver);
    for (const caller of this.#hosts)
      for (const callee of this.#hosts) {
        const isThere = (wire: Wire): boolean => wire.caller === caller && wire.callee === callee && !wire.isCut;
        if (caller !== callee && !this.#connections.some(isThere))
          this.#connections.push(new Wire(this.#wires, caller, callee));
      }
  }

  /** Returns false if nothing has happened. */
  #step(what: number, host: ShardHost): boolean {
    const random = this.#seeded;
    if (what === 0) {
      if (!host.canExecute) return false;
      host.execute();
      return true;
    }
    if (what === 1) {
      host.seal();
      const { pending } = host.journal;
      host.journal.commit(random.below(pending + 1));
      return pending > 0;
    }
    const wire = this.#connections[random.below(Math.max(1, this.#connections.length))];
    if (wire === undefined) return false;
    return what === 2 ? wire.say(random.oneIn(2)) : wire.arrive(random.oneIn(2));
  }

  /** Lets everything end, without further accidents. */
  async #settle(): Promise<void> {
    let idle = 0;
    for (const host of this.#hosts.filter(({ isStopping }) => isStopping)) this.#crash(host, host.journal.pending);
    for (let turns = 0; idle < 3; turns++) {
      assert.ok(turns < TURNS_MAX, 'the servers do not come to rest');
      this.#connect();
      let isBusy = this.#relocations.size > 0;
      for (const relocation of this.#relocations)
        for (let steps = relocation.isCommitted ? 10 : 1; steps > 0; steps--) this.#relocate(relocation);
      for (const host of this.#hosts) host.look(this.#moves);
      for (const host of this.#hosts) {
        while (host.canExecute) {
          host.execute();
          isBusy = true;
        }
        host.seal();
        isBusy ||= host.journal.pending > 0;
        host.journal.commit(host.journal.pending);
      }
      for (const wire of this.#connections)
        for (const act of [
          () => wire.say(true),
          () => wire.arrive(true),
          () => wire.say(false),
          () => wire.arrive(false),
        ])
          while (act()) isBusy = true;
      if (!isBusy) this.#pass(2000);
      idle = isBusy ? 0 : idle + 1;
      await nextTurn();
    }
  }

  #check(): void {
    const ids = this.#hosts.flatMap((host) => Object.keys(host.ledgers));
    const names = Array.from({ length: SHARDS * CANISTERS }, (_none, at) =>
      hexOf(idInShard(Math.floor(at / CANISTERS), BigInt(at % CANISTERS))),
    );
    assert.deepEqual(ids.toSorted(), names, 'every canister is in one place');
    const ledgers = this.#hosts.flatMap((host) => Object.values(host.ledgers));
    const sum = (of: (ledger: Ledger) => number): number => ledgers.reduce((all, ledger) => all + of(ledger), 0);
    const before = newLedger();
    assert.deepEqual(
      ledgers.flatMap(({ open }) => Object.values(open)),
      [],
      'every call is answered',
    );
    assert.equal(
      sum(({ balance }) => balance),
      before.balance * ledgers.length,
      'the sum is what it was',
    );
    assert.equal(
      sum(({ cycles }) => cycles),
      before.cycles * ledgers.length,
      'no cycles are lost or made',
    );
    this.counts.notes = sum(({ notes }) => notes);
    this.counts.trapped = sum(({ trapped }) => trapped);
    for (const host of this.#hosts) {
      assert.equal(host.stubs, 0, 'no stand-in is left');
      // Calls that are over are erased with the next unit.
      host.journal.markDirty();
      host.seal();
      host.journal.commit(host.journal.pending);
      assert.deepEqual(host.journal.entries(), [], 'nothing of any call is left');
    }
  }
}
