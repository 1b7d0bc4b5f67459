/** Actors that would never stop are deleted with their calls: in memory, with a state directory, across SIGKILL. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { type Actor, type Failure, type Host, startHost } from '../semantics/host.ts';
import { Deployment } from './deployment.ts';

const SPINNER = `
  import Cycles "mo:core/Cycles";
  import Error "mo:core/Error";
  persistent actor Self {
    type Peer = actor { hold : Nat -> async Nat; spin : Nat -> async () };
    var held = true;
    var rounds = 0;
    var answers = 0;
    func peer(p : Principal) : Peer = actor (debug_show p) : Peer;
    func step() : async () {};

    // Without end: a call is always open, also while it is stopping, when those to itself are refused.
    public func spin(accepted : Nat) : async () {
      ignore Cycles.accept<system>(accepted);
      loop { rounds += 1; try { await step() } catch _ {} };
    };
    public func hold(accepted : Nat) : async Nat {
      ignore Cycles.accept<system>(accepted);
      while (held) { rounds += 1; try { await step() } catch _ {} };
      rounds;
    };
    public func release() : async () { held := false };
    public func awaitThere(p : Principal, attached : Nat, accepted : Nat) : async () {
      ignore await (with cycles = attached) peer(p).hold(accepted);
      answers += 1;
    };
    public func trySpinThere(p : Principal, attached : Nat, accepted : Nat) : async { code : Text; message : Text } {
      try {
        await (with cycles = attached) peer(p).spin(accepted);
        { code = "none"; message = "" };
      } catch (e) {
        answers += 1;
        { code = debug_show (Error.code(e)); message = Error.message(e) };
      };
    };
    public query func seen() : async { rounds : Nat; answers : Nat } { { rounds; answers } };
    system func heartbeat() : async () { rounds += 1 };
  };`;

interface Seen {
  readonly rounds: number;
  readonly answers: number;
}
/** Deletions one after the other. */
const ROUNDS = 2;
const TRILLION = 1_000_000_000_000n;
/** Bound of the messages' own cost; messages that spin while the machine is busy cost much. */
const PRICE_MAX = 500_000_000_000n;

const seen = async (host: Host, actor: Actor): Promise<Seen> => (await host.query(actor, 'seen')) as Seen;
const spins = (host: Host, actor: Actor): Promise<void> =>
  host.until(async () => assert.ok((await seen(host, actor)).rounds > 3));
/** Resolves to the final answer for a call that never ends, or to undefined if the server dies before. */
const endOf = (call: Promise<Failure>): Promise<Failure | undefined> => call.catch(() => undefined);

async function forceDelete(host: Host, actor: Actor): Promise<void> {
  const response = await host.server.fetch(`/actors/${actor.name}?force=true`, { method: 'DELETE' });
  assert.deepEqual([response.status, await response.text()], [200, 'deleted']);
}

async function near(host: Host, actor: Actor, expected: bigint, what: string): Promise<void> {
  await host.until(async () => {
    const lost = expected - (await host.balance(actor));
    assert.ok(lost >= 0n && lost < PRICE_MAX, `${what}: ${actor.name} has ${lost} less than expected`);
  });
}

