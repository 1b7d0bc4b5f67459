/**
 * Actors of two shards that pay each other over PostgreSQL, while the server of one shard or of the other is killed:
 * every payment is executed and answered once, in order, and the sum is what it was. `npm run prove -- postgres-calls
 * 100` is the long form.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Host } from '../e2e/semantics/host.ts';
import { compileMotoko } from '../support/motoko.ts';
import { startPostgres } from '../support/postgres.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { seeded } from '../support/seeded.ts';
import { ShardedService } from '../support/sharded-service.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const SHARDS = 2;
const BALANCE = 1_000_000;
const KILL_MS_MAX = 600;
const CLIENTS = 6;
/** Payments that are answered between two kills, at least. */
const ANSWERED_BETWEEN = 100;
const MEASURED = 100;
const SOURCE = `
persistent actor {
  var balance : Int = ${BALANCE};
  var sent = 0;
  var answered = 0;
  var taken = 0;
  var disorder = 0;
  var touched = 0;
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
  public func touch() : async () { touched += 1 };
  public query func state() : async [Int] { [balance, sent, answered, taken, disorder] };
};`;

const PRINCIPAL = /(?:[a-z2-7]{5}-){4}[a-z2-7]{3}/;

interface State {
  readonly balance: number;
  readonly sent: number;
  readonly answered: number;
  readonly taken: number;
  readonly disorder: number;
}

async function stateOf({ owners: [owner] }: ShardedService, name: string): Promise<State> {
  const { status, body } = (await owner?.server.post(`/query-json/${name}/state`, '[]')) ?? assert.fail();
  assert.equal(status, 200, body);
  const [numbers = []] = JSON.parse(body) as (string | number)[][];
  const [balance = 0, sent = 0, answered = 0, taken = 0, disorder = 0] = numbers.map(Number);
  return { balance, sent, answered, taken, disorder };
}

test('actors of two shards that pay each other lose and double nothing, however often a server is killed', async (t) => {
  const postgres = await startPostgres();
  t.after(() => postgres[Symbol.asyncDispose]());
  const directory = await temporaryDirectory();
  const { wasm } = await compileMotoko(SOURCE);
  await writeFile(join(directory, 'payer.wasm'), wasm);
  const manifest = join(directory, 'actors.json');
  await writeFile(manifest, JSON.stringify({ actors: { a: { wasm: 'payer.wasm' }, b: { wasm: 'payer.wasm' } } }));
  const service = new ShardedService(t, { url: postgres.url, manifestFile: manifest, shards: SHARDS });
  await service.start();
  const [first] = service.owners;
  assert.ok(first !== undefined);
  const principals = new Map<string, string>();
  await first.until(async () => {
    for (const { name, principal } of await first.inspect()) principals.set(name, principal);
    assert.equal(principals.size, 2);
  });
  const pay = (host: Host, from: string): Promise<{ status: number; body: string }> => {
    const to = principals.get(from === 'a' ? 'b' : 'a') ?? '';
    assert.match(to, PRINCIPAL);
    return host.server.post(`/call-json/${from}/pay`, JSON.stringify([to, '7']));
  };
  await measure(t, 'an update without calls', () => first.server.post('/call-json/a/touch', '[]'));
  await measure(t, 'a payment', () => pay(first, 'a'));
  const seeds = new ProofSeeds(2);
  let [answered, failed, isOver] = [0, 0, false];
  const random = seeded(seeds.count);
  const client = async (number: number): Promise<void> => {
    while (!isOver) {
      const host = service.owners[random.below(SHARDS)];
      const outcome = host && (await pay(host, number % 2 === 0 ? 'a' : 'b').catch(() => undefined));
      if (outcome?.status === 200) answered++;
      else {
        failed++;
        await sleep(20);
      }
    }
  };
  const clients = Array.from({ length: CLIENTS }, (_none, number) => client(number));
  const until: Host['until'] = (check) => first.until(check);
  for (const seed of seeds) {
    const before = answered;
    await until(async () => assert.ok(answered > before + ANSWERED_BETWEEN, `${answered} of ${before} answered`));
    await sleep(random.below(KILL_MS_MAX));
    await service.kill(seed % SHARDS);
    await checked(until, service, false);
  }
  isOver = true;
  await Promise.all(clients);
  await checked(until, service, true);
  seeds.saw({ 'payments answered': answered, 'requests without an answer': failed });
  t.diagnostic(`${answered} payments answered, ${failed} requests not, ${seeds.count} kills`);
});

/** Waits until a look at the state is right; at the end, until nothing is open. */
async function checked(until: Host['until'], service: ShardedService, isEnd: boolean): Promise<void> {
  await until(async () => {
    const [a, b] = [await stateOf(service, 'a'), await stateOf(service, 'b')];
    const text = JSON.stringify({ a, b });
    assert.deepEqual([a.disorder, b.disorder], [0, 0], text);
    if (!isEnd) return;
    assert.deepEqual([a.answered, b.answered], [a.sent, b.sent], text);
    assert.deepEqual([a.taken, b.taken], [b.sent, a.sent], text);
    assert.equal(a.balance + b.balance, 2 * BALANCE, text);
  });
}

/** Prints the milliseconds of an answer, one at a time. */
async function measure(
  t: TestContext,
  what: string,
  ask: () => Promise<{ status: number; body: string }>,
): Promise<void> {
  const tookMs: number[] = [];
  for (let left = MEASURED; left > 0; left--) {
    const beginMs = performance.now();
    const { status, body } = await ask();
    tookMs.push(performance.now() - beginMs);
    assert.equal(status, 200, body);
  }
  const sorted = tookMs.toSorted((one, other) => one - other);
  t.diagnostic(
    `${what} takes ${sorted[MEASURED / 2]?.toFixed(1)} ms in the middle, at best ${sorted[0]?.toFixed(1)} ms`,
  );
}
