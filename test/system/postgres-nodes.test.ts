/**
 * Three nodes on one PostgreSQL with six shards, each a process that starts shard processes itself: a node is lost with
 * all of them, comes back, is stopped, and stands still, under load. Every call has a key and is sent until it is
 * answered, so the actors count exactly what was acknowledged; every payment between actors keeps the sum.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { compileMotoko } from '../support/motoko.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { type RunningServer, startServer, type TestOwner } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const SHARDS = 6;
/** Shards where one node's processes matter: each costs a process, and these leave a neighbour on either side. */
const FEW_SHARDS = 3;
const LEASE_MS = 2_000;
/** Lease so long that a process that waited for its end would show. */
const LONG_LEASE_MS = 120_000;
const NAMES = Array.from({ length: 2 * SHARDS }, (_none, at) => `actor${at}`);
const BALANCE = 1_000_000;
const DEADLINE_MS = 60_000;
/** Pause of a client behind an answer: about as long as a payment takes, so that several are always under way. */
const PAUSE_MS = 15;
const KEY = 'a key of thirty-two characters or more';
const SOURCE = `
persistent actor {
  var balance : Int = ${BALANCE};
  var count = 0;
  public func take(amount : Int) : async () { balance += amount };
  public func pay(principal : Text, amount : Int) : async Nat {
    let other = actor (principal) : actor { take : Int -> async () };
    count += 1;
    balance -= amount;
    let number = count;
    await other.take(amount);
    number
  };
  public query func state() : async [Int] { [balance, count] };
};`;

interface ClusterView {
  readonly group: string;
  readonly own: { readonly spares: number; readonly owning: number } | null;
  readonly nodes: readonly {
    readonly group: string;
    readonly processes: readonly { readonly shard: number | null }[];
  }[];
  readonly shards: readonly {
    readonly group: string | null;
    readonly holder: string | null;
    readonly address: string | null;
  }[];
}

let postgres: Postgres;
let manifestFile = '';
before(async () => {
  postgres = await startPostgres();
  const directory = await temporaryDirectory();
  const { wasm } = await compileMotoko(SOURCE);
  await writeFile(join(directory, 'account.wasm'), wasm);
  manifestFile = join(directory, 'actors.json');
  const actors = Object.fromEntries(NAMES.map((name) => [name, { wasm: 'account.wasm' }]));
  await writeFile(manifestFile, JSON.stringify({ actors }));
});
after(() => postgres[Symbol.asyncDispose]());

/** Starts a node in a process group of its own. */
function startNode(
  t: TestOwner,
  namespace: string,
  { leaseMs = LEASE_MS, shards = SHARDS } = {},
): Promise<RunningServer> {
  const given = [
    `storage.url=${postgres.url}`,
    `storage.namespace=${namespace}`,
    `storage.shards=${shards}`,
    `storage.lease-ms=${leaseMs}`,
  ];
  const plugin = ['--plugin', 'storage=svc/storage-postgres', ...given.flatMap((each) => ['--plugin-option', each])];
  const args = [...plugin, '--cluster-listen', '127.0.0.1:0'];
  return startServer(t, { manifestFile, args, env: { SVC_CLUSTER_KEY: KEY }, wrapper: ['setsid'] });
}

/** Sends a signal to all processes of a node at once. */
function signal({ process: { pid = 0 } }: RunningServer, name: NodeJS.Signals): void {
  process.kill(-pid, name);
}

async function viewOf(node: RunningServer): Promise<ClusterView> {
  return (await (await node.fetch('/x/cluster')).json()) as ClusterView;
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (const deadlineMs = performance.now() + DEADLINE_MS; !(await holds()); await sleep(50))
    assert.ok(performance.now() < deadlineMs, `not within ${DEADLINE_MS} ms: ${what}`);
}

/** Waits until so many nodes have the shards, each its share, and each has a process that waits. */
async function untilShared(node: RunningServer, nodes: number, shards = SHARDS): Promise<void> {
  let seen: unknown;
  const isShared = async (): Promise<boolean> => {
    const view = await viewOf(node);
    seen = view;
    const counts = view.nodes.map(({ processes }) => processes.filter(({ shard }) => shard !== null).length);
    const areReached = view.shards.every(({ address }) => address !== null);
    const haveSpares = view.nodes.every(
      ({ processes }) => nodes === 1 || processes.some(({ shard }) => shard === null),
    );
    const areEven = counts.length === nodes && counts.every((count) => count <= Math.ceil(shards / nodes));
    return areReached && haveSpares && areEven && counts.reduce((sum, count) => sum + count, 0) === shards;
  };
  await until(`${nodes} nodes have their shares`, isShared).catch((error: unknown) => {
    throw new Error(JSON.stringify(seen, undefined, 1), { cause: error });
  });
}

