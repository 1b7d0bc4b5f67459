import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CommitPort } from '../../../subsystems/storage/index.ts';
import { INLINE_BYTES_MAX, RING_BYTES } from '../../../subsystems/storage/storage-wire.ts';
import { WriteBatch } from '../../../subsystems/storage/write-batch.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

export interface MadeQueue {
  readonly queue: CommitPort;
  /** Ends the turn of the event loop, so that its changes are sealed. */
  readonly endTurn: () => Promise<void>;
  /** Waits until everything sealed is durable. */
  readonly catchUp: () => Promise<void>;
  /** Returns the entries of the family `queue`: keys as text (`Buffer.from(key).toString()`), in their order. */
  readonly stored: () => Promise<ReadonlyMap<string, Uint8Array>>;
}

/** Declares the suite for a commit queue. `makeQueue` returns an open, empty queue, which ends with the test. */
export function describeCommitQueue(
  name: string,
  makeQueue: (t: SuiteContext) => Promise<MadeQueue>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    test('what a turn changes is one unit, microtasks included', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      const { current } = queue;
      put(queue, 'a', 1);
      put(queue, 'b', 2);
      await Promise.resolve();
      put(queue, 'c', 3);
      assert.deepEqual([queue.current, queue.newest], [current, current], 'it is being collected');
      await endTurn();
      assert.deepEqual([queue.current, queue.newest], [current + 1, current]);
      put(queue, 'd', 4);
      assert.equal(queue.newest, current + 1);
      await endTurn();
      await catchUp();
      assert.equal(queue.durable, current + 1);
      assert.deepEqual([...(await stored()).keys()], ['a', 'b', 'c', 'd']);
    });

    test('a turn that changes nothing seals nothing', async (t) => {
      const { queue, endTurn, catchUp } = await makeQueue(t);
      put(queue, 'a', 1);
      await endTurn();
      const { current } = queue;
      await endTurn();
      await catchUp();
      assert.deepEqual([queue.current, queue.newest, queue.durable], [current, current - 1, current - 1]);
    });

    test('whoever writes before the seal is asked once a unit, in order, and what is written is in it', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      const asked: string[] = [];
      queue.onSeal((unit) => {
        asked.push(`first ${queue.current}`);
        unit.put('queue', Buffer.from('x'), Uint8Array.of(1));
      });
      queue.onSeal((unit) => {
        asked.push(`second ${queue.current}`);
        unit.put('queue', Buffer.from('x'), Uint8Array.of(2));
      });
      const { current } = queue;
      queue.markDirty();
      queue.markDirty();
      assert.deepEqual(asked, []);
      await endTurn();
      queue.markDirty();
      await endTurn();
      assert.deepEqual(asked, [
        `first ${current}`,
        `second ${current}`,
        `first ${current + 1}`,
        `second ${current + 1}`,
      ]);
      await catchUp();
      assertBytes((await stored()).get('x'), Uint8Array.of(2), 'the second had the last word');
    });

    test('a unit that is held goes on over turns, and whoever waits for it waits for its end', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      if (!queue.supports.heldUnits) return;
      let changed = 0;
      queue.onSeal((unit) => {
        if (changed > 0) unit.put('queue', Buffer.from('changed'), Uint8Array.of(changed));
        changed = 0;
      });
      const { current } = queue;
      const release = queue.holdUnit();
      for (let turn = 1; turn <= 3; turn++) {
        put(queue, `${turn}`, turn);
        changed = turn;
        await endTurn();
        assert.deepEqual([queue.current, queue.newest, queue.durable], [current, current, current - 1]);
      }
      assert.equal(await Promise.race([queue.settled().then(() => 'settled'), endTurn().then(() => 'waits')]), 'waits');
      release();
      await endTurn();
      await catchUp();
      assert.deepEqual([queue.current, queue.durable], [current + 1, current]);
      assert.deepEqual([...(await stored()).keys()], ['1', '2', '3', 'changed']);
      assertBytes((await stored()).get('changed'), Uint8Array.of(3), 'each turn has written what it changed');
    });

    test('what is changed while a unit is sealed is in the next one', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      let left = 2;
      queue.onSeal((unit) => {
        unit.put('queue', Buffer.from('left'), Uint8Array.of(left));
        if (left-- > 0) queue.markDirty();
      });
      const { current } = queue;
      queue.markDirty();
      for (let turns = 0; turns < 5; turns++) await endTurn();
      await catchUp();
      assert.deepEqual([queue.current, left], [current + 3, -1]);
      assertBytes((await stored()).get('left'), Uint8Array.of(0), 'the last of three units');
    });

    test('a unit of small and large operations is stored whole, whoever collected them', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      const unit = queue.current;
      const sizes = [1, INLINE_BYTES_MAX + 1, 1, 5 * INLINE_BYTES_MAX, 300, 2 * RING_BYTES, INLINE_BYTES_MAX - 100, 1];
      for (const [index, size] of sizes.entries()) {
        const collected = new WriteBatch();
        collected.put('queue', Buffer.from(`${index}`), filling(index, size));
        collected.put('queue', Buffer.from('last'), filling(index, 4));
        queue.unit.append(collected.take());
        put(queue, `${index}b`, index, 2);
      }
      await endTurn();
      await catchUp();
      assert.deepEqual([queue.current, queue.durable], [unit + 1, unit], 'it is one unit');
      const found = await stored();
      assert.equal(found.size, 2 * sizes.length + 1);
      assertBytes(found.get('last'), filling(sizes.length - 1, 4), 'the last one has the last word');
      for (const [index, size] of sizes.entries()) {
        assertBytes(found.get(`${index}`), filling(index, size), `${size} bytes`);
        assertBytes(found.get(`${index}b`), filling(index, 2), `behind ${size} bytes`);
      }
    });

    test('a unit without operations becomes durable like another', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      const unit = queue.current;
      queue.markDirty();
      let isTold = false;
      queue.whenDurable(unit, () => (isTold = true));
      await endTurn();
      await catchUp();
      assert.deepEqual([isTold, queue.durable, (await stored()).size], [true, unit, 0]);
    });

    test('who waits for a unit is told when it is durable and stored, not before, in the order of asking', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      const told: string[] = [];
      const wait = (what: string, unit: number): void =>
        queue.whenDurable(unit, () => {
          assert.ok(queue.durable >= unit, `${what}: unit ${unit} is durable, not only ${queue.durable}`);
          told.push(what);
        });
      const first = queue.current;
      put(queue, 'first', 1);
      wait('a', first);
      assert.deepEqual(told, [], 'its unit is not even sealed');
      await endTurn();
      put(queue, 'second', 2);
      wait('b', queue.current);
      // Waits for an older unit, asked after a wait for a newer one.
      wait('c', first);
      wait('d', queue.current);
      await endTurn();
      await catchUp();
      // The first unit may or may not have been durable when `c` asked.
      assert.deepEqual(
        told.filter((what) => what !== 'c'),
        ['a', 'b', 'd'],
      );
      assert.equal(told.length, 4);
      assert.deepEqual([...(await stored()).keys()], ['first', 'second']);
      let isTold = false;
      queue.whenDurable(first, () => (isTold = true));
      assert.ok(isTold, 'within the call: it is durable');
    });

    test('that a unit is expected changes nothing, whether it comes, comes late or does not', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      const told: number[] = [];
      const first = queue.current;
      const ROUNDS = 60;
      for (let round = 0; round < ROUNDS; round++) {
        queue.expectUnit();
        // Turns without a change make no unit.
        if (round % 3 === 0) await endTurn();
        // Pauses of an execution's length: shorter and longer than the time for which a thread spins.
        if (round % 5 === 0) await sleep(round % 4);
        if (round % 7 === 0) await catchUp();
        put(queue, String(round).padStart(2, '0'), round);
        queue.whenDurable(queue.current, () => told.push(round));
        if (round % 2 === 0) queue.expectUnit();
        await endTurn();
      }
      queue.expectUnit();
      await catchUp();
      const rounds = Array.from({ length: ROUNDS }, (_, round) => round);
      assert.deepEqual(told, rounds);
      assert.equal(queue.durable, first + ROUNDS - 1);
      assert.deepEqual(
        [...(await stored()).values()].map(([value]) => value),
        rounds,
      );
    });

    test('what a callback changes is in a unit of its own', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      const unit = queue.current;
      put(queue, 'a', 1);
      let next = 0;
      queue.whenDurable(unit, () => {
        put(queue, 'b', 2);
        next = queue.newest;
      });
      await endTurn();
      await catchUp();
      await endTurn();
      await catchUp();
      assert.ok(next > unit);
      assert.equal(queue.durable, next);
      assert.deepEqual([...(await stored()).keys()], ['a', 'b']);
    });

    test('it is settled when everything changed so far is durable', async (t) => {
      const { queue, endTurn, catchUp } = await makeQueue(t);
      await queue.settled();
      put(queue, 'a', 1);
      const unit = queue.current;
      const settled = queue.settled().then(() => assert.ok(queue.durable >= unit));
      await endTurn();
      await catchUp();
      await settled;
      await queue.settled();
    });

    test('units of any size arrive whole and in order', async (t) => {
      const { queue, endTurn, catchUp, stored } = await makeQueue(t);
      const put1 = 8 + Buffer.from('0000').length;
      const last = 8 + Buffer.from('last').length + 4;
      const rest = INLINE_BYTES_MAX - put1 - last;
      const small = [0, 1, 4000];
      const sizes = [...small, rest - 1, rest, rest + 1, ...small, 2 ** 20, ...small, rest + 1, rest, ...small];
      // More than fits into the ring.
      while (sizes.reduce((sum, size) => sum + size, 0) < 3 * RING_BYTES)
        sizes.push(...small, rest, rest - 1, rest + 1);
      const told: number[] = [];
      for (const [index, size] of sizes.entries()) {
        const unit = queue.current;
        put(queue, String(index).padStart(4, '0'), index, size);
        put(queue, 'last', index, 4);
        queue.whenDurable(unit, () => {
          assert.ok(queue.durable >= unit, `unit ${unit} is durable, not only ${queue.durable}`);
          told.push(index);
        });
        await endTurn();
      }
      await catchUp();
      assert.deepEqual(told, [...sizes.keys()]);
      const found = await stored();
      assertBytes(found.get('last'), filling(sizes.length - 1, 4), 'the last one has the last word');
      for (const [index, size] of sizes.entries()) {
        const value = found.get(String(index).padStart(4, '0'));
        assertBytes(value, filling(index, size), `unit ${index}, ${size} bytes`);
      }
    });
  });
}

/** Puts the key into this turn's unit. */
function put(queue: CommitPort, key: string, value: number, size = 1): void {
  queue.unit.put('queue', Buffer.from(key), filling(value, size));
  queue.markDirty();
}

function filling(value: number, size: number): Uint8Array {
  return new Uint8Array(size).fill(value);
}

function assertBytes(found: Uint8Array | undefined, expected: Uint8Array, what: string): void {
  assert.ok(found !== undefined && Buffer.compare(found, expected) === 0, what);
}
