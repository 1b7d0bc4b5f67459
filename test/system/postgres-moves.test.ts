/**
 * Actors that pay each other while they move between two shards over PostgreSQL: no request fails, every payment is
 * executed and answered once, in order, and keys, timers and snapshots go along; then the same while servers are
 * killed. `npm run prove -- postgres-moves 100` is the long form.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Host } from '../e2e/semantics/host.ts';
import { compileMotoko } from '../support/motoko.ts';
import { startPostgres } from '../support/postgres.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { type Seeded, seeded } from '../support/seeded.ts';
import { type TestOwner } from '../support/server.ts';
import { ShardedService } from '../support/sharded-service.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const SHARDS = 2;
const BALANCE = 1_000_000;
const CLIENTS = 6;
const KILL_MS_MAX = 600;
const MOVES = 12;
const NAMES = ['a', 'b'] as const;
type Name = (typeof NAMES)[number];

const SOURCE = `
import Timer "mo:core/Timer";
persistent actor {
  var balance : Int = ${BALANCE};
  var sent = 0;
  var answered = 0;
  var taken = 0;
  var disorder = 0;
  var once = 0;
  var ticks = 0;
  public func take(amount : Int, number : Nat) : async Nat {
    taken += 1;
    if (number != taken) disorder += 1;
    balance += amount;
    taken
  };
  public func pay(principal : Text, amount : Int) : async Nat {
    let other = actor (principal) : actor { take : (Int, Nat) -> async Nat };
    balance -= amount;
    sent += 1;
    let number = sent;
    let answer = await other.take(amount, number);
    answered += 1;
    if (answer != number or answered != number) disorder += 1;
    answer
  };
  public func count() : async Nat { once += 1; once };
  public func tick() : async () { ignore Timer.recurringTimer<system>(#nanoseconds 50_000_000, func() : async () { ticks += 1 }) };
  public query func state() : async [Int] { [balance, sent, answered, taken, disorder, once, ticks] };
};`;

interface State {
  readonly balance: number;
  readonly sent: number;
  readonly answered: number;
  readonly taken: number;
  readonly disorder: number;
  readonly once: number;
  readonly ticks: number;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** A service with the actors `a` and `b`, and clients that have them pay each other. */
class Payers {
  readonly service: ShardedService;
  readonly principals = new Map<string, string>();
  readonly #random: Seeded;
  answered = 0;
  /** Answers of requests that have failed. */
  readonly failed: Answer[] = [];
  isOver = false;
  #clients: Promise<void>[] = [];

  constructor(service: ShardedService, random: Seeded) {
    this.service = service;
    this.#random = random;
  }

