import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { HistoryEntry } from '../../../subsystems/canisters/index.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { EventClient } from '../../support/event-client.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { send } from '../../support/http-client.ts';
import { CounterCanister, type HttpHost, startHttpHost } from './counter-host.ts';

interface Told {
  readonly host: Readonly<Record<string, unknown>> & { readonly states: Readonly<Record<string, number>> };
  readonly matching: number;
  readonly actors: readonly { readonly name: string; readonly id: string; readonly traps: number }[];
  readonly failures: readonly { readonly actor: string; readonly name: string; readonly method: string }[];
}

async function told(host: HttpHost, query = ''): Promise<Told> {
  const answer = await send(host.origin, 'GET', `/x/host${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json() as Told;
}

const namesOf = ({ actors }: Told): readonly string[] => actors.map(({ name }) => name);

function failed(seq: number, method: string): HistoryEntry {
  return {
    seq,
    timeMs: 0,
    kind: 'update',
    method,
    caller: Uint8Array.of(4),
    argument: Uint8Array.of(),
    argumentBytes: 0,
    outcome: 'trap',
    code: 5,
    message: 'boom',
    stack: 'inner\nouter',
    instructions: 1,
    cycles: 1,
    ms: 1,
    trace: { number: seq, cause: 0, root: seq },
    reply: Uint8Array.of(),
    isReplyCut: false,
  };
}

/** Replaces the actors by so many, whose figures depend on their numbers. */
function crowd(host: HttpHost, count: number): readonly CounterCanister[] {
  const { canisters } = host.canisters;
  canisters.length = 0;
  for (let number = 1; number <= count; number++) {
    const canister = new CounterCanister(`actor-${(number * 7919) % count}`, number % 250, false);
    Object.assign(canister, { idHex: number.toString(16).padStart(20, '0') });
    canister.principal = `p${(number * 104_729) % count}-cai`;
    canister.traps = number % 7;
    canister.messages = (number * 31) % 101;
    canister.heapBytes = (number % 13) * 65_536;
    canister.queued = number % 3;
    canister.balance = number % 5 === 0 ? 0n : BigInt(number) * 10n ** 12n;
    canister.isLive = number % 2 === 0;
    if (number % 11 === 0) canister.status = number % 2 === 0 ? 'stopped' : 'stopping';
    canisters.push(canister);
  }
  return canisters;
}

const stateOf = ({ status, balance, isLive }: CounterCanister): string =>
  status === 'running' ? (balance === 0n ? 'dry' : isLive ? 'running' : 'asleep') : status;
const STATES = ['running', 'asleep', 'dry', 'stopping', 'stopped'];

/** Keys of the orders, written anew. */
const KEYS: Readonly<Record<string, (canister: CounterCanister) => string | number | bigint>> = {
  id: ({ idHex }) => idHex,
  name: ({ name }) => name,
  principal: ({ principal }) => principal,
  state: (canister) => STATES.indexOf(stateOf(canister)),
  memory: ({ heapBytes }) => heapBytes,
  messages: ({ messages }) => messages,
  traps: ({ traps }) => traps,
  queued: ({ queued }) => queued,
  cycles: ({ balance }) => balance,
};

suite('/x/host', () => {
  test('has the figures of all actors, whichever are shown', async (t: TestContext) => {
    const clock = new FakeClock();
    const figures = await new NoStorage().figures();
    const storage = { backup: () => new NoStorage().backup(), figures: async () => ({ ...figures, stateBytes: 4321 }) };
    const host = await startHttpHost(t, { clock, storage });
    clock.advance(5000);
    const canisters = crowd(host, 200);
    const { host: facts, matching, actors } = await told(host, '?state=dry&limit=3');
    const sum = (of: (canister: CounterCanister) => number): number =>
      canisters.reduce((total, canister) => total + of(canister), 0);
    assert.equal(facts['actors'], 200);
    assert.equal(
      facts['messages'],
      sum(({ messages }) => messages),
    );
    assert.equal(
      facts['traps'],
      sum(({ traps }) => traps),
    );
    assert.equal(
      facts['queued'],
      sum(({ queued }) => queued),
    );
    assert.equal(
      facts['memoryBytes'],
      sum(({ heapBytes }) => heapBytes),
    );
    assert.equal(facts['stateBytes'], 4321);
    assert.equal(facts['uptimeMs'], 5000);
    assert.ok(Number(facts['processBytes']) > 10_000_000);
    for (const state of STATES)
      assert.equal(
        facts.states[state],
        sum((canister) => (stateOf(canister) === state ? 1 : 0)),
        state,
      );
    assert.deepEqual([matching, actors.length], [facts.states['dry'], 3]);
  });

  test('a storage that cannot tell leaves its figure out, and the rest comes', async (t) => {
    const storage = { backup: () => new NoStorage().backup(), figures: () => Promise.reject(new Error('no disk')) };
    const host = await startHttpHost(t, { storage });
    const { host: facts, actors } = await told(host);
    assert.deepEqual([facts['stateBytes'], actors.length], [null, 2]);
  });

  test('finds and sorts as an array does, on each page', async (t) => {
    const host = await startHttpHost(t);
    const canisters = crowd(host, 10_000);
    const choices = fc.record({
      find: fc.constantFrom('', 'actor-1', 'ACTOR-29', 'p17', '0000000000000000001', 'nobody'),
      state: fc.constantFrom(undefined, ...STATES),
      sort: fc.constantFrom(...Object.keys(KEYS)),
      isDescending: fc.boolean(),
      offset: fc.constantFrom(0, 1, 50, 9_990, 10_000),
      limit: fc.constantFrom(1, 50, 200),
    });
    await fc.assert(
      fc.asyncProperty(choices, async ({ find, state, sort, isDescending, offset, limit }) => {
        const part = find.toLowerCase();
        const found = canisters.filter(
          (canister) =>
            [canister.name, canister.idHex, canister.principal].some((text) => text.includes(part)) &&
            (state === undefined || stateOf(canister) === state),
        );
        const key = KEYS[sort] ?? (() => 0);
        const sign = isDescending ? -1 : 1;
        const expected = found.toSorted((one, other) => {
          const [a, b] = [key(one), key(other)];
          return a === b ? (one.idHex < other.idHex ? -1 : 1) : a < b ? -sign : sign;
        });
        const query = new URLSearchParams({
          ...(find !== '' && { find }),
          ...(state !== undefined && { state }),
          sort,
          order: isDescending ? 'desc' : 'asc',
          offset: String(offset),
          limit: String(limit),
        });
        const answer = await told(host, `?${query.toString()}`);
        assert.equal(answer.matching, found.length);
        assert.deepEqual(
          answer.actors.map(({ id }) => id),
          expected.slice(offset, offset + limit).map(({ idHex }) => idHex),
        );
      }),
      { numRuns: 40 },
    );
  });

  test('has the latest failures of all actors, with their actors', async (t) => {
    const host = await startHttpHost(t);
    host.canisters.resolve('bare').history = Array.from({ length: 30 }, (_, at) => failed(at + 1, `m${at + 1}`));
    const { failures } = await told(host);
    assert.equal(failures.length, 20);
    const { actor, name, method } = failures[0] ?? {};
    assert.deepEqual([actor, name, method], [host.canisters.resolve('bare').idHex, 'bare', 'm30']);
  });

  test('refuses what is no state, order or number, by name', async (t) => {
    const host = await startHttpHost(t);
    for (const [query, name] of [
      ['state=sleeping', 'state'],
      ['sort=size', 'sort'],
      ['sort=toString', 'sort'],
      ['order=down', 'order'],
      ['offset=10001', 'offset'],
      ['offset=-1', 'offset'],
      ['limit=0', 'limit'],
      ['limit=201', 'limit'],
      ['limit=1e2', 'limit'],
      ['actor=bare', 'actor'],
    ] as const) {
      const answer = await send(host.origin, 'GET', `/x/host?${query}`);
      assert.equal(answer.status, 400, query);
      assert.match(answer.text, new RegExp(`query parameter ${name}: expected `));
    }
  });

  test('as a stream it is one job, and tells of the open actor first', async (t) => {
    const clock = new FakeClock();
    const host = await startHttpHost(t, { clock });
    const client = await EventClient.open(host.origin, '/x/host?actor=bare', { accept: 'text/event-stream' });
    const next = async (): Promise<readonly [string | undefined, unknown]> => {
      while (client.unread.length === 0) {
        clock.advance(1);
        await new Promise(setImmediate);
      }
      const { event, data } = (await client.next()) ?? { event: 'closed', data: 'null' };
      return [event, JSON.parse(data)];
    };
    const [[first, actor], [second], [third, page]] = [await next(), await next(), await next()];
    assert.deepEqual([first, second, third], ['actor', 'history', undefined]);
    assert.equal((actor as { name: string }).name, 'bare');
    assert.deepEqual(namesOf(page as Told), ['counter', 'bare']);
    host.canisters.resolve('counter').traps = 77;
    clock.advance(2000);
    const [, [, later]] = [await next(), await next()];
    assert.equal((later as Told).actors[0]?.traps, 77);
    assert.equal(host.log.events.length, 0);
    await client[Symbol.asyncDispose]();
    while (host.log.events.length === 0) await new Promise(setImmediate);
    assert.equal(host.log.events[0]?.fields['kind'], 'host');
  });
});
