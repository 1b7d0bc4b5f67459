import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { MemoryService } from '../../../support/memory-service.ts';
import { send } from '../../../support/http-client.ts';
import { EventClient } from '../../../support/event-client.ts';
import { showing, writeTokens } from '../../../support/token-file.ts';
import { addCounter, startLinked, startTwo } from './servers.ts';

const ROOT = { authorization: 'Bearer root' };

suite('requests for actors of other servers', () => {
  test('are answered by the owner, by name, by id and whichever server is asked', async (t) => {
    const { service, a, b } = await startTwo(t);
    const counter = addCounter(b, service, 'far');
    addCounter(a, service, 'near');
    for (const reference of ['far', counter.idHex, 'near'])
      for (const { origin } of [a, b]) {
        const { status, text } = await send(origin, 'POST', `/call/${reference}/echo`, { body: `for ${reference}` });
        assert.deepEqual([status, text], [200, `for ${reference}`]);
      }
    assert.equal(counter.messagesByName + counter.messagesById, 4);
  });

  for (const bytes of [0, 1, 64 * 1024, 64 * 1024 + 1, 3_000_000])
    for (const isChunked of [false, true])
      test(`a body of ${bytes} bytes${isChunked ? ' in chunks' : ''} goes there and comes back`, async (t) => {
        const { service, a, b } = await startTwo(t);
        addCounter(b, service, 'far');
        const body = Buffer.alloc(bytes, 'ab☃');
        const headers = isChunked ? { 'transfer-encoding': 'chunked' } : {};
        const answer = await send(a.origin, 'POST', '/call/far/echo', { body, headers });
        assert.equal(answer.status, 200);
        assert.ok(answer.body.equals(body));
      });

  test('a body that the owner refuses ends its connection, and nothing else', async (t) => {
    const { service, a, b } = await startTwo(t);
    addCounter(b, service, 'far');
    for (const headers of [{ 'transfer-encoding': 'chunked' }, {}]) {
      const body = Buffer.alloc(9_000_000);
      const refused = await send(a.origin, 'POST', '/site/far/', { body, headers }).catch(() => undefined);
      assert.ok(refused === undefined || refused.status === 413);
      assert.equal((await send(a.origin, 'POST', '/call/far/inc')).status, 200);
    }
  });

  test('an error of the owner is handed on as it is', async (t) => {
    const { service, a, b } = await startTwo(t);
    addCounter(b, service, 'far');
    for (const [method, target] of [
      ['POST', '/call/far/boom'],
      ['POST', '/call/far/none'],
      ['GET', '/call/far/inc'],
      ['POST', '/query-json/far/inc'],
      ['GET', '/candid/far?x=1'],
    ] as const) {
      const [there, here] = [await send(b.origin, method, target), await send(a.origin, method, target)];
      assert.deepEqual([here.status, here.text], [there.status, there.text], target);
    }
  });

  test('a name that nobody has is not found, and is asked for by all who want to know at once', async (t) => {
    const service = new MemoryService(2);
    const [a] = [await startLinked(t, service, 0), await startLinked(t, service, 1)];
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(a.origin, 'POST', '/call/none/inc')));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([404]));
    assert.ok(service.asked.length <= 5, `${service.asked.length} times`);
  });

  test('a text that is no name is nobody’s, and the store is not asked for it', async (t) => {
    const { service, a } = await startTwo(t);
    for (const text of ['%00', 'a%00b', '9', '%20', 'x'.repeat(65), '%E2%98%83', "'%3B--", '..'])
      assert.equal((await send(a.origin, 'POST', `/call/${text}/inc`)).status, 404, text);
    assert.deepEqual(service.asked, []);
  });

  test('an actor of a shard without an owner is 503 owner-missing, and nothing was executed', async (t) => {
    const { service, a, b } = await startTwo(t, 3);
    addCounter(b, service, 'far');
    const { status, headers, text } = await send(a.origin, 'POST', '/call/80000200001000010101/inc');
    assert.equal(status, 503);
    assert.equal(headers['retry-after'], '1');
    assert.match(text, /shard 2.*nothing was executed/);
    service.failure = new Error('the database is away');
    const unasked = await send(a.origin, 'POST', '/call/unheard/inc');
    assert.equal(unasked.status, 503);
    assert.match(unasked.text, /the database is away/);
  });

  test('a name that has moved on is asked for again, and the request sent once', async (t) => {
    const { service, a, b } = await startTwo(t, 3);
    const c = await startLinked(t, service, 2);
    await a.cluster.forget('');
    addCounter(b, service, 'far');
    assert.equal((await send(a.origin, 'POST', '/call-json/far/inc', { body: '[]' })).text, '[1]');
    b.canisters.canisters.splice(0);
    const moved = addCounter(c, service, 'far');
    for (const _each of [1, 2]) await send(a.origin, 'POST', '/call/far/echo', { body: 'x' });
    assert.equal(moved.messagesByName, 2);
  });

  test('a large body for a name that has moved on is refused, and nothing was executed', async (t) => {
    const { service, a, b } = await startTwo(t, 3);
    const c = await startLinked(t, service, 2);
    await a.cluster.forget('');
    addCounter(b, service, 'far');
    await send(a.origin, 'POST', '/call/far/echo', { body: 'x' });
    b.canisters.canisters.splice(0);
    const moved = addCounter(c, service, 'far');
    const answer = await send(a.origin, 'POST', '/call/far/echo', { body: Buffer.alloc(1_000_000) });
    assert.deepEqual([answer.status, moved.messagesByName], [503, 0]);
    assert.equal((await send(a.origin, 'POST', '/call/far/echo', { body: Buffer.alloc(1_000_000) })).status, 200);
  });

  test('an answer that does not come because the owner ends has an unknown outcome', async (t) => {
    const { service, a, b } = await startTwo(t);
    const counter = addCounter(b, service, 'far');
    counter.held = new Promise(() => undefined);
    const asked = send(a.origin, 'POST', '/call/far/slow');
    while (counter.messagesByName === 0) await sleep(5);
    service.leave(1);
    const { status, text } = await asked;
    assert.equal(status, 503);
    assert.match(text, /outcome unknown/);
    assert.equal(counter.messagesByName, 1);
  });

  test('a query, and a call with a key, are asked again where only the connection broke', async (t) => {
    const { service, a, b } = await startTwo(t);
    const counter = addCounter(b, service, 'far');
    const sockets = new Set<Socket>();
    const opened = (message: unknown): void => void sockets.add((message as { readonly socket: Socket }).socket);
    subscribe('net.server.socket', opened);
    t.after(() => unsubscribe('net.server.socket', opened));
    const askAndCut = async (path: string, headers = {}): Promise<readonly [status: number, times: number]> => {
      const before = counter.messagesByName;
      const { promise, resolve } = Promise.withResolvers<void>();
      counter.held = promise;
      const asked = send(a.origin, 'POST', path, { headers });
      while (counter.messagesByName === before) await sleep(5);
      const address = service.owners[1]?.address;
      for (const socket of sockets) if (`${socket.localAddress}:${socket.localPort}` === address) socket.destroy();
      while (counter.messagesByName < before + 2 && (await Promise.race([asked, sleep(5)])) === undefined);
      resolve();
      return [(await asked).status, counter.messagesByName - before];
    };
    assert.deepEqual(await askAndCut('/query/far/late'), [200, 2]);
    assert.deepEqual(await askAndCut('/call/far/slow', { 'idempotency-key': 'k' }), [200, 2]);
    assert.deepEqual(await askAndCut('/call/far/slow'), [503, 1], 'it may have been executed');
  });

  test('streams are handed on as they come, and end with their client', async (t) => {
    const { service, a, b } = await startTwo(t);
    const counter = addCounter(b, service, 'far');
    const client = await EventClient.open(a.origin, '/watch/far/get');
    assert.equal((await client.next())?.data, '[0]');
    await send(b.origin, 'POST', '/call/far/inc');
    assert.equal((await client.next())?.data, '[1]');
    client.response.destroy();
    while (b.canisters.watchers.size > 0) await sleep(5);
    assert.equal(counter.count, 1);
  });

  test('lists have the actors of all servers, in the order of ids, and name who is missing', async (t) => {
    const { service, a, b } = await startTwo(t, 3);
    addCounter(b, service, 'far');
    addCounter(a, service, 'near');
    for (const { origin } of [a, b]) {
      const all = await send(origin, 'GET', '/actors');
      assert.deepEqual(
        (all.json() as { name: string }[]).map(({ name }) => name),
        ['near', 'far'],
      );
      assert.equal(all.headers['svc-missing-nodes'], 'shard 2: no owner');
      const limited = await send(origin, 'GET', '/inspect?limit=1');
      assert.deepEqual(
        (limited.json() as { name: string }[]).map(({ name }) => name),
        ['near'],
      );
    }
  });

  test('pages of lists are in the order of ids, wherever the actors are', async (t) => {
    const { service, a, b } = await startTwo(t);
    addCounter(a, service, 'first');
    const second = addCounter(a, service, 'second');
    addCounter(a, service, 'third');
    // As after a move: its id is that of another shard.
    a.canisters.canisters.splice(a.canisters.canisters.indexOf(second), 1);
    b.canisters.canisters.push(second);
    for (const [query, names] of [
      ['limit=2', ['first', 'second']],
      [`limit=2&after=${second.idHex}`, ['third']],
    ] as const) {
      const page = await send(a.origin, 'GET', `/inspect?${query}`);
      assert.deepEqual(
        (page.json() as { name: string }[]).map(({ name }) => name),
        names,
      );
    }
  });

  test('an actor that was installed through a server answers through that server at once', async (t) => {
    const { a } = await startTwo(t);
    const names = Array.from({ length: 10 }, (_none, number) => `new-${number}`);
    for (const name of names) {
      assert.equal((await send(a.origin, 'POST', `/call/${name}/inc`)).status, 404);
      assert.equal((await send(a.origin, 'POST', `/install/${name}`, { body: 'x' })).status, 200);
      assert.equal((await send(a.origin, 'POST', `/call/${name}/inc`)).status, 200);
    }
  });

  test('a new actor goes to the shards in turn', async (t) => {
    const { a, b } = await startTwo(t);
    for (const name of ['one', 'two', 'three', 'four'])
      assert.equal((await send(a.origin, 'POST', `/install/${name}`, { body: 'x' })).status, 200);
    assert.deepEqual(
      [a, b].map(({ canisters }) => canisters.installed.map(({ name }) => name)),
      [
        ['one', 'three'],
        ['two', 'four'],
      ],
    );
  });
});

