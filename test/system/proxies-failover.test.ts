/**
 * Two servers behind each proxy of config/proxies, one state in PostgreSQL: the owner is killed with requests under
 * way, and the standby goes on. Each request has a number, and the actor knows how often it has executed each: once if
 * it was answered, once at most if nobody knows, never if it was refused as not begun.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Host } from '../e2e/semantics/host.ts';
import { freePort } from '../support/free-port.ts';
import { Http2Client } from '../support/http2-client.ts';
import { compileMotoko } from '../support/motoko.ts';
import { type Postgres, startPostgres } from '../support/postgres.ts';
import { PROXIES, type ProxyKind, startProxy } from '../support/proxies.ts';
import { startServer } from '../support/server.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** An owner that a busy machine holds up for longer ends, as it has to. */
const LEASE_MS = 4000;
const CLIENTS = 4;
const DEADLINE_MS = 60_000;
/** Time in which every proxy has found out who is ready. */
const SETTLED_MS = 1_500;
/** Longer than the pause between two checks. */
const READY_AFTER_MS = 900;
/** Answers of each half of a run. */
const ANSWERS = 60;
/** Pause of a client behind an answer: less than a request takes, as what is tested is the end of one under way. */
const PAUSE_MS = 5;
const STANDBY = { status: 503, body: 'starting: standby, the namespace has another owner' };

/** Counts how often it executes each number. `slowly` has counted, and that is kept, long before it answers. */
const LEDGER = `
import Debug "mo:core/Debug";
import Iter "mo:core/Iter";
import Map "mo:core/Map";
import Nat "mo:core/Nat";
persistent actor Ledger {
  let executed = Map.empty<Nat, Nat>();
  func count(number : Nat) : Nat {
    let times = 1 + (switch (Map.get(executed, Nat.compare, number)) { case (?n) n; case null 0 });
    Map.add(executed, Nat.compare, number, times);
    times;
  };
  public func quickly(number : Nat) : async () { ignore count(number) };
  public func slowly(number : Nat) : async () {
    let times = count(number);
    Debug.print("counted");
    if (times == 1) await spin();
  };
  public func spin() : async () {
    var turns = 0;
    while (turns < 100_000_000) turns += 1;
  };
  public query func all() : async [(Nat, Nat)] { Iter.toArray(Map.entries(executed)) };
};`;

let postgres: Postgres;
let manifestFile: string;
before(async () => {
  postgres = await startPostgres();
  const directory = await temporaryDirectory();
  await writeFile(join(directory, 'ledger.wasm'), (await compileMotoko(LEDGER)).wasm);
  manifestFile = join(directory, 'actors.json');
  await writeFile(
    manifestFile,
    JSON.stringify({ actors: { ledger: { wasm: 'ledger.wasm' }, slow: { wasm: 'ledger.wasm' } } }),
  );
});
after(() => postgres[Symbol.asyncDispose]());

async function start(t: TestContext, namespace: string, port: number, until: 'listening' | 'ready'): Promise<Host> {
  const options = [`storage.url=${postgres.url}`, `storage.namespace=${namespace}`, `storage.lease-ms=${LEASE_MS}`];
  const args = options.flatMap((option) => ['--plugin-option', option]);
  const plugin = ['--plugin', 'storage=svc/storage-postgres', ...args];
  const host = new Host(await startServer(t, { manifestFile, args: plugin, port, until }));
  if (until === 'listening')
    await host.until(async () => assert.deepEqual(await host.server.get('/health/ready'), STANDBY));
  return host;
}

/** Clients that send numbers, each once, and again what was refused as not begun. */
class Clients {
  readonly #port: number;
  #last = 0;
  #isOver = false;
  /** Numbers that were answered. */
  readonly answered = new Set<number>();
  /** Numbers of which nobody can know: the connection or the answer broke off. */
  readonly unknown = new Set<number>();
  /** Number of answers `503 starting: …` and `503 shutting down`. */
  refusals = 0;

  constructor(port: number) {
    this.#port = port;
  }

