/**
 * Clients that keep a server busy until it dies, and remember its answers; and the check of the state of the next
 * server.
 *
 * Each client sends one numbered request at a time over a connection of its own, so that the expected state is known:
 * all answered requests, in order, once, and at most one more, which was under way.
 */
import assert from 'node:assert/strict';
import type { Seeded } from '../../support/seeded.ts';
import type { Actor, Host } from '../semantics/host.ts';
import { Client, type Request, type RunOptions } from './client.ts';
import { Haulage, type Haulers } from './haul.ts';
import { Repeaters } from './repeater.ts';

const POOL = 1_000_000;
/** Distance of clients' numbers, which tell the sender. */
const CLIENT_FACTOR = 1_000_000_000;

/** Calls one method with numbers of its own. */
abstract class Caller extends Client {
  readonly #target: string;

  constructor(actor: Actor, method: string) {
    super(actor);
    this.#target = `/call-json/${actor.name}/${method}`;
  }

  protected abstract nextArguments(): readonly unknown[];

  protected next(): Request {
    return { target: this.#target, body: JSON.stringify(this.nextArguments()) };
  }
}

/** Appends 1, 2, 3 … to a list that others append to as well. */
class Appender extends Caller {
  readonly #number: number;

  constructor(actor: Actor, number: number) {
    super(actor, 'append');
    this.#number = number;
  }

  protected nextArguments(): readonly unknown[] {
    return [this.#number * CLIENT_FACTOR + this.acknowledged + 1];
  }

  /**
   * `added`: numbers that the list has got since the last check. `before`: number of the client's own ones until then.
   */
  check(added: readonly number[], before: number): number {
    const own = added.filter((n) => Math.floor(n / CLIENT_FACTOR) === this.#number).map((n) => n % CLIENT_FACTOR);
    const expected = Array.from(own, (_, index) => before + index + 1);
    assert.deepEqual(own, expected, `${this.actor.name}: numbers of client ${this.#number} in order and once`);
    this.settle(before + own.length);
    return this.acknowledged;
  }

  isPrinted(n: number): boolean {
    const own = n % CLIENT_FACTOR;
    return Math.floor(n / CLIENT_FACTOR) !== this.#number || own <= this.acknowledged;
  }
}

/** Moves small amounts from one pool to the other. */
class Transferrer extends Caller {
  readonly #to: Actor;

  constructor(from: Actor, to: Actor) {
    super(from, 'transfer');
    this.#to = to;
  }

  protected nextArguments(): readonly unknown[] {
    return [this.#to.principal, (this.acknowledged % 7) + 1];
  }

  forgive(): void {
    this.isUncertain = false;
  }
}

/** Starts chains of calls between two actors. */
class Chainer extends Caller {
  readonly #to: Actor;
  static readonly LINKS = 8;

  constructor(from: Actor, to: Actor) {
    super(from, 'chain');
    this.#to = to;
  }

  protected nextArguments(): readonly unknown[] {
    return [this.#to.principal, Chainer.LINKS];
  }

  check(chains: number): void {
    this.settle(chains);
  }
}

interface LoadActors {
  /** Lists to which two clients append each. */
  readonly lists: readonly Actor[];
  readonly banks: readonly [Actor, Actor];
  readonly chain: readonly [Actor, Actor];
  readonly haul: Haulers;
  /** Actors that are called with keys: one by itself, one that calls the other. */
  readonly keyed: readonly [list: Actor, from: Actor, to: Actor];
}

export class Load {
  readonly #actors: LoadActors;
  readonly #appenders: readonly Appender[];
  readonly #transferrers: readonly Transferrer[];
  readonly #chainer: Chainer;
  readonly haulage: Haulage;
  readonly repeaters: Repeaters;
  /** Length of each list at the last check. */
  readonly #lengths = new Map<Actor, number>();
  /** Number of a client's numbers that were there at the last check. */
  readonly #seen = new Map<Appender, number>();
  /** Number of debug lines that were compared with the state. */
  linesChecked = 0;

  constructor(actors: LoadActors, random: Seeded) {
    const { lists, banks, chain, haul, keyed } = actors;
    this.#actors = actors;
    this.#appenders = lists.flatMap((list, index) => [
      new Appender(list, 2 * index),
      new Appender(list, 2 * index + 1),
    ]);
    this.#transferrers = [new Transferrer(...banks), new Transferrer(banks[1], banks[0])];
    this.#chainer = new Chainer(...chain);
    this.haulage = new Haulage(haul, random);
    this.repeaters = new Repeaters(keyed);
  }

  get #clients(): readonly Client[] {
    return [
      ...this.#appenders,
      ...this.#transferrers,
      this.#chainer,
      ...this.haulage.clients,
      ...this.repeaters.clients,
    ];
  }

  get acknowledged(): number {
    return this.#clients.reduce((sum, client) => sum + client.acknowledged, 0);
  }

  /** Prepares the actors before the clients begin. */
  async prepare(host: Host): Promise<void> {
    await this.haulage.prepare(host);
  }

  /** Resolves when the server is gone, or when the load is over. */
  async run({ server }: Host, options: RunOptions = {}): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.run(server.origin, options)));
  }

  /** `printed`: debug output of actors that the dead server had printed. */
  async check(host: Host, printed = ''): Promise<void> {
    for (const list of this.#actors.lists) {
      const length = this.#lengths.get(list) ?? 0;
      const added = (await host.query(list, 'since', [length])) as number[];
      for (const appender of this.#appenders.filter(({ actor }) => actor === list)) {
        this.#seen.set(appender, appender.check(added, this.#seen.get(appender) ?? 0));
      }
      this.#lengths.set(list, length + added.length);
    }
    for (const [, text] of printed.matchAll(/kept (\d[\d_]*)$/gm)) {
      const n = Number(text?.replaceAll('_', ''));
      this.linesChecked++;
      assert.ok(
        this.#appenders.every((appender) => appender.isPrinted(n)),
        `${n} was printed, and is not in the state`,
      );
    }
    // Calls that were under way between actors end by themselves.
    await host.until(async () => {
      const [one, two] = this.#actors.banks;
      const pools = [await host.query(one, 'inPool'), await host.query(two, 'inPool')] as [number, number];
      assert.equal(pools[0] + pools[1], 2 * POOL, pools.join(' and '));
      const [from, to] = this.#actors.chain;
      const { steps, chains } = (await host.query(from, 'chained')) as { steps: number; chains: number };
      assert.equal(steps, chains * Chainer.LINKS);
      assert.equal(await host.query(to, 'get'), steps);
      this.#chainer.check(chains);
    });
    for (const transferrer of this.#transferrers) transferrer.forgive();
    await this.haulage.check(host, printed);
    await this.repeaters.check(host);
  }

  /** Checks everything from the beginning on. */
  async checkAll(host: Host): Promise<void> {
    for (const list of this.#actors.lists) {
      const all = (await host.query(list, 'all')) as number[];
      assert.equal(new Set(all).size, all.length, `${list.name} has something twice`);
      assert.equal(all.length, this.#lengths.get(list));
    }
  }
}
