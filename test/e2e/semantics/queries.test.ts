/**
 * Queries, composite queries, inspection of messages, methods that are not for clients, and an actor's view of its
 * surroundings.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { compileActor, PERSISTENCE, sharedHost, STRANGER } from './host.ts';

const actorFile = (name: string): string => fileURLToPath(new URL(`./actors/${name}.mo`, import.meta.url));

for (const persistence of PERSISTENCE) {
  suite(`queries with ${persistence} persistence`, () => {
    test('what a query changes is gone, also when it is called as an update', async () => {
      const host = await sharedHost();
      const a = await host.install('a', await compileActor('Peer', persistence));
      await host.call(a, 'add', [5]);
      assert.equal(await host.query(a, 'addInQuery', [10]), 15);
      assert.equal(await host.query(a, 'addInQuery', [10]), 15);
      assert.equal(await host.call(a, 'addInQuery', [10]), 15);
      assert.equal(await host.call(a, 'get'), 5);
      const refused = await host.failure(a, 'add', [1], { isQuery: true });
      assert.equal(refused.status, 400);
    });

    test('a composite query reaches over three actors, each with its own state, all of it thrown away', async () => {
      const host = await sharedHost({ args: ['--executors', '2'] });
      const module = await compileActor('Peer', persistence);
      const [a, b, c] = [
        await host.install('a', module),
        await host.install('b', module),
        await host.install('c', module),
      ];
      for (const [actor, n] of [
        [a, 100],
        [b, 200],
        [c, 300],
      ] as const) {
        await host.call(actor, 'add', [n]);
      }
      // c answers 301; b 202 · 1000 + 301; a 102 · 1000 + b's answer.
      assert.equal(await host.query(a, 'tree', [[b.principal, c.principal]]), 102_000 + 202_000 + 301);
      assert.equal(await host.query(a, 'tree', [[b.principal, c.principal]]), 102_000 + 202_000 + 301);
      assert.deepEqual(await host.query(a, 'readAll', [[b.principal, c.principal, b.principal]]), [200, 300, 200]);
      assert.equal(await host.query(a, 'readOneself'), 100, 'an actor reached again has its committed state');
      for (const [actor, n] of [
        [a, 100],
        [b, 200],
        [c, 300],
      ] as const) {
        assert.equal(await host.query(actor, 'get'), n);
      }
      const asUpdate = await host.failure(a, 'tree', [[]]);
      assert.equal(asUpdate.status, 400);
      const missing = await host.failure(a, 'tree', [['yfvjk-meaaa-aaaah-7777q-cai']], { isQuery: true });
      assert.equal(missing.status, 400);
      const tooDeep = await host.failure(a, 'tree', [Array.from({ length: 30 }, () => b.principal)], { isQuery: true });
      assert.match(tooDeep.message, /deep/);
      assert.equal(await host.call(a, 'add', [1]), 101);
    });

    test('inspection accepts, refuses and traps before an update from a client, and leaves no trace', async () => {
      const host = await sharedHost();
      const guard = await host.install('guard', await compileActor('Guard', persistence));
      assert.equal(await host.call(guard, 'open', [5]), 5);
      for (const [method, args] of [
        ['open', [10]],
        ['closed', []],
        ['faulty', []],
      ] as const) {
        const refused = await host.failure(guard, method, args);
        assert.equal(refused.status, 400, `${method}: ${refused.message}`);
      }
      assert.equal(await host.call(guard, 'closed', [], { caller: STRANGER }), 105);
      assert.equal(await host.query(guard, 'get'), 105);
      assert.equal(await host.call(guard, 'readable'), 0, 'the inspection kept nothing');
    });

    test("the actor's own methods are hidden from clients", async () => {
      const host = await sharedHost();
      const a = await host.install('a', await compileActor('Peer', persistence));
      for (const [endpoint, body, refusal] of [
        ['call', Buffer.from('4449444c0000', 'hex'), /./],
        ['call-json', '[]', /does not describe method/],
      ] as const) {
        const helper = `/${endpoint}/${a.name}/__motoko_async_helper`;
        const as = async (caller: string): Promise<{ status: number; body: string }> =>
          host.server.post(helper, body, { 'x-caller': caller });
        assert.equal((await as(STRANGER)).status, 404, endpoint);
        const self = await as(a.principal);
        assert.equal(self.status, 400);
        assert.match(self.body, /in the name of the actor itself/);
        const asController = await as('2vxsx-fae');
        assert.equal(asController.status, 400, 'the actor itself refuses it');
        assert.match(asController.body, refusal);
      }
    });
  });
}

suite('an actor and the manifest it comes from', () => {
  const manifest = {
    actors: {
      'main-one': { main: actorFile('Surroundings'), env: { GREETING: 'hello', EMPTY: '' } },
      peer: { main: actorFile('Peer') },
    },
  };

  test('it sees its variables and where the others are, and imports one of them by name', async () => {
    const host = await sharedHost({ manifest });
    const [one, peer] = [await host.find('main-one'), await host.find('peer')];
    assert.deepEqual(((await host.call(one, 'names')) as string[]).toSorted(), [
      'EMPTY',
      'GREETING',
      'PUBLIC_CANISTER_ID:main-one',
      'PUBLIC_CANISTER_ID:peer',
    ]);
    assert.equal(await host.call(one, 'variable', ['GREETING']), 'hello');
    assert.equal(await host.call(one, 'variable', ['PUBLIC_CANISTER_ID:peer']), peer.principal);
    assert.equal(await host.call(one, 'variable', ['NONE']), null);
    assert.equal(await host.call(one, 'peerId'), peer.principal);
    const before = Number(await host.query(peer, 'get'));
    assert.equal(await host.call(one, 'addToPeer', [5]), before + 5);
    assert.equal(await host.query(peer, 'get'), before + 5);
  });

  test("an upgrade without a body compiles the manifest's file again and keeps the state", async () => {
    const host = await sharedHost({ manifest });
    const peer = await host.find('peer');
    const count = Number(await host.call(peer, 'add', [3]));
    assert.deepEqual(await host.change(peer, 'upgrade'), { status: 200, body: 'upgraded' });
    assert.equal(await host.query(peer, 'get'), count);
    assert.equal((await host.change(await host.find('main-one'), 'upgrade')).body, 'upgraded');
    assert.equal(await host.call(await host.find('main-one'), 'addToPeer', [4]), count + 4);
  });
});
