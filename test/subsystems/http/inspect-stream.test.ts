import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import type { HistoryEntry } from '../../../subsystems/canisters/index.ts';
import { arrived } from '../../support/arrived.ts';
import { EventClient } from '../../support/event-client.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { RawClient, send } from '../../support/http-client.ts';
import { CounterCanister, type HttpHost, type HttpHostOptions, startHttpHost } from './counter-host.ts';

const EVENTS = { accept: 'text/event-stream' };

interface Watched {
  readonly host: HttpHost;
  readonly clock: FakeClock;
  readonly client: EventClient;
  /** Moves the clock to the next round, and returns the events of a round. */
  readonly round: (events: number) => Promise<readonly (readonly [string | undefined, unknown])[]>;
}

async function watched(t: TestContext, target = '/inspect', options: HttpHostOptions = {}): Promise<Watched> {
  const clock = new FakeClock();
  const host = await startHttpHost(t, { clock, ...options });
  const client = await EventClient.open(host.origin, target, EVENTS);
  t.after(() => client.close());
  let isFirst = true;
  return {
    host,
    clock,
    client,
    async round(events) {
      if (!isFirst) clock.advance(2000);
      isFirst = false;
      const told: (readonly [string | undefined, unknown])[] = [];
      while (told.length < events) {
        // A part that waits for its turn waits by the clock.
        if (client.unread.length === 0) clock.advance(1);
        await new Promise(setImmediate);
        while (client.unread.length > 0) {
          const { event, data } = (await client.next()) ?? { event: 'closed', data: 'null' };
          told.push([event, JSON.parse(data)]);
        }
      }
      assert.equal(told.length, events);
      return told;
    },
  };
}

function entry(seq: number): HistoryEntry {
  return {
    seq,
    timeMs: 0,
    kind: 'update',
    method: 'inc',
    caller: Uint8Array.of(4),
    argument: Uint8Array.of(),
    argumentBytes: 0,
    outcome: 'reply',
    code: undefined,
    message: undefined,
    stack: undefined,
    instructions: 1,
    cycles: 1,
    ms: 1,
    trace: { number: seq, cause: 0, root: seq },
    reply: Uint8Array.of(),
    isReplyCut: false,
  };
}

const seqsOf = (entries: unknown): unknown => (entries as { seq: number }[]).map(({ seq }) => seq);
const namesOf = (actors: unknown): unknown => (actors as { name: string }[]).map(({ name }) => name);

/** Makes so many actors with a long interface. */
function crowd(host: HttpHost, count: number, interfaceBytes: number): void {
  const methods = new Map();
  for (let at = 0; at < count; at++) {
    const canister = new CounterCanister(`crowd-${at}`, 3 + (at % 250));
    canister.candid = { text: `${at} `.padEnd(interfaceBytes, 'x'), methods, initArgs: undefined };
    host.canisters.canisters.push(canister);
  }
}

