/**
 * Operators' changes of actors over HTTP: upgrade, reinstall, stop, start, delete; and actors that make such changes.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { compileMotoko } from '../../support/motoko.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { compileActor, PERSISTENCE, sharedHost, startHost, STRANGER } from './host.ts';

const MOTOKO = new URL('../../fixtures/motoko/', import.meta.url);

for (const persistence of PERSISTENCE) {
  suite(`life cycle with ${persistence} persistence`, () => {
    test('an upgrade keeps stable variables, runs both hooks and drops transient ones', async () => {
      const host = await sharedHost();
      const store = await host.install('store', await compileActor('Store', persistence));
      await host.call(store, 'put', ['apple']);
      await host.call(store, 'put', ['pear']);
      const upgraded = await host.change(store, 'upgrade', gzipSync(await compileActor('Store2', persistence)));
      assert.deepEqual(upgraded, { status: 200, body: 'upgraded' });
      assert.deepEqual(await host.query(store, 'get'), { count: 2, words: ['apple', 'pear', null], session: 0 });
      assert.equal(await host.query(store, 'version'), 'two');
      assert.equal(await host.query(store, 'addition'), 'new in two');
      assert.equal((await host.server.get(`/logs/${store.name}`)).body, 'one: before\ntwo: after\n');
      assert.equal(await host.call(store, 'put', ['plum']), 3);
      assert.equal((await host.find(store.name)).principal, store.principal);
    });

    test('an upgrade whose hook traps changes nothing, and says what was printed', async () => {
      const host = await sharedHost();
      const store = await host.install('store', await compileActor('Store', persistence));
      await host.call(store, 'put', ['apple']);
      const failed = await host.change(store, 'upgrade', await compileActor('StoreFalls', persistence));
      assert.equal(failed.status, 400);
      const { code, message, logs } = JSON.parse(failed.body) as { code: number; message: string; logs: string[] };
      assert.equal(code, 5);
      assert.match(message, /cannot take over/);
      assert.deepEqual(logs.slice(0, 2), ['one: before', 'falling']);
      assert.equal(await host.query(store, 'version'), 'one');
      assert.deepEqual(await host.query(store, 'get'), { count: 1, words: ['apple', null, null], session: 1 });
      assert.equal(await host.call(store, 'put', ['pear']), 2);
      assert.equal((await host.change(store, 'upgrade', await compileActor('Store2', persistence))).body, 'upgraded');
      assert.deepEqual(await host.query(store, 'get'), { count: 2, words: ['apple', 'pear', null], session: 0 });
    });

    test('a reinstallation starts afresh under the same id; one that fails leaves what was there', async () => {
      const host = await sharedHost();
      const store = await host.install('store', await compileActor('Store', persistence));
      await host.call(store, 'put', ['apple']);
      const broken = await host.server.post(
        `/install/${store.name}?mode=reinstall`,
        Uint8Array.of(0, 0x61, 0x73, 0x6d),
      );
      assert.equal(broken.status, 400);
      // Item(666) traps in its initialiser: DIDL, no types, one nat.
      const item = await compileActor('Item', persistence);
      const trapped = await host.server.post(`/install/${store.name}?mode=reinstall&arg=0x4449444c00017d9a05`, item);
      assert.equal(trapped.status, 400);
      assert.match(trapped.body, /no such item/);
      assert.deepEqual(await host.query(store, 'get'), { count: 1, words: ['apple', null, null], session: 1 });
      const done = await host.server.post(`/install/${store.name}?mode=reinstall&arg=0x4449444c00017d2a`, item);
      assert.deepEqual(done, { status: 200, body: Buffer.from(store.id).toString('hex') });
      assert.deepEqual(await host.query(store, 'get'), { count: 42, extra: 42 });
    });

    test('an actor with an open call is stopped, upgraded and started', async () => {
      const host = await sharedHost();
      const module = await compileActor('Peer', persistence);
      const a = await host.install('a', module);
      const b = await host.install('b', module);
      await host.call(a, 'add', [4]);
      const holding = host.call(a, 'tryHold', [b.principal]);
      await host.until(async () => assert.equal(await host.query(b, 'holding'), 1));
      const upgrading = host.change(a, 'upgrade', module);
      await host.until(async () => assert.equal(await host.status(a), 'stopping'));
      assert.match((await host.failure(a, 'add', [1])).message, /stopp/i);
      await host.call(b, 'release');
      assert.deepEqual(await holding, { code: 'ok', message: '0' });
      assert.deepEqual(await upgrading, { status: 200, body: 'upgraded' });
      assert.equal(await host.status(a), 'running');
      assert.equal(await host.call(a, 'add', [1]), 5);
    });

    test('actor classes: an actor makes others, upgrades them and starts them afresh', async () => {
      const host = await sharedHost();
      const maker = await host.install('maker', await compileActor('Maker', persistence, ['Item']));
      const before = await host.balance(maker);
      const principal = await host.call(maker, 'make', [7, 2_000_000_000_000]);
      const made = (await host.inspect()).find((actor) => actor.principal === principal);
      assert.ok(made);
      assert.equal(made.name, made.id, 'its name is its id');
      const paid = before - (await host.balance(maker));
      assert.ok(paid >= 2_000_000_000_000n, `${paid} were paid`);
      assert.equal(await host.call(maker, 'add', [3]), 10);
      assert.deepEqual(await host.call(maker, 'read'), { count: 10, extra: 7 });
      assert.equal(await host.call(maker, 'upgrade', [20]), principal);
      assert.deepEqual(await host.call(maker, 'read'), { count: 10, extra: 20 });
      assert.equal(await host.call(maker, 'reinstall', [30]), principal);
      assert.deepEqual(await host.call(maker, 'read'), { count: 30, extra: 30 });
      assert.match(String(await host.call(maker, 'tryMake', [666])), /no such item/);
      assert.notEqual(await host.call(maker, 'makeWith', [1, [maker.principal, STRANGER]]), principal);
      assert.equal(
        (await host.server.post(`/upgrade/${made.id}`, '')).body,
        '{"code":400,"message":"no wasm recorded for that actor"}',
      );
    });
  });
}

suite('changing between the modes of persistence', () => {
  // Motoko itself refuses the first way unless the module was compiled with an explicit flag; the host refuses the
  // second.
  for (const [from, to, reason] of [
    ['classical', 'enhanced', /implicit upgrade from classical orthogonal persistence/],
    ['enhanced', 'classical', /keeps its state in its heap/],
  ] as const) {
    test(`from ${from} to ${to} is refused and changes nothing`, async () => {
      const host = await sharedHost();
      const store = await host.install('store', await compileActor('Store', from));
      await host.call(store, 'put', ['apple']);
      const refused = await host.change(store, 'upgrade', await compileActor('Store2', to));
      assert.equal(refused.status, 400);
      assert.match(refused.body, reason);
      assert.deepEqual(await host.query(store, 'get'), { count: 1, words: ['apple', null, null], session: 1 });
      assert.equal(await host.call(store, 'put', ['pear']), 2);
    });
  }

  test('a module that says so takes up the state of a classical one, and keeps its heap from then on', async () => {
    const host = await sharedHost();
    const source = await readFile(new URL('migrating-store.mo', MOTOKO), 'utf8');
    const migrating = await readFile(new URL('migrating-store.wasm.gz', MOTOKO));
    // Today's compiler requires the word.
    const today = source.replace('\nactor {', '\npersistent actor {');
    const { wasm: classical } = await compileMotoko(today, { persistence: 'classical' });
    const store = await host.install('store', classical);
    for (const word of ['apple', 'pear']) await host.call(store, 'put', [word]);
    const upgraded = async (): Promise<unknown> => {
      const { status, body } = await host.server.post(`/upgrade/${store.name}?report=1`, migrating);
      assert.equal(status, 200, body);
      return (JSON.parse(body) as { persistence: unknown }).persistence;
    };
    assert.equal(await upgraded(), 'replace');
    assert.deepEqual(await host.query(store, 'get'), [2, ['pear']]);
    assert.equal(await host.call(store, 'put', ['plum']), 3);
    assert.equal(await upgraded(), 'keep');
    assert.deepEqual(await host.query(store, 'get'), [3, ['plum']]);
    // There is no way back.
    const back = await host.change(store, 'upgrade', classical);
    assert.equal(back.status, 400);
    assert.match(back.body, /keeps its state in its heap/);
    assert.deepEqual(await host.query(store, 'get'), [3, ['plum']]);
  });
});

suite('stopping, starting and deleting', () => {
  test('a stopped actor refuses calls and queries until it is started, and keeps its state', async () => {
    const host = await sharedHost();
    const a = await host.install('a', await compileActor('Peer'));
    await host.call(a, 'add', [4]);
    assert.deepEqual(await host.change(a, 'stop'), { status: 200, body: 'stopped' });
    assert.deepEqual(await host.change(a, 'stop'), { status: 200, body: 'stopped' });
    assert.equal(await host.status(a), 'stopped');
    for (const failed of [await host.failure(a, 'add', [1]), await host.failure(a, 'get', [], { isQuery: true })]) {
      assert.deepEqual([failed.status, failed.code], [400, 5]);
      assert.match(failed.message, /stopped/i);
    }
    assert.deepEqual(await host.change(a, 'start'), { status: 200, body: 'started' });
    assert.deepEqual(await host.change(a, 'start'), { status: 200, body: 'started' });
    assert.equal(await host.call(a, 'add', [1]), 5);
  });

  test('stopping waits for open calls of the actor; starting it meanwhile ends the wait', async () => {
    const host = await sharedHost();
    const module = await compileActor('Peer');
    const a = await host.install('a', module);
    const b = await host.install('b', module);
    const holding = host.call(a, 'tryHold', [b.principal]);
    await host.until(async () => assert.equal(await host.query(b, 'holding'), 1));
    const stopping = host.change(a, 'stop');
    await host.until(async () => assert.equal(await host.status(a), 'stopping'));
    assert.equal((await host.change(a, 'delete')).status, 400);
    assert.equal((await host.change(a, 'start')).body, 'started');
    const cancelled = await stopping;
    assert.equal(cancelled.status, 503, cancelled.body);
    assert.equal(await host.call(a, 'add', [2]), 2);
    const again = host.change(a, 'stop');
    await host.until(async () => assert.equal(await host.status(a), 'stopping'));
    await host.call(b, 'release');
    assert.deepEqual(await again, { status: 200, body: 'stopped' });
    assert.deepEqual(await holding, { code: 'ok', message: '0' });
  });

  test('an actor that calls itself without end is stopped, for its calls to itself are refused then', async () => {
    const host = await sharedHost();
    const a = await host.install('a', await compileActor('Peer'));
    const holding = host.failure(a, 'hold');
    await host.until(async () => assert.equal(await host.query(a, 'holding'), 1));
    assert.deepEqual(await host.change(a, 'stop'), { status: 200, body: 'stopped' });
    assert.match((await holding).message, /stopp/i);
  });

  test('a deleted actor is gone with its name, its id and its state; its id is not given again', async () => {
    const host = await sharedHost();
    const module = await compileActor('Peer');
    const a = await host.install('a', module);
    await host.call(a, 'add', [4]);
    await host.change(a, 'stop');
    const deleted = await host.change(a, 'delete');
    assert.deepEqual(deleted, { status: 200, body: 'deleted' });
    for (const reference of [a.name, Buffer.from(a.id).toString('hex'), a.principal]) {
      assert.equal((await host.server.post(`/call-json/${reference}/add`, '[1]')).status, 404, reference);
      assert.equal((await host.server.post(`/stop/${reference}`, '')).status, 404, reference);
    }
    assert.doesNotMatch((await host.server.get('/actors')).body, new RegExp(`"${a.name}"`));
    const again = await host.install('a', module);
    assert.notEqual(again.principal, a.principal);
    assert.equal(await host.query(again, 'get'), 0);
  });
});

for (const storage of ['in memory', 'with --state', 'with --state, of its log alone']) {
  test(`what a failed change of code says is what its hooks printed, and nothing else, ${storage}`, async () => {
    const args = storage === 'in memory' ? [] : ['--state', await temporaryDirectory()];
    if (storage.endsWith('alone')) args.push('--snapshot-below', '0');
    const host = await startHost({ args });
    const talker = (hook: string): string => `
      import Debug "mo:core/Debug";
      import Nat "mo:core/Nat";
      persistent actor {
        public func say(text : Text) : async () { Debug.print(text) };
        public query func murmur(n : Nat) : async () {
          Debug.print("murmur " # Nat.toText(n));
          var i = 0;
          while (i < 20_000) { i += 1 };
        };
        system func preupgrade() { Debug.print("packing") };
        ${hook}
      };`;
    const { wasm } = await compileMotoko(talker(''));
    const falls = (await compileMotoko(talker('system func postupgrade() { Debug.print("falling"); assert false };')))
      .wasm;
    const dies = (await compileMotoko(talker('Debug.print("born"); assert false;'))).wasm;
    const actor = await host.install('talker', wasm);
    let read: string[] = [];
    // Reading clears the lines, and a line is there once it is durable.
    const expectLines = async (check: (lines: readonly string[]) => void): Promise<void> => {
      read = [];
      await host.until(async () => {
        read.push(...(await host.server.get(`/logs/${actor.name}`)).body.split('\n').slice(0, -1));
        check(read);
      });
    };
    const logsOf = ({ status, body }: { readonly status: number; readonly body: string }): readonly string[] => {
      assert.equal(status, 400, body);
      return (JSON.parse(body) as { logs: readonly string[] }).logs;
    };

    await host.call(actor, 'say', ['unread']);
    // These queries are still under way when the upgrade begins: stopping does not wait for queries.
    const murmurs = Promise.all(Array.from({ length: 40 }, (_, n) => host.query(actor, 'murmur', [n])));
    const logs = logsOf(await host.change(actor, 'upgrade', falls));
    assert.deepEqual(logs.slice(0, 2), ['packing', 'falling']);
    assert.equal(logs.length, 3);
    assert.match(logs[2] ?? '', /assertion failed/);
    await murmurs;
    await expectLines((lines) => {
      assert.equal(lines[0], 'unread', 'what was unread is still there');
      const rest = lines.slice(1).filter((line) => !line.startsWith('murmur'));
      // The last entry has the stack in lines of its own.
      assert.equal(rest.join('\n'), logs.join('\n'));
    });

    await host.call(actor, 'say', ['unread again']);
    const reinstalled = logsOf(await host.server.post(`/install/${actor.name}?mode=reinstall`, dies));
    assert.deepEqual([reinstalled.length, reinstalled[0]], [2, 'born']);
    await expectLines((lines) => assert.equal(lines.join('\n'), ['unread again', ...reinstalled].join('\n')));

    // No hook has run.
    await host.call(actor, 'say', ['and again']);
    const broken = await host.change(actor, 'upgrade', Uint8Array.of(0, 0x61, 0x73, 0x6d));
    assert.equal((JSON.parse(broken.body) as { logs?: unknown }).logs, undefined);
    await expectLines((lines) => assert.deepEqual(lines, ['and again']));
    assert.equal(await host.server.stop(), 0);
  });
}
