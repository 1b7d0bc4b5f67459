/** Tests the mover of a server, between a store, a link and actors that are played. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ServerError } from '../../../kernel/index.ts';
import type { Canister } from '../../../subsystems/canisters/index.ts';
import type { CanisterMoves } from '../../../subsystems/canisters/moves/index.ts';
import type { ShardOwner } from '../../../subsystems/cluster/index.ts';
import { type MovedActor, MovedActors } from '../../../subsystems/cluster/moved-actors.ts';
import { Mover } from '../../../subsystems/cluster/moves/mover.ts';
import { idInShard } from '../../../subsystems/ic/canister-id.ts';
import { idToText } from '../../../subsystems/ic/index.ts';
import { rowsOfCanister } from '../../../subsystems/storage/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const id = idInShard(0, 1n);
const canister = { id, idHex: Buffer.from(id).toString('hex'), name: 'counter' } as Canister;
const NEW_OWNER = { shard: 1, node: 'new' };
const OLD_OWNER = { shard: 0, node: 'old' };
const hash = new Uint8Array(32).fill(7);

/** A server of shard `shard`, whose neighbours do what a test says. */
class Played {
  readonly clock = new FakeClock();
  /** Steps in their order; with `·` while requests for the actor wait. */
  readonly steps: string[] = [];
  readonly lines: string[] = [];
  readonly moved = new MovedActors();
  readonly here = new Set<string>();
  owners: (ShardOwner | undefined)[] = [OLD_OWNER, NEW_OWNER].map((owner) => owner as ShardOwner);
  isLeaving = false;
  /** Answers of the other server. */
  answers: Record<string, string | Promise<string>> = {};
  newMoves: MovedActor[] = [];
  moveFails: ServerError | undefined;
  arriveFails = false;
  owes = 0;
  readonly mover: Mover;

  constructor(shard: number) {
    const { moved, clock } = this;
    const canisters: CanisterMoves = {
      has: (of) => this.here.has(idToText(of)),
      storeAhead: async () => this.#step('store'),
      depart: async (_canister, isQuiet, transfer) => {
        this.#step(isQuiet() ? 'depart' : 'depart under way');
        return await transfer(rowsOfCanister(id, hash));
      },
      prepare: async () => {
        if (this.owes-- > 0) return undefined;
        this.#step('hold');
        return () => this.#step('release');
      },
      arrive: async () => {
        if (this.arriveFails) throw new Error('no memory');
        this.#step('arrive');
        this.here.add(idToText(id));
      },
    };
    this.mover = new Mover({
      store: {
        shards: 2,
        shard,
        node: shard === 0 ? 'old' : 'new',
        moved,
        newMoves: async () => this.newMoves.splice(0),
        settleTables: async () => this.#step('settle'),
        move: async () => {
          this.#step('move');
          if (this.moveFails !== undefined) throw this.moveFails;
          return { id, shard: 1, version: 1 };
        },
      },
      owners: { owners: this.owners },
      links: {
        ask: async (_shard, what) => {
          this.#step(`ask ${what}`);
          return await (this.answers[what] ?? '');
        },
      },
      canisters,
      clock,
      log: { info: (line) => void this.lines.push(line), warn: (line) => void this.lines.push(line) },
      isLeaving: () => this.isLeaving,
    });
  }

  #step(what: string): void {
    this.steps.push(this.areWaiting ? `· ${what}` : what);
  }

  get areWaiting(): boolean {
    return this.mover.gate.waitFor(id) !== undefined;
  }
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await nextTurn();
}

function codeOf(code: string): (error: unknown) => boolean {
  return (error) => error instanceof ServerError && error.code === code;
}

suite('the old owner', () => {
  test('stores what the tables lack before requests wait, then asks, moves, and tells', async () => {
    const played = new Played(0);
    await played.mover.move(canister, 1);
    const before = ['store', 'settle', 'store', 'settle'];
    assert.deepEqual(played.steps, [...before, '· depart', '· ask prepare', '· move', '· ask take']);
    assert.equal(played.areWaiting, false);
    assert.equal(played.mover.moves, 1);
    assert.deepEqual(played.mover.going, []);
    assert.match(played.lines[0] ?? '', /counter has moved to shard 1 in \d+ ms$/);
  });

  test('moves nothing to a server that is not ready, and lets the requests go on', async () => {
    const played = new Played(0);
    played.answers = { prepare: 'it leaves' };
    await assert.rejects(played.mover.move(canister, 1), (error: ServerError) => {
      assert.equal(error.code, 'owner-unready');
      assert.match(error.message, /not ready for the actor: it leaves; nothing was moved/);
      return true;
    });
    assert.deepEqual(played.steps.slice(-2), ['· ask prepare', '· ask forget']);
    assert.equal(played.areWaiting, false);
  });

  test('gives up on a server that does not answer for five seconds', async () => {
    const played = new Played(0);
    played.answers = { prepare: new Promise(() => undefined) };
    const moving = assert.rejects(played.mover.move(canister, 1), codeOf('owner-unready'));
    await turns();
    played.clock.advance(4_999);
    await turns();
    assert.equal(played.areWaiting, true);
    played.clock.advance(1);
    await moving;
    assert.ok(!played.steps.includes('· move'));
  });

  test('has the new owner forget the actor when the transaction fails', async () => {
    const played = new Played(0);
    played.moveFails = new ServerError('unavailable', 'owner-changed', 'another one');
    await assert.rejects(played.mover.move(canister, 1), codeOf('owner-changed'));
    assert.deepEqual(played.steps.slice(-2), ['· move', '· ask forget']);
    assert.equal(played.mover.moves, 0);
  });

  test('has moved it although the new owner does not say that it has it', async () => {
    const played = new Played(0);
    played.answers = { take: 'it cannot be loaded now' };
    await played.mover.move(canister, 1);
    assert.match(played.lines[0] ?? '', /: it cannot be loaded now$/);
  });

  test('refuses what cannot be, before anything is stored', async () => {
    const played = new Played(0);
    for (const shard of [-1, 2, 0.5, Number.NaN])
      await assert.rejects(played.mover.move(canister, shard), codeOf('shard-unknown'));
    await assert.rejects(played.mover.move(canister, 0), codeOf('actor-there'));
    played.owners[1] = undefined;
    await assert.rejects(played.mover.move(canister, 1), codeOf('owner-missing'));
    played.isLeaving = true;
    await assert.rejects(played.mover.move(canister, 1), codeOf('owner-unready'));
    assert.deepEqual(played.steps, []);
  });

  test('moves actors one after the other, and none twice at once', async () => {
    const played = new Played(0);
    const ready = Promise.withResolvers<string>();
    played.answers = { prepare: ready.promise };
    const second = { ...canister, id: idInShard(0, 2n), name: 'second' } as Canister;
    const both = [played.mover.move(canister, 1), played.mover.move(second, 1)];
    await assert.rejects(played.mover.move(canister, 1), codeOf('actor-moving'));
    await turns();
    assert.equal(played.mover.going.length, 2);
    assert.equal(played.steps.filter((step) => step.includes('depart')).length, 1);
    ready.resolve('');
    await Promise.all(both);
    assert.equal(played.mover.moves, 2);
  });
});

