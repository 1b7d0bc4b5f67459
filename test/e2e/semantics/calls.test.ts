/** Calls between actors, in Motoko: replies, rejects and traps, the effects of each, and the cycles on the way. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type Actor, assertQuick, compileActor, type Host, PERSISTENCE, sharedHost } from './host.ts';

const NOBODY = 'yfvjk-meaaa-aaaah-7777q-cai';
/** Cycles that a test of metering may lose to the messages themselves. */
const PRICE_MAX = 10_000_000n;

interface Peers {
  readonly host: Host;
  readonly a: Actor;
  readonly b: Actor;
}

/** Makes two peers: `a` compiled one way, `b` the other. */
async function peers(isEnhanced: boolean): Promise<Peers> {
  const host = await sharedHost();
  const a = await host.install('a', await compileActor('Peer', isEnhanced ? 'enhanced' : 'classical'));
  const b = await host.install('b', await compileActor('Peer', isEnhanced ? 'classical' : 'enhanced'));
  return { host, a, b };
}

/** Returns an actor's traps as the metrics page shows them. */
async function trapsOf(host: Host, { name }: Actor): Promise<number> {
  const page = (await host.server.get('/metrics')).body;
  return Number(new RegExp(`^svc_actor_traps_total\\{actor="${name}"\\} (\\d+)$`, 'm').exec(page)?.[1]);
}