suite('rights of forwarded requests', () => {
  test('are those that the first server has found, and the token stays there', async (t) => {
    const service = new MemoryService(2);
    const tokensFile = await writeTokens({
      one: { may: ['call:far'], caller: '2vxsx-fae' },
      two: { may: ['call:near'] },
    });
    const a = await startLinked(t, service, 0, { token: 'root', tokensFile });
    const b = await startLinked(t, service, 1, { token: 'another' });
    await a.cluster.forget('');
    addCounter(b, service, 'far');
    const call = (headers: Record<string, string>) => send(a.origin, 'POST', '/call/far/echo', { headers, body: 'x' });
    assert.equal((await call({})).status, 401);
    assert.equal((await call({ authorization: 'Bearer another' })).status, 401);
    assert.equal((await call(ROOT)).status, 200);
    assert.equal((await call(showing('one'))).status, 200);
    assert.equal((await call(showing('two'))).status, 403);
    assert.equal((await send(b.origin, 'POST', '/call/far/echo', { headers: ROOT })).status, 401);
  });

  test('an open method answers strangers through every server', async (t) => {
    const { service, a, b } = await startTwo(t, 2, { token: 'root' });
    const counter = addCounter(b, service, 'far');
    assert.equal((await send(a.origin, 'POST', '/call/far/echo')).status, 401);
    counter.openMethods = { names: new Set(['echo']), isOfManifest: false };
    assert.equal((await send(a.origin, 'POST', '/call/far/echo')).status, 200);
    assert.equal((await send(a.origin, 'POST', '/call/far/inc')).status, 401);
  });

  test('a client cannot bring a verdict of its own', async (t) => {
    const { service, a, b } = await startTwo(t, 2, { token: 'root' });
    addCounter(b, service, 'far');
    const headers = { 'svc-link-verdict': 'whole' };
    for (const { origin } of [a, b])
      assert.equal((await send(origin, 'POST', '/call/far/echo', { headers })).status, 401);
  });
});

suite('a server that stops', () => {
  test('says so with its answers, and is asked nothing more: no outcome is unknown', async (t) => {
    const { service, a, b } = await startTwo(t);
    const counter = addCounter(b, service, 'far');
    const answers: { status: number; text: string }[] = [];
    let isOver = false;
    const clients = Array.from({ length: 20 }, async () => {
      while (!isOver) answers.push(await send(a.origin, 'POST', '/call/far/echo', { body: 'x' }));
    });
    while (answers.length < 200) await sleep(1);
    const closed = b.server.close();
    while (answers.every(({ status }) => status === 200)) await sleep(1);
    await closed;
    isOver = true;
    await Promise.all(clients);
    const lost = answers.filter(({ text }) => text.includes('outcome unknown'));
    assert.deepEqual(lost, []);
    assert.equal(answers.filter(({ status }) => status === 200).length, counter.messagesByName);
  });
});