suite('/inspect as a stream', () => {
  test('shows at once what /inspect answers, and again every two seconds', async (t) => {
    const { host, client, round } = await watched(t);
    assert.equal(client.response.headers['content-type'], 'text/event-stream; charset=utf-8');
    const plain = async (): Promise<unknown> => (await send(host.origin, 'GET', '/inspect')).json();
    assert.deepEqual(await round(1), [[undefined, await plain()]]);
    host.canisters.resolve('counter').balance = 7n;
    const [[, shown] = []] = await round(1);
    assert.deepEqual(shown, await plain());
    assert.equal((shown as { cycles: string }[])[0]?.cycles, '7');
  });

  test('is one job, when it has ended', async (t) => {
    const { host, client, round } = await watched(t);
    for (let rounds = 0; rounds < 5; rounds++) await round(1);
    assert.equal(host.log.events.length, 0);
    await client[Symbol.asyncDispose]();
    while (host.log.events.length === 0) await new Promise(setImmediate);
    const [job] = host.log.events;
    assert.ok(job?.event === 'job');
    const { ms, ...others } = job.fields;
    assert.deepEqual(others, { kind: 'inspect', actor: '', method: '', ok: 'true' });
    assert.ok(Number(ms) >= 8000, `${ms} ms: as long as the stream was open`);
    assert.equal(host.log.events.length, 1);
  });

  test('has the page that was asked for', async (t) => {
    const { host, round } = await watched(t, '/inspect?limit=2&name=RE&after=80000000001000010101');
    assert.deepEqual(namesOf((await round(1))[0]?.[1]), ['bare']);
    host.canisters.canisters.push(new CounterCanister('rest', 3), new CounterCanister('other', 4));
    const [[, shown] = []] = await round(1);
    assert.deepEqual(namesOf(shown), ['bare', 'rest']);
  });

  test('tells of the open actor: its snapshot each time, its history when messages have ended', async (t) => {
    const { host, round } = await watched(t, '/inspect?limit=1&actor=bare');
    const bare = host.canisters.resolve('bare');
    const [opened, first, page] = await round(3);
    assert.deepEqual([opened?.[0], first?.[0], page?.[0]], ['actor', 'history', undefined]);
    assert.deepEqual(namesOf([opened?.[1]]), ['bare']);
    assert.deepEqual([first?.[1], namesOf(page?.[1])], [[], ['counter']]);
    assert.equal((await round(2))[0]?.[0], 'actor', 'no history: nothing has ended');
    bare.history = [entry(1), entry(2)];
    assert.deepEqual(seqsOf((await round(3))[1]?.[1]), [1, 2]);
    await round(2);
    bare.history = [entry(2), entry(3)];
    assert.deepEqual(seqsOf((await round(3))[1]?.[1]), [2, 3]);
    await round(2);
    // Another actor under this name, whose numbers begin anew.
    const other = new CounterCanister('bare', 5);
    other.history = [entry(1)];
    host.canisters.canisters.splice(1, 1, other);
    assert.deepEqual(seqsOf((await round(3))[1]?.[1]), [1]);
    host.canisters.canisters.splice(1, 1);
    assert.deepEqual((await round(2))[0], ['actor', null]);
  });

  test('is answered to who prefers it, and the open actor is told in no other way', async (t) => {
    const { origin } = await startHttpHost(t);
    for (const accept of ['*/*', 'application/json, text/event-stream', 'text/event-stream;q=0.5, application/json'])
      assert.ok(Array.isArray((await send(origin, 'GET', '/inspect', { headers: { accept } })).json()), accept);
    await using client = await EventClient.open(origin, '/inspect', {
      accept: 'application/json;q=0.5,text/event-stream',
    });
    assert.equal(client.response.statusCode, 200);
    const refused = await send(origin, 'GET', '/inspect?actor=counter');
    assert.deepEqual(
      [refused.status, refused.json()],
      [400, { code: 400, message: 'query parameter actor: expected it beside Accept: text/event-stream alone' }],
    );
    await assert.rejects(EventClient.open(origin, '/inspect?limit=0', EVENTS), /400/);
  });

  test('needs the token', async (t) => {
    const { origin } = await startHttpHost(t, { token: 'x' });
    await assert.rejects(EventClient.open(origin, '/inspect', EVENTS), /401/);
    await using client = await EventClient.open(origin, '/inspect', { ...EVENTS, authorization: 'Bearer x' });
    assert.equal(client.response.statusCode, 200);
  });

  test('a long list comes in parts, whole', async (t) => {
    const { host, round } = await watched(t, '/inspect?name=crowd');
    await round(1);
    crowd(host, 3000, 1000);
    const [[, shown] = []] = await round(1);
    assert.equal((shown as unknown[]).length, 3000);
    assert.deepEqual(shown, (await send(host.origin, 'GET', '/inspect?name=crowd')).json());
  });

  test('for a client that takes nothing nothing is made, and it goes on where it stopped', async (t) => {
    const clock = new FakeClock();
    const host = await startHttpHost(t, { clock });
    crowd(host, 2000, 10_000);
    let lists = 0;
    const list = host.canisters.list.bind(host.canisters);
    host.canisters.list = () => {
      lists++;
      return list();
    };
    await using client = new RawClient(host.origin);
    client.write('GET /inspect HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n');
    await client.until('\r\n\r\n');
    client.pause();
    for (let second = 0; second < 200; second++) {
      clock.advance(2000);
      await new Promise(setImmediate);
    }
    // 20 MB a round; the system's buffers take some megabytes.
    assert.ok(lists <= 2, `${lists} rounds were begun`);
    assert.ok(!client.received.includes('keep-alive'));
    client.resume();
    while (lists < 4) {
      clock.advance(10);
      await new Promise(setImmediate);
    }
    await client[Symbol.asyncDispose]();
    const [, body = ''] = client.received.split('\r\n\r\n');
    const [first = ''] = body.split('\n\n');
    const data = first.split('\n').map((line) => line.replace(/^data: /, ''));
    assert.equal((JSON.parse(data.join('\n')) as unknown[]).length, 2002);
    assert.ok(!body.includes('keep-alive'), 'a comment would end an event in its middle');
  });

  test('ends at once when the server stops, also for a client that takes nothing', { timeout: 60_000 }, async (t) => {
    const host = await startHttpHost(t);
    crowd(host, 2000, 10_000);
    await using client = await EventClient.open(host.origin, '/inspect?limit=1', EVENTS);
    await client.next();
    await using slow = new RawClient(host.origin);
    slow.write('GET /inspect HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n');
    await slow.until('\r\n\r\n');
    slow.pause();
    await arrived();
    const startedMs = performance.now();
    await host.server.close();
    assert.ok(performance.now() - startedMs < 30_000, 'not the five minutes of a client that takes nothing');
    assert.equal(await client.next(), undefined);
    assert.equal(host.log.events.filter(({ fields }) => fields['kind'] === 'inspect').length, 2);
  });

  test('a bug ends the stream, and nothing else', async (t) => {
    const { host, client, round } = await watched(t);
    await round(1);
    Object.defineProperty(host.canisters.resolve('bare'), 'heapBytes', {
      get: () => {
        throw new Error('planted');
      },
    });
    await round(0);
    assert.equal(await client.next(), undefined);
    assert.deepEqual(host.log.errors, ['a stream of the kind inspect has ended']);
    assert.equal(host.log.events[0]?.fields['ok'], 'false');
    assert.equal((await send(host.origin, 'GET', '/health')).status, 200);
  });
});