for (const persistence of PERSISTENCE) {
  suite(`calls from an actor with ${persistence} persistence to one with the other`, async () => {
    test('replies, callers, rejects and traps reach the code behind the await', async () => {
      const { host, a, b } = await peers(persistence === 'enhanced');
      assert.equal(await host.call(a, 'addThere', [b.principal, 5]), 5);
      assert.equal(await host.call(a, 'readThere', [b.principal]), 5, 'a query called by an update');
      assert.equal(await host.call(a, 'whoThere', [b.principal]), a.principal);
      assert.equal(await host.query(a, 'get'), 0);

      assert.deepEqual(await host.call(a, 'tryRefuse', [b.principal, 'not today ✗']), {
        code: 'canister_reject',
        message: 'not today ✗',
      });
      assert.equal(await host.query(b, 'get'), 6, 'a method that rejects keeps what it did');
      const trapped = (await host.call(a, 'tryBoom', [b.principal])) as { code: string; message: string };
      assert.equal(trapped.code, 'canister_error');
      assert.match(trapped.message, /boom/);
      assert.equal(await host.query(b, 'get'), 6, 'a method that traps leaves nothing');

      const direct = await host.failure(b, 'refuse', ['no']);
      assert.deepEqual(direct, { status: 400, code: 4, message: 'no' });
      const uncaught = await host.failure(a, 'addThere', [NOBODY, 1]);
      assert.deepEqual([uncaught.status, uncaught.code], [400, 4], 'an error that nobody catches is a reject');
    });

    test('a trap behind an await undoes what came after the last await, and nothing before', async () => {
      const { host, a, b } = await peers(persistence === 'enhanced');
      const failed = await host.failure(a, 'addAroundAndTrap', [b.principal, 2]);
      assert.deepEqual([failed.status, failed.code], [400, 5]);
      assert.match(failed.message, /after the second await/);
      assert.equal(await host.query(a, 'get'), 11);
      assert.equal(await host.query(b, 'get'), 4);

      await host.failure(a, 'callAndTrap', [b.principal, 50]);
      assert.equal(await host.query(a, 'get'), 11);
      assert.equal(await host.query(b, 'get'), 4, 'calls made by an execution that traps are never sent');

      assert.match((await host.failure(a, 'trapWithFinally', [b.principal])).message, /in the callback/);
      assert.equal(await host.query(a, 'get'), 16, 'the cleanup callback runs on the state before the callback');
      assert.equal(await host.call(a, 'addThere', [b.principal, 1]), 5, 'and the actor goes on');
    });

    test('one-way calls return at once and arrive, and their traps are theirs alone', async () => {
      const { host, a, b } = await peers(persistence === 'enhanced');
      assert.deepEqual(await host.call(a, 'notifyThere', [b.principal, 3]), []);
      await host.until(async () => assert.equal(await host.query(b, 'get'), 3));
      assert.deepEqual(await host.call(a, 'notifyBoomThere', [b.principal, 3]), []);
      assert.deepEqual(await host.call(b, 'notify', [4]), [], 'from a client too');
      await host.until(async () => assert.equal(await host.query(b, 'get'), 7));
      await host.change(a, 'stop');
      assert.equal(
        (await host.server.get(`/logs/${a.name}`)).body,
        '',
        'nobody is called back, and nothing is said of it',
      );
      assert.equal(await trapsOf(host, a), 0);
      assert.match(
        (await host.server.get(`/logs/${b.name}`)).body,
        /^Canister called `ic0.trap` with message: 'boom'\nCanister Backtrace:\n(ic_trap\n)?trap\n\$lambda\nnotifyBoom\n$/,
      );
      assert.equal(await trapsOf(host, b), 1);
    });

    test('calls arrive in the order they were sent, many at once', async () => {
      const { host, a, b } = await peers(persistence === 'enhanced');
      await host.call(a, 'traceThere', [b.principal, 200]);
      assert.deepEqual(
        await host.query(b, 'traced'),
        Array.from({ length: 200 }, (_, index) => index),
      );
      assert.equal(await host.call(a, 'addToSelf', [20]), 20);
      assert.equal(await host.call(a, 'addToSelfAtOnce', [100]), 120);
      assert.deepEqual(await host.call(a, 'raceWithSelf'), { before: 120, after: 127 });
    });

    test('an actor that is missing, stopped or deleted, and a method that is missing, are rejects with their codes', async () => {
      const { host, a, b } = await peers(persistence === 'enhanced');
      const codeOf = async (method: string, args: readonly unknown[]): Promise<unknown> =>
        ((await host.call(a, method, args)) as { code: string }).code;
      assert.deepEqual(await host.call(a, 'tryAdd', [NOBODY, 1]), {
        code: 'destination_invalid',
        message: `No route to canister ${NOBODY}`,
      });
      assert.equal(await codeOf('tryAbsent', [b.principal]), 'canister_error');
      assert.equal(await codeOf('tryTree', [b.principal]), 'canister_error', 'a composite query is none for updates');
      await host.change(b, 'stop');
      assert.equal(await codeOf('tryAdd', [b.principal, 1]), 'canister_error');
      await host.change(b, 'start');
      assert.equal(await codeOf('tryAdd', [b.principal, 1]), 'ok');
      await host.change(b, 'stop');
      assert.equal((await host.change(b, 'delete')).status, 200);
      assert.equal(await codeOf('tryAdd', [b.principal, 1]), 'destination_invalid');
    });

    test('attached cycles are accepted or refunded, and a reject or a missing actor refunds all', async () => {
      const { host, a, b } = await peers(persistence === 'enhanced');
      const before = { a: await host.balance(a), b: await host.balance(b) };
      const near = async (actor: Actor, expected: bigint, what: string): Promise<void> => {
        const lost = expected - (await host.balance(actor));
        assert.ok(lost >= 0n && lost < PRICE_MAX, `${what}: ${actor.name} lost ${lost} more than it gave`);
      };
      assert.deepEqual(await host.call(a, 'give', [b.principal, 1_000_000_000, 600_000_000]), {
        accepted: 600_000_000,
        refunded: 400_000_000,
      });
      await near(a, before.a - 600_000_000n, 'some were accepted');
      await near(b, before.b + 600_000_000n, 'some were accepted');
      assert.deepEqual(await host.call(a, 'give', [b.principal, 5_000, 10_000]), { accepted: 5_000, refunded: 0 });
      const { code: boom } = (await host.call(a, 'giveToBoom', [b.principal, 1_000_000_000])) as { code: string };
      assert.equal(boom, 'canister_error');
      await near(a, before.a - 600_005_000n, 'the trap gave all back');
      const { code: nobody } = (await host.call(a, 'giveToBoom', [NOBODY, 1_000_000_000])) as { code: string };
      assert.equal(nobody, 'destination_invalid');
      await near(a, before.a - 600_005_000n, 'nobody was there to take them');
      assert.deepEqual(await host.call(a, 'give', [a.principal, 7_000, 4_000]), { accepted: 4_000, refunded: 3_000 });
      await near(a, before.a - 600_005_000n, 'what it gives itself stays');
      const failed = await host.failure(a, 'giveTooMuch', [b.principal]);
      assert.equal(failed.status, 400, failed.message);
      assert.equal(await host.call(a, 'burn', [1_000_000_000]), 1_000_000_000);
      await near(a, before.a - 1_600_005_000n, 'burned');
    });

    test('a one-way method, which has answered before its body runs, sees its cycles and accepts them; the rest comes back', async () => {
      const { host, a, b } = await peers(persistence === 'enhanced');
      const before = { a: await host.balance(a), b: await host.balance(b) };
      const settles = (actor: Actor, expected: bigint): Promise<void> =>
        host.until(async () => {
          const lost = expected - (await host.balance(actor));
          assert.ok(lost >= 0n && lost < PRICE_MAX, `${actor.name} lost ${lost} more than it gave`);
        });
      await host.call(a, 'giveOneWay', [b.principal, 3_456, 1_000]);
      await host.until(async () => assert.equal(await host.query(b, 'get'), 1));
      assert.deepEqual(await host.query(b, 'taken'), { before: 3_456, accepted: 1_000, after: 2_456 });
      await host.call(a, 'giveOneWay', [b.principal, 5_000_000_000, 2_000_000_000]);
      await host.until(async () => assert.equal(await host.query(b, 'get'), 2));
      await settles(b, before.b + 2_000_000_000n);
      await settles(a, before.a - 2_000_000_000n);
      await host.call(a, 'giveOneWayToBoom', [b.principal, 5_000_000_000]);
      await settles(a, before.a - 2_000_000_000n);
      await settles(b, before.b + 2_000_000_000n);
      assert.deepEqual(await host.call(b, 'takeOneWay', [5]), [], 'a client attaches none');
      await host.until(async () => assert.equal(await host.query(b, 'get'), 3));
    });
  });
}