/** A client of each actor, which has it pay the next one, again and again. */
class Load {
  readonly acknowledged = new Map(NAMES.map((name) => [name, 0]));
  /** Answers other than 200. */
  readonly failures: string[] = [];
  readonly #answeredMs = new Map<string, number>();
  readonly #gaps = new Map<string, number>();
  #entries: readonly RunningServer[];
  #isOver = false;
  readonly #clients: readonly Promise<void>[];
  #key = 0;

  constructor(entries: readonly RunningServer[], principals: readonly string[]) {
    this.#entries = entries;
    this.#clients = NAMES.map((name, at) => this.#client(name, principals[(at + 1) % principals.length] ?? ''));
  }

  /** Sends everything through these nodes from now on. */
  use(...entries: readonly RunningServer[]): void {
    this.#entries = entries;
  }

  async #client(name: string, next: string): Promise<void> {
    this.#answeredMs.set(name, performance.now());
    for (let turn = 0; !this.#isOver; turn++) {
      const key = `${name}-${this.#key++}`;
      for (let tries = 0; ; tries++) {
        const entry = this.#entries[(turn + tries) % this.#entries.length] ?? assert.fail('there is none');
        const said = await entry
          .post(`/call-json/${name}/pay`, JSON.stringify([next, 1]), { 'idempotency-key': key })
          .catch((error: unknown) => ({ status: 0, body: String(error) }));
        if (said.status === 200) break;
        this.failures.push(`${name}: ${said.status} ${said.body}`);
        assert.ok(tries < 1_000, said.body);
        await sleep(20);
      }
      const nowMs = performance.now();
      this.#gaps.set(name, Math.max(this.#gaps.get(name) ?? 0, nowMs - (this.#answeredMs.get(name) ?? nowMs)));
      this.#answeredMs.set(name, nowMs);
      this.acknowledged.set(name, (this.acknowledged.get(name) ?? 0) + 1);
      await sleep(PAUSE_MS);
    }
  }

  /** Begins to measure gaps anew, and to note failures. */
  mark(): void {
    this.#gaps.clear();
    this.failures.length = 0;
  }

  /** Resolves with the longest gap of any actor since `mark`, when each has been answered `times` times more. */
  async settled(times = 3): Promise<number> {
    const counts = new Map(this.acknowledged);
    await until('each actor answers', async () =>
      NAMES.every((name) => (this.acknowledged.get(name) ?? 0) >= (counts.get(name) ?? 0) + times),
    );
    return Math.round(Math.max(...this.#gaps.values()));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }
}

async function stateOf(node: RunningServer, name: string): Promise<readonly [balance: number, count: number]> {
  let body = '';
  // A process of the node may be replaced for a moment, as where the machine stood still for longer than the lease.
  await until(`${name} answers`, async () => {
    const answer = await node.post(`/query-json/${name}/state`);
    ({ body } = answer);
    assert.ok([200, 503].includes(answer.status), body);
    return answer.status === 200;
  });
  const [[balance, count] = []] = JSON.parse(body) as (string | number)[][];
  return [Number(balance), Number(count)];
}

async function principalsOf(node: RunningServer): Promise<readonly string[]> {
  const listed = (await (await node.fetch('/inspect')).json()) as { name: string; principal: string }[];
  return NAMES.map((name) => listed.find((actor) => actor.name === name)?.principal ?? assert.fail(name));
}

/** Ends the load, and looks whether exactly what was acknowledged was done. */
async function assertExact(node: RunningServer, load: Load, t: TestContext): Promise<void> {
  await load.stop();
  let sum = 0;
  let calls = 0;
  for (const name of NAMES) {
    const [balance, count] = await stateOf(node, name);
    assert.equal(count, load.acknowledged.get(name), `${name}: nothing lost, nothing doubled`);
    sum += balance;
    calls += count;
  }
  assert.equal(sum, NAMES.length * BALANCE);
  t.diagnostic(`${calls} payments, and the sum is what it was`);
}

suite('three nodes with six shards', () => {
  test('one alone has all; those that come get their shares, and no request fails', async (t) => {
    const first = await startNode(t, 'grows');
    await untilShared(first, 1);
    const load = new Load([first], await principalsOf(first));
    await load.settled();
    load.mark();
    const second = await startNode(t, 'grows');
    const third = await startNode(t, 'grows');
    await untilShared(first, 3);
    load.use(first, second, third);
    t.diagnostic(`longest gap while shards move: ${await load.settled()} ms`);
    assert.deepEqual(load.failures, []);
    load.mark();
    load.use(first, second);
    // An answer that the stopping node owes is on its way.
    await sleep(200);
    load.mark();
    assert.equal(await third.stop(), 0, third.output.stderr);
    assert.match(third.output.stdout, /^shutdown: \d+ actor\(s\) checkpointed$/m);
    await untilShared(first, 2);
    t.diagnostic(`longest gap while a node stops: ${await load.settled()} ms`);
    assert.deepEqual(load.failures, []);
    await assertExact(first, load, t);
  });

  test('one is killed with all of its processes: the others carry on with everything, and it comes back', async (t) => {
    const [first, second, third] = await Promise.all([1, 2, 3].map(() => startNode(t, 'killed')));
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    await untilShared(first, 3);
    const load = new Load([first, second], await principalsOf(first));
    await load.settled();
    load.mark();
    signal(third, 'SIGKILL');
    const gapMs = await load.settled();
    t.diagnostic(`longest gap of any actor after the kill: ${gapMs} ms, with a lease of ${LEASE_MS} ms`);
    assert.ok(gapMs < LEASE_MS + 8_000, `${gapMs} ms: no process was waiting`);
    await untilShared(first, 2);
    load.mark();
    await startNode(t, 'killed');
    await untilShared(first, 3);
    t.diagnostic(`longest gap while it gets its share: ${await load.settled()} ms`);
    assert.deepEqual(load.failures, []);
    await assertExact(second, load, t);
  });

  test('one stands still for longer than the lease: it answers nothing stale afterwards, and ends', async (t) => {
    const [first, second] = await Promise.all([1, 2].map(() => startNode(t, 'still')));
    assert.ok(first !== undefined && second !== undefined);
    await untilShared(first, 2);
    const load = new Load([first], await principalsOf(first));
    await load.settled();
    signal(second, 'SIGSTOP');
    await sleep(2 * LEASE_MS);
    await load.settled();
    await untilAll(first);
    await load.stop();
    const goneMs = performance.now();
    signal(second, 'SIGCONT');
    // Everything that it says from now on, until it is gone.
    const wrong: string[] = [];
    const asking = NAMES.map(async (name) => {
      while (second.process.exitCode === null && performance.now() < goneMs + DEADLINE_MS) {
        const answer = await second.post(`/query-json/${name}/state`).catch(() => undefined);
        if (answer?.status !== 200) continue;
        const [[, count] = []] = JSON.parse(answer.body) as (string | number)[][];
        if (Number(count) !== load.acknowledged.get(name)) wrong.push(`${name}: ${answer.body}`);
      }
    });
    await until('it ends', async () => second.process.exitCode !== null);
    t.diagnostic(`ended ${Math.round(performance.now() - goneMs)} ms after it went on`);
    await Promise.all(asking);
    assert.deepEqual(wrong, []);
    assert.match(second.output.stderr, /is owned by .* now: this process did not renew its lease/);
    await assertExact(first, load, t);
  });
});

/** Waits until a node has all shards. */
async function untilAll(node: RunningServer): Promise<void> {
  const { group } = await viewOf(node);
  await until('it has all shards', async () => (await viewOf(node)).shards.every((shard) => shard.group === group));
}

suite('processes of a node', () => {
  test('a shard process that is killed is replaced at once, and nobody else is touched', async (t) => {
    const node = await startNode(t, 'child', { leaseMs: LONG_LEASE_MS, shards: FEW_SHARDS });
    await untilShared(node, 1, FEW_SHARDS);
    const load = new Load([node], await principalsOf(node));
    await load.settled();
    load.mark();
    const { shards } = await viewOf(node);
    const pid = Number(/pid (\d+)/.exec(shards[1]?.holder ?? '')?.[1]);
    process.kill(pid, 'SIGKILL');
    t.diagnostic(
      `longest gap after a shard process was killed: ${await load.settled()} ms, with a lease of two minutes`,
    );
    assert.match(node.output.stderr, new RegExp(`shard process ${pid}, of shard 1, has ended \\(signal SIGKILL\\)`));
    await assertExact(node, load, t);
  });

  test('end, and hand over, when the process that has started them is killed alone', async (t) => {
    const [first, second] = await Promise.all([1, 2].map(() => startNode(t, 'orphans', { shards: FEW_SHARDS })));
    assert.ok(first !== undefined && second !== undefined);
    await untilShared(first, 2, FEW_SHARDS);
    // Resolves when nobody holds its output any more: the children are gone, too.
    await second.kill();
    await untilAll(first);
    for (const name of NAMES) await stateOf(first, name);
  });
});