suite('the new owner', () => {
  const told = Buffer.concat([id, hash]);

  test('has requests wait until the actor is loaded', async () => {
    const played = new Played(1);
    assert.equal(await played.mover.asked('prepare', told, OLD_OWNER), '');
    assert.equal(played.areWaiting, true);
    played.newMoves = [{ id, shard: 1, version: 1 }];
    assert.equal(await played.mover.asked('take', id, OLD_OWNER), '');
    assert.deepEqual(played.steps, ['hold', '· settle', '· arrive', '· release']);
    assert.equal(played.areWaiting, false);
  });

  test('is not ready while calls of the actor are not over, and tries for a second', async () => {
    const played = new Played(1);
    played.owes = 3;
    const asked = played.mover.asked('prepare', told, OLD_OWNER);
    for (let look = 0; look < 5; look++) {
      await turns();
      played.clock.advance(5);
    }
    assert.equal(await asked, '');
    const late = new Played(1);
    late.owes = Infinity;
    const refused = late.mover.asked('prepare', told, OLD_OWNER);
    await turns();
    late.clock.advance(1_000);
    assert.equal(await refused, 'calls of the actor are not over there');
    assert.equal(late.areWaiting, false);
  });

  test('tells why it takes nothing', async () => {
    const played = new Played(1);
    assert.equal(await played.mover.asked('prepare', id.slice(1), OLD_OWNER), 'there is no such actor');
    played.here.add(idToText(id));
    assert.equal(await played.mover.asked('prepare', told, OLD_OWNER), 'it has the actor');
    played.isLeaving = true;
    assert.equal(await played.mover.asked('prepare', told, OLD_OWNER), 'it leaves');
    assert.equal(played.areWaiting, false);
  });

  test('lets requests go on when the old owner says that the actor stays', async () => {
    const played = new Played(1);
    await played.mover.asked('prepare', told, OLD_OWNER);
    assert.equal(await played.mover.asked('forget', id, OLD_OWNER), '');
    assert.equal(played.areWaiting, false);
  });

  for (const [title, prepare] of [
    ['whose process is gone', (played: Played) => (played.owners[0] = undefined)],
    ['that does not move it', (played: Played) => (played.answers = { moving: 'this server does not move it' })],
  ] as const)
    test(`doubts, after five seconds, an old owner ${title}`, async () => {
      const played = new Played(1);
      played.mover.start();
      await played.mover.asked('prepare', told, OLD_OWNER);
      played.answers = { moving: '' };
      prepare(played);
      played.clock.advance(4_000);
      await turns();
      assert.equal(played.areWaiting, true);
      played.clock.advance(1_000);
      await turns();
      assert.equal(played.areWaiting, false);
      played.mover.close();
      assert.equal(played.clock.pending, 0);
    });

  test('goes on waiting for an old owner that is still at it', async () => {
    const played = new Played(1);
    played.mover.start();
    await played.mover.asked('prepare', told, OLD_OWNER);
    played.clock.advance(60_000);
    await turns();
    assert.equal(played.areWaiting, true);
    assert.ok(played.steps.includes('· ask moving'));
  });

  test('loads an actor again until that goes, and tells of it once', async () => {
    const played = new Played(1);
    played.mover.start();
    await played.mover.asked('prepare', told, OLD_OWNER);
    played.newMoves = [{ id, shard: 1, version: 1 }];
    played.arriveFails = true;
    assert.equal(await played.mover.asked('take', id, OLD_OWNER), 'it cannot be loaded now');
    played.clock.advance(1_000);
    await turns();
    assert.equal(played.lines.length, 1);
    played.arriveFails = false;
    played.clock.advance(1_000);
    await turns();
    assert.equal(played.areWaiting, false);
    assert.ok(played.mover.gate.isQuiet(canister));
  });

  test('hears of moves to other shards, and answers for what it gives away', async () => {
    const played = new Played(1);
    played.newMoves = [{ id: idInShard(1, 5n), shard: 0, version: 3 }];
    await played.mover.look();
    assert.equal(played.moved.shardOf(idInShard(1, 5n)), 0);
    assert.equal(await played.mover.asked('moving', id, OLD_OWNER), 'this server does not move it');
  });
});