  static async start(t: TestOwner, random: Seeded): Promise<Payers> {
    const postgres = await startPostgres();
    t.after(async () => await postgres[Symbol.asyncDispose]());
    const directory = await temporaryDirectory();
    const { wasm } = await compileMotoko(SOURCE);
    await writeFile(join(directory, 'payer.wasm'), wasm);
    const manifestFile = join(directory, 'actors.json');
    await writeFile(manifestFile, JSON.stringify({ actors: { a: { wasm: 'payer.wasm' }, b: { wasm: 'payer.wasm' } } }));
    const payers: Payers = new Payers(
      new ShardedService(t, { url: postgres.url, manifestFile, shards: SHARDS }),
      random,
    );
    await payers.service.start();
    // Clients of a test that has failed would keep the process alive.
    t.after(() => payers.end());
    const [first] = payers.service.owners;
    await first?.until(async () => {
      for (const { name, principal } of await payers.#any().inspect()) payers.principals.set(name, principal);
      assert.equal(payers.principals.size, NAMES.length);
    });
    return payers;
  }

  #any(): Host {
    return this.service.owners[this.#random.below(SHARDS)] ?? assert.fail();
  }

  async until(check: () => Promise<void>): Promise<void> {
    await this.#any().until(check);
  }

  post(path: string, body: string, headers?: Record<string, string>): Promise<Answer> {
    return this.#any().server.post(path, body, headers);
  }

  /** Has the actors pay each other until `end`. */
  begin(): void {
    this.#clients = Array.from({ length: CLIENTS }, (_none, number) => this.#pay(NAMES[number % 2 === 0 ? 0 : 1]));
  }

  async end(): Promise<void> {
    this.isOver = true;
    await Promise.all(this.#clients);
  }

  async #pay(from: Name): Promise<void> {
    const to = this.principals.get(from === 'a' ? 'b' : 'a') ?? '';
    while (!this.isOver) {
      const lost = { status: 0, body: 'the connection was cut' };
      const answer = await this.post(`/call-json/${from}/pay`, JSON.stringify([to, '7'])).catch(() => lost);
      if (answer.status === 200) this.answered++;
      else {
        this.failed.push(answer);
        await sleep(20);
      }
    }
  }

  /** Resolves with what was answered. */
  move(name: Name, shard: number): Promise<Answer> {
    return this.post(`/x/cluster/move/${name}`, JSON.stringify({ shard }));
  }

  async state(name: Name): Promise<State> {
    const { status, body } = await this.post(`/query-json/${name}/state`, '[]');
    assert.equal(status, 200, body);
    const [numbers = []] = JSON.parse(body) as (string | number)[][];
    const [balance = 0, sent = 0, answered = 0, taken = 0, disorder = 0, once = 0, ticks = 0] = numbers.map(Number);
    return { balance, sent, answered, taken, disorder, once, ticks };
  }

  /** Waits until nothing is open, and everything is right. */
  async settled(): Promise<void> {
    await this.until(async () => {
      const [a, b] = [await this.state('a'), await this.state('b')];
      const text = JSON.stringify({ a, b });
      assert.deepEqual([a.disorder, b.disorder], [0, 0], text);
      assert.deepEqual([a.answered, b.answered], [a.sent, b.sent], text);
      assert.deepEqual([a.taken, b.taken], [b.sent, a.sent], text);
      assert.equal(a.balance + b.balance, 2 * BALANCE, text);
    });
    const names = (await this.#any().inspect()).map(({ name }) => name);
    assert.deepEqual(names.toSorted(), NAMES, 'each actor is in one place');
  }
}

suite('actors that pay each other', () => {
  test('move under load, and no request fails', async (t) => {
    const payers = await Payers.start(t, seeded(1));
    const key = { 'idempotency-key': 'the-only-one' };
    const first = await payers.post('/call-json/a/count', '[]', key);
    assert.deepEqual([first.status, first.body], [200, '[1]']);
    assert.equal((await payers.post('/call-json/a/tick', '[]')).status, 200);
    const taken = await payers.post('/x/actors/a/snapshots', '');
    assert.equal(taken.status, 200, taken.body);
    payers.begin();
    const told: string[] = [];
    for (let count = 0; count < MOVES; count++) {
      await sleep(100);
      const { status, body } = await payers.move(NAMES[count % 4 < 2 ? 0 : 1], count % 2 === 0 ? 1 : 0);
      told.push(`${status} ${body}`);
    }
    await payers.end();
    await payers.settled();
    assert.deepEqual(payers.failed, [], told.join('\n'));
    const moved = told.filter((text) => text === '200 moved').length;
    // An actor that is where it has to go, or never at rest for a moment, stays there and says so.
    assert.ok(moved >= MOVES / 2, told.join('\n'));
    const before = await payers.state('a');
    const again = await payers.post('/call-json/a/count', '[]', key);
    assert.deepEqual([again.status, again.body], [200, '[1]'], 'the key is known where the actor is');
    await payers.until(async () => assert.ok((await payers.state('a')).ticks > before.ticks, 'its timer goes on'));
    t.diagnostic(`${payers.answered} payments answered, ${moved} moves`);
  });

  test('move while servers are killed, and nothing is lost or doubled', async (t) => {
    const seeds = new ProofSeeds(2);
    const random = seeded(seeds.count);
    const payers = await Payers.start(t, random);
    payers.begin();
    let [moved, refused] = [0, 0];
    const moving = (async (): Promise<void> => {
      while (!payers.isOver) {
        const answer = await payers.move(random.pick(NAMES), random.below(SHARDS)).catch(() => undefined);
        if (answer?.status === 200) moved++;
        else refused++;
        await sleep(random.below(50));
      }
    })();
    for (const seed of seeds) {
      const before = moved;
      await payers.until(async () => assert.ok(moved > before + 1, `${moved} moves, ${refused} refused`));
      await sleep(random.below(KILL_MS_MAX));
      await payers.service.kill(seed % SHARDS);
      const [a, b] = [await payers.state('a'), await payers.state('b')];
      assert.deepEqual([a.disorder, b.disorder], [0, 0], JSON.stringify({ a, b }));
    }
    await payers.end();
    await moving;
    await payers.settled();
    seeds.saw({
      'payments answered': payers.answered,
      'requests without an answer': payers.failed.length,
      moves: moved,
    });
    t.diagnostic(
      `${payers.answered} payments answered, ${payers.failed.length} not, ${moved} moves, ${refused} refused`,
    );
  });
});
