import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Canister } from '../../../subsystems/canisters/index.ts';
import type { AnySizeTuple } from '../../../subsystems/codec/index.ts';
import type { Outcome } from '../../../subsystems/ic/index.ts';
import { Broadcast } from '../../../subsystems/http/broadcast.ts';
import {
  LiveQuery,
  type LiveQueryHost,
  preparedCall,
  type WatchedQuery,
} from '../../../subsystems/http/watch/live-query.ts';
import { Viewer } from '../../../subsystems/http/watch/viewers.ts';
import { WatchedCanister } from '../../../subsystems/http/watch/watched-canister.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { CounterCanister, jsonTextCodec } from './counter-host.ts';

const UNAVAILABLE: Outcome = { kind: 'unavailable', code: 2, message: 'busy', instructions: 0, charge: 0 };
const replied = (text: string): Outcome => ({ kind: 'reply', data: Buffer.from(text), instructions: 0, charge: 0 });
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
};

/** Makes types that write their name in front of all text that they encode and decode. */
const typesOf = (name: string, before?: Promise<void>): AnySizeTuple => {
  const named = (bytes: Uint8Array): Uint8Array => Buffer.from(`${name}:${Buffer.from(bytes).toString()}`);
  const later = (bytes: Uint8Array): Uint8Array | Promise<Uint8Array> =>
    before === undefined ? named(bytes) : before.then(() => named(bytes));
  return { ...jsonTextCodec, encodeAnySize: later, decodeAnySize: later };
};

/** One query of one actor whose answers a test gives. */
class Scenario {
  readonly clock = new FakeClock();
  readonly canister: Canister & { candid: CounterCanister['candid'] } = new CounterCanister('counter', 1);
  readonly watched = new WatchedCanister(this.clock, this.canister);
  /** Arguments of the queries so far. */
  readonly asked: string[] = [];
  /** Returns the next answer. */
  answer: () => Promise<Outcome> = () => Promise.resolve(replied('[0]'));
  /** The module's own answer about its interface. */
  said: AnySizeTuple | undefined;
  /** Frames that the viewer was sent. */
  readonly frames: string[] = [];
  readonly host: LiveQueryHost = {
    clock: this.clock,
    codec: { untyped: jsonTextCodec, previewText: () => undefined },
    broadcast: new Broadcast(this.clock),
    hold: () => undefined,
    canisters: {
      ask: (_canister: Canister, _method: string, _caller: Uint8Array, argument: Uint8Array) => {
        this.asked.push(Buffer.from(argument).toString());
        return this.answer();
      },
      interfaceOf: async () => {
        await turns();
        if (this.said !== undefined) this.use(this.said);
        return this.canister.candid;
      },
    } as unknown as LiveQueryHost['canisters'],
  };

  use(types: AnySizeTuple | undefined): void {
    const method = { name: 'get', kind: 'query', args: types, results: types } as const;
    this.canister.candid =
      types === undefined
        ? undefined
        : { text: '', methods: new Map([['get', { ...method, args: types, results: types }]]), initArgs: undefined };
  }

  async begin(): Promise<LiveQuery> {
    const query: WatchedQuery = {
      canister: this.canister,
      method: 'get',
      caller: Uint8Array.of(4),
      isLossless: false,
      access: { key: '', refusal: () => undefined },
      json: Buffer.from('[]'),
    };
    const live: LiveQuery = new LiveQuery(
      this.host,
      query,
      await preparedCall(this.host, query),
      () => this.watched.changes,
      () => this.watched.remove(live),
    );
    this.watched.add(live);
    const viewer = new Viewer(undefined, 0);
    viewer.stream = {
      send: (bytes) => {
        this.frames.push(
          /(?:event: (\w+)\n)?data: (.*)\n/.exec(Buffer.from(bytes).toString())?.slice(1).join(' ') ?? '',
        );
        return true;
      },
      end: () => undefined,
    };
    live.add(viewer);
    await turns();
    return live;
  }

  /** Replaces the code by one with these types. */
  upgrade(types: AnySizeTuple | undefined): void {
    this.use(types);
    this.watched.codeChanged();
  }

  async passed(ms: number): Promise<void> {
    this.clock.advance(ms);
    await turns();
  }
}

const UPGRADE = `upgrade {"moduleHash":"${'ab'.repeat(32)}"}`;

suite('a live query', () => {
  test('goes on by the types that a module says when it is asked', async () => {
    const scenario = new Scenario();
    scenario.use(typesOf('old'));
    await scenario.begin();
    scenario.said = typesOf('new');
    scenario.upgrade(undefined);
    await scenario.passed(10);
    assert.deepEqual(scenario.frames, [' old:[0]', UPGRADE, ' new:[0]']);
  });

  test('tells no answer of the code before', async () => {
    const scenario = new Scenario();
    scenario.use(typesOf('old'));
    await scenario.begin();
    const held = Promise.withResolvers<Outcome>();
    scenario.answer = () => held.promise;
    scenario.watched.changed();
    await scenario.passed(10);
    scenario.upgrade(typesOf('new'));
    scenario.answer = () => Promise.resolve(replied('[2]'));
    held.resolve(replied('[1]'));
    await turns();
    await scenario.passed(10);
    assert.deepEqual(scenario.frames, [' old:[0]', UPGRADE, ' new:[2]']);
    assert.deepEqual(scenario.asked.slice(-1), ['new:[]']);
  });

  test('keeps no arguments that were written for the code before, nor what was wrong with them', async () => {
    for (const isRefused of [false, true]) {
      const scenario = new Scenario();
      scenario.use(typesOf('old'));
      await scenario.begin();
      const writing = Promise.withResolvers<void>();
      scenario.upgrade(typesOf('slow', writing.promise));
      await scenario.passed(10);
      scenario.upgrade(typesOf('new'));
      if (isRefused) writing.reject(new Error('does not fit'));
      else writing.resolve();
      await turns();
      await scenario.passed(10);
      assert.deepEqual(scenario.frames, [' old:[0]', UPGRADE, UPGRADE, ' new:[0]']);
      assert.deepEqual(scenario.asked, ['old:[]', 'new:[]']);
    }
  });

  test('has one retry before it, however often its actor changes meanwhile', async () => {
    const scenario = new Scenario();
    scenario.use(typesOf('it'));
    const live = await scenario.begin();
    scenario.answer = () => Promise.resolve(UNAVAILABLE);
    for (let change = 0; change < 50; change++) {
      scenario.watched.changed();
      await scenario.passed(10);
    }
    assert.ok(scenario.clock.pending <= 1, `${scenario.clock.pending} timers wait`);
    scenario.answer = () => Promise.resolve(replied('[1]'));
    const before = scenario.asked.length;
    await scenario.passed(5000);
    assert.equal(scenario.asked.length, before + 1);
    assert.deepEqual(scenario.frames, [' it:[0]', ' it:[1]']);
    scenario.answer = () => Promise.resolve(UNAVAILABLE);
    scenario.watched.changed();
    await scenario.passed(10);
    live.end(undefined);
    assert.equal(scenario.clock.pending, 0, 'nobody asks for it any more');
  });
});