for (const mode of ['in memory', 'with --state', 'with a log', 'with one live actor']) {
  test(`an actor in an endless await loop is deleted with its calls, ${mode}`, async () => {
    const args = mode === 'in memory' ? [] : ['--state', await temporaryDirectory()];
    if (mode === 'with a log') args.push('--snapshot-below', '0');
    if (mode === 'with one live actor') args.push('--live-cap', '1');
    const host = await startHost({ args });
    const { wasm } = await compileMotoko(SPINNER);
    const [a, b, c] = [await host.install('a', wasm), await host.install('b', wasm), await host.install('c', wasm)];
    const before = { a: await host.balance(a), c: await host.balance(c) };

    // The open calls come from a client, from another actor (10 trillion cycles, 4 of them accepted), and from the
    // actor itself to one that does not answer yet.
    const client = endOf(host.failure(b, 'spin', [0]));
    const caller = host.call(a, 'trySpinThere', [b.principal, Number(10n * TRILLION), Number(4n * TRILLION)]);
    const outgoing = endOf(host.failure(b, 'awaitThere', [c.principal, Number(9n * TRILLION), Number(2n * TRILLION)]));
    await spins(host, b);
    await spins(host, c);
    const upgrade = host.change(b, 'upgrade', wasm);
    await host.until(async () => assert.equal(await host.status(b), 'stopping'));
    const stopping = host.change(b, 'stop');
    const refused = await host.change(b, 'delete');
    assert.equal(refused.status, 400);
    assert.match(refused.body, /is stopping: POST \/stop\/b-\d+ first, or end its open calls with \?force=true/);

    await forceDelete(host, b);
    for (const waiting of [client, outgoing]) {
      const { status, code, message } = (await waiting) ?? {};
      assert.deepEqual([status, code], [400, 4]);
      assert.match(message ?? '', /^Canister .* was deleted$/);
    }
    const { code, message } = (await caller) as { code: string; message: string };
    assert.deepEqual([code, message], ['#canister_reject', `Canister ${b.principal} was deleted`]);
    for (const { status, body } of [await upgrade, await stopping]) {
      assert.equal(status, 503, body);
      assert.match(body, /the canister is deleted/);
    }
    assert.equal(await host.status(b), 'deleted');
    assert.equal((await host.server.post(`/call-json/${b.name}/release`, '[]')).status, 404);
    await near(host, a, before.a - 4n * TRILLION, 'what was not accepted came back');

    // The called actor goes on, and its answer reaches nobody.
    await host.call(c, 'release');
    await near(host, c, before.c + 2n * TRILLION, 'it keeps what it accepted');
    for (const actor of [a, c]) assert.equal((await host.change(actor, 'stop')).body, 'stopped');
    assert.equal((await host.change(c, 'start')).body, 'started');
    const { code: gone, message: where } = (await (async () => {
      await host.change(a, 'start');
      return host.call(a, 'trySpinThere', [b.principal, 5, 5]);
    })()) as { code: string; message: string };
    assert.deepEqual([gone, where], ['#destination_invalid', `No route to canister ${b.principal}`]);
    assert.equal((await host.install('b', wasm)).name.startsWith('b-'), true);
    assert.equal(await host.server.stop(), 0);
  });
}

for (const args of [[], ['--snapshot-below', '0']]) {
  test(`what was deleted by force stays deleted after SIGKILL, and nobody waits for it (${args.join(' ') || 'no flags'})`, async (t) => {
    const { wasm } = await compileMotoko(SPINNER);
    const deployment = await Deployment.create(t, { args: ['--heartbeat-ms', '50', ...args] });
    let host = await deployment.start();
    const [a, c] = [await deployment.install('a', wasm), await deployment.install('c', wasm)];
    const balance = await host.balance(a);
    for (let round = 1; round <= ROUNDS; round++) {
      const b = await deployment.install(`b${round}`, wasm);
      const calls = [
        endOf(host.failure(b, 'spin', [0])),
        endOf(host.failure(b, 'awaitThere', [c.principal, 1_000_000, 0])),
        endOf(host.failure(a, 'trySpinThere', [b.principal, Number(10n * TRILLION), Number(TRILLION)])),
      ];
      await spins(host, b);
      await host.until(async () => assert.ok((await seen(host, c)).rounds > 0));
      // The actor's calls are stored by now; in the last round they come from a server that was killed before.
      if (round === ROUNDS) {
        await deployment.kill();
        host = await deployment.start();
        await spins(host, b);
      }
      await forceDelete(host, b);
      await deployment.kill();
      await Promise.all(calls);
      host = await deployment.start();
      assert.equal(await host.status(b), 'deleted');
      assert.equal((await host.server.post(`/call-json/${b.name}/release`, '[]')).status, 404);
      await host.until(async () => assert.equal((await seen(host, a)).answers, round, 'its caller was answered, once'));
      await near(host, a, balance - BigInt(round) * TRILLION, 'it paid what was accepted');
    }
    await host.call(c, 'release');
    for (const actor of [a, c]) assert.equal((await host.change(actor, 'stop')).body, 'stopped');
    await deployment.stop();
    host = await deployment.start();
    assert.deepEqual(
      (await host.inspect()).map(({ name, status }) => [name, status]),
      [
        ['a', 'stopped'],
        ['c', 'stopped'],
      ],
    );
    await deployment.stop();
  });
}