suite('calls that take long or are large', async () => {
  test('a best-effort call is given up at its deadline, and the one who was called goes on', async () => {
    const { host, a, b } = await peers(true);
    const beganMs = performance.now();
    // Tests of other projects look for the replica's words.
    const expected = { code: 'system_unknown', message: 'Call deadline has expired.' };
    assert.deepEqual(await host.call(a, 'tryPatiently', [b.principal, 1]), expected);
    // One second, and the machine's delay; a call that is not given up waits for `release`.
    assert.ok(performance.now() - beganMs < 60_000);
    assert.equal(await host.call(b, 'add', [1]), 1);
    await host.call(b, 'release');
  });

  test('an argument of 10 MiB less a little passes; over it, and over the limit of replies, are rejects', async () => {
    const { host, a, b } = await peers(true);
    const most = 10 * 1024 * 1024 - 100;
    assert.deepEqual(await host.call(a, 'trySize', [b.principal, most]), {
      code: 'ok',
      message: most.toLocaleString('en').replaceAll(',', '_'),
    });
    const over = await host.server.post(
      `/call-json/${a.name}/trySize`,
      JSON.stringify([b.principal, 10 * 1024 * 1024 + 1]),
    );
    assert.doesNotMatch(over.body, /"ok"/);
    const large = await host.server.post(
      `/call-json/${a.name}/tryZeros`,
      JSON.stringify([b.principal, 3 * 1024 * 1024]),
    );
    assert.doesNotMatch(large.body, /"ok"/);
    assert.equal(await host.call(a, 'addThere', [b.principal, 1]), 1);
  });

  test('two actors that call each other without end: queues stay bounded, the host and the others quick', async () => {
    const host = await sharedHost({ args: ['--executors', '2'] });
    const restless = await compileActor('Restless');
    const a = await host.install('a', restless);
    const b = await host.install('b', restless);
    const other = await host.install('other', await compileActor('Peer'));
    await host.call(a, 'ping', [b.principal]);
    const work = (async () => {
      for (let round = 0; round < 20; round++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        await host.call(other, 'add', [1]);
      }
    })();
    const tookMs = await host.healthDuring(work);
    await work;
    assertQuick(tookMs);
    await host.until(async () => {
      const { received, refused } = (await host.query(a, 'counts')) as { received: number; refused: number };
      assert.ok(received > 500, `only ${received} calls arrived`);
      assert.ok(refused > 0, 'no call was refused: the queues are not bounded');
    });
    const stopped = await Promise.all([host.change(a, 'stop'), host.change(b, 'stop')]);
    assert.deepEqual(
      stopped.map(({ body }) => body),
      ['stopped', 'stopped'],
    );
    assert.equal((await host.change(a, 'delete')).status, 200);
    assert.equal(await host.call(other, 'add', [1]), 21);
  });
});