  async run(): Promise<void> {
    while (!this.#isOver) {
      await using client = await Http2Client.connect(this.#port);
      // After an unknown end the connection may be useless.
      while (!this.#isOver && (await this.#sendNext(client))) await sleep(PAUSE_MS);
    }
  }

  end(): void {
    this.#isOver = true;
  }

  /** Resolves when so many more were answered. */
  async more(count: number, said: () => string): Promise<void> {
    const goal = this.answered.size + count;
    for (const deadline = Date.now() + DEADLINE_MS; this.answered.size < goal; await sleep(10))
      assert.ok(Date.now() < deadline, `${this.answered.size} of ${goal} were answered:\n${said()}`);
  }

  async #sendNext(client: Http2Client): Promise<boolean> {
    const number = ++this.#last;
    if ((await this.send(client, 'ledger', 'quickly', number)) === 200) this.answered.add(number);
    else this.unknown.add(number);
    return this.answered.has(number);
  }

  /** Sends a number until it is answered, or until nobody knows what has become of it: then resolves to 0 or to 502. */
  async send(client: Http2Client, actor: string, method: string, number: number): Promise<number> {
    for (;;) {
      const request = client.request('POST', `/call-json/${actor}/${method}`, { body: `[${number}]` });
      const { status, body } = await request.catch(() => ({ status: 0, body: '' }));
      assert.ok([0, 200, 502, 503].includes(status), `${status} ${body}`);
      if (status !== 503) return status;
      // A server stops, starts or waits: nothing was begun, and everybody may send it again.
      assert.match(body, /^starting: |shutting down|server is stopping/);
      this.refusals++;
      await sleep(20);
    }
  }
}

/** Returns how often each number was executed. */
async function executions(host: Host, actor: string): Promise<ReadonlyMap<number, number>> {
  const { status, body } = await host.server.post(`/query-json/${actor}/all`);
  assert.equal(status, 200, body);
  const [entries = []] = JSON.parse(body) as readonly (readonly (readonly [number, number])[])[];
  return new Map(entries);
}

/** Resolves to the number of times that a call was executed whose server is killed while it is under way. */
async function killUnderSlowCall(t: TestContext, kind: ProxyKind, change?: (text: string) => string) {
  const namespace = `${kind}${change === undefined ? '' : '-planted'}`;
  const ports = [await freePort(), await freePort()] as const;
  const owner = await start(t, namespace, ports[0], 'ready');
  const standby = await start(t, namespace, ports[1], 'listening');
  const proxy = await startProxy(t, kind, ports, change);
  await sleep(SETTLED_MS);
  const clients = new Clients(proxy.port);
  await using client = await Http2Client.connect(proxy.port);
  assert.equal(await clients.send(client, 'ledger', 'quickly', 0), 200);
  clients.answered.add(0);
  const running = Promise.all(Array.from({ length: CLIENTS }, () => clients.run()));
  // Leaves a failure to those who wait for it.
  running.catch(() => undefined);
  await clients.more(ANSWERS, proxy.printed);
  const refusedBefore = clients.refusals;
  const slow = clients.send(client, 'slow', 'slowly', 1);
  // Lines come when what their message did is kept.
  await owner.until(async () => assert.match((await owner.server.get('/logs/slow')).body, /counted/));
  await owner.server.kill();
  await standby.ready();
  await clients.more(ANSWERS, proxy.printed);
  const slowStatus = await slow;
  const slowly = (await executions(standby, 'slow')).get(1);
  return { clients, running, ports, namespace, proxy, standby, refusedBefore, slowStatus, slowly };
}

function checkCounts(counts: ReadonlyMap<number, number>, { answered, unknown }: Clients): void {
  for (const [number, count] of counts) {
    assert.equal(count, 1, `number ${number} was executed ${count} times`);
    assert.ok(answered.has(number) || unknown.has(number), `number ${number} was never sent, or was refused`);
  }
  for (const number of answered) assert.ok(counts.has(number), `number ${number} was answered, and is lost`);
}

/** Starts a server that is ready and answers one POST; of the others it dies, by the end or a reset of connections. */
async function startMortal(t: TestContext, how: 'end' | 'reset') {
  let posts = 0;
  const server = createServer((request, response) => {
    if (request.method === 'POST') posts++;
    if (request.method !== 'POST' || posts === 1) response.end('ready');
    else if (how === 'end') request.socket.end();
    else request.socket.resetAndDestroy();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, posts: () => posts };
}

/** Starts a server that takes its time to say that it is ready, as a busy one does, and answers a POST at once. */
async function startSlow(t: TestContext): Promise<number> {
  const server = createServer((request, response) => {
    if (request.method === 'POST') response.end('answered');
    else setTimeout(() => response.end('ready'), READY_AFTER_MS);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Resolves to the number of times that a POST arrives whose server dies without an answer; the client learns 502. */
async function countArrivals(t: TestContext, kind: ProxyKind, how: 'end' | 'reset', change?: (text: string) => string) {
  const { port, posts } = await startMortal(t, how);
  const proxy = await startProxy(t, kind, [await freePort(), port], change);
  await sleep(SETTLED_MS);
  await using client = await Http2Client.connect(proxy.port);
  assert.equal((await client.request('POST', '/call-json/any/thing', { body: '[]' })).status, 200, proxy.printed());
  const second = await client.request('POST', '/call-json/any/thing', { body: '[]' });
  assert.equal(second.status, 502, proxy.printed());
  return posts() - 1;
}

for (const kind of PROXIES) {
  test(`${kind}: a server that dies of a POST gets it once`, { timeout: 120_000 }, async (t) => {
    for (const how of ['end', 'reset'] as const) assert.equal(await countArrivals(t, kind, how), 1, how);
  });

  test(
    `${kind}: a server that is slow to say that it is ready still gets requests`,
    { timeout: 120_000 },
    async (t) => {
      const port = await startSlow(t);
      const proxy = await startProxy(t, kind, [await freePort(), port]);
      await sleep(SETTLED_MS);
      await using client = await Http2Client.connect(proxy.port);
      const { status, body } = await client.request('POST', '/call-json/any/thing', { body: '[]' });
      assert.deepEqual([status, body], [200, 'answered'], proxy.printed());
    },
  );

  test(`${kind}: the standby takes over, and no request is executed twice`, { timeout: 300_000 }, async (t) => {
    const run = await killUnderSlowCall(t, kind);
    const { clients, running, ports, namespace, proxy, standby } = run;
    assert.equal(run.refusedBefore, 0, 'where one server is ready, nobody is sent to the other one');
    assert.equal(run.slowStatus, 502, 'who had no answer from a dead server is told so');
    assert.equal(run.slowly, 1);

    // The killed one comes back as a standby, to which nobody is sent either.
    const back = await start(t, namespace, ports[0], 'listening');
    await sleep(SETTLED_MS);
    const refusedBefore = clients.refusals;
    await clients.more(ANSWERS, proxy.printed);
    assert.equal(clients.refusals, refusedBefore);
    // A stop in order hands over at once, and loses no answer.
    assert.equal(await standby.server.stop(), 0, standby.server.output.stderr);
    await back.ready();
    await clients.more(ANSWERS, proxy.printed);
    clients.end();
    await running;
    checkCounts(await executions(back, 'ledger'), clients);
    t.diagnostic(
      `${clients.answered.size} answered, ${clients.unknown.size} unknown, ${clients.refusals} refused as not begun`,
    );
  });
}

/** Mistakes that make a proxy repeat what may have been executed. */
const MISTAKES: readonly (readonly [ProxyKind, string, (text: string) => string])[] = [
  ['haproxy', 'without the inner connection', (text) => text.replace('_backend svc_inside', '_backend svc_servers')],
  [
    'nginx',
    'that passes on POST after errors',
    (text) =>
      text
        .replaceAll('fail_timeout=1s', 'max_fails=0')
        // On a kept connection nginx would try once more, find nobody and answer 502: then nobody sends it again.
        .replace('max_fails=0;\n  keepalive 16;', 'max_fails=0 backup;')
        .replace('proxy_request_buffering off', 'proxy_request_buffering on')
        .replace('proxy_pass http://$svc_server;', 'proxy_pass http://svc_servers;')
        .replace('proxy_next_upstream off;', 'proxy_next_upstream error http_502 http_503 non_idempotent;'),
  ],
];
for (const [kind, how, change] of MISTAKES) {
  test(`${kind} ${how} repeats a call, and that is seen`, { timeout: 300_000 }, async (t) => {
    const { clients, running, slowly } = await killUnderSlowCall(t, kind, change);
    clients.end();
    await running;
    assert.equal(slowly, 2);
  });
}

test('haproxy that uses its inner connection twice sends a POST twice, and that is seen', async (t) => {
  const change = (text: string): string => text.replace('  option http-server-close\n', '');
  assert.ok((await countArrivals(t, 'haproxy', 'reset', change)) > 1);
});
