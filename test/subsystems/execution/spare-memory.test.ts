/** Memory that a thread keeps and nobody uses is given back for others: large memories in pieces. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStores } from '../../../subsystems/execution/engine/engine.ts';
import { HeapTally } from '../../../subsystems/execution/memory/heap-tally.ts';
import { MemoryBudget } from '../../../subsystems/execution/memory/memory-budget.ts';
import { MessageMemory } from '../../../subsystems/execution/memory/message-memory.ts';
import { PageReturns } from '../../../subsystems/execution/memory/page-returns.ts';
import { SpareMemory } from '../../../subsystems/execution/thread/spare-memory.ts';
import { ROOM } from '../../../subsystems/instrument/index.ts';

const MIB = 2 ** 20;
const PAGE = 4096;
const PAGES_PER_MIB = MIB / PAGE;
const WASM_PAGES_PER_MIB = 16;
/** Size of the memory that nobody uses any more, and all that there is. */
const LEFT_MIB = 64;
const BOUND_MIB = 100;

/** Garbage of which a test decides how much there is. */
class FakeGarbage {
  bytes = 0;
  collections = 0;
  readonly #budget: MemoryBudget;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  collect(): void {
    this.collections++;
    this.#budget.free(this.bytes / PAGE);
    this.bytes = 0;
  }
}

/** A thread that has left a memory of LEFT_MIB, and whose other actors have all the rest. */
class Host {
  pieces = 0;
  readonly budget = new MemoryBudget(MemoryBudget.table(BOUND_MIB * MIB, 1), 0);
  readonly stores = createStores({
    stableBytesMax: MIB,
    budget: this.budget,
    returns: new PageReturns(() => () => void this.pieces++),
  });
  readonly garbage = new FakeGarbage(this.budget);
  /** A spare engine with a journal of that size. */
  readonly long = {
    spareBytes: 0,
    trim: () => {
      const { spareBytes } = this.long;
      this.long.spareBytes = 0;
      if (spareBytes > 0) this.leave(spareBytes / MIB);
    },
  };
  readonly spare = new SpareMemory({
    long: this.long,
    packed: { countedBytes: 0, clear: () => undefined },
    stores: this.stores,
    garbage: this.garbage,
  });

  constructor() {
    assert.ok(this.budget.take(BOUND_MIB * PAGES_PER_MIB));
    this.leave(LEFT_MIB);
  }

  /** Lets go of a memory. */
  leave(mebibytes: number): void {
    const pages = mebibytes * WASM_PAGES_PER_MIB;
    this.stores.heaps.leave(new WebAssembly.Memory({ initial: pages, maximum: pages }), mebibytes * PAGES_PER_MIB);
  }
}

suite('memory that nobody uses', () => {
  test('is given back as far as somebody needs it, without a collection', () => {
    const host = new Host();
    host.garbage.bytes = MIB;
    assert.equal(host.budget.take(PAGES_PER_MIB), true);
    assert.equal(host.pieces, 1);
    assert.equal(host.budget.take(15 * PAGES_PER_MIB), true);
    assert.deepEqual([host.pieces, host.garbage.collections, host.budget.bytesUsed], [2, 0, BOUND_MIB * MIB]);
    assert.equal(host.stores.heaps.countedBytes, (LEFT_MIB - 16) * MIB, 'the rest goes back between other work');
  });

  test('is given back with all garbage when that is not enough', () => {
    const host = new Host();
    host.garbage.bytes = 8 * MIB;
    assert.equal(host.budget.take((LEFT_MIB + 8) * PAGES_PER_MIB), true);
    assert.deepEqual([host.pieces, host.garbage.collections], [8, 1]);
    assert.equal(host.budget.take(1), false);
    assert.equal(host.garbage.collections, 1, 'there is nothing more to collect');
  });

  test('is given back with the journals of spare engines, which are large memories themselves', () => {
    const host = new Host();
    host.long.spareBytes = 24 * MIB;
    assert.equal(host.budget.take((LEFT_MIB + 10) * PAGES_PER_MIB), true);
    assert.deepEqual([host.pieces, host.budget.pagesLeft / PAGES_PER_MIB], [10, 6]);
    assert.equal(host.stores.heaps.countedBytes, 8 * MIB);
  });

  test('is given back by a growing message a piece at a time: the message yields between two', () => {
    const host = new Host();
    const message = new MessageMemory(host.budget, 0);
    const tally = new HeapTally(0);
    tally.growTo(32 * MIB);
    message.beginTask();
    message.begin(tally, 65_536);
    const answers: number[] = [];
    do answers.push(message.grow(20 * WASM_PAGES_PER_MIB));
    while (answers.at(-1) === ROOM.LATER);
    // The heap has not been counted before, so all of its 52 MiB are taken.
    assert.deepEqual(answers, [...Array.from({ length: 7 }, () => ROOM.LATER), ROOM.GRANTED]);
    assert.equal(host.pieces, 7);
  });

  test('is given back in pieces for whoever can pause before it takes much', () => {
    const host = new Host();
    const seen: number[] = [];
    for (const _ of host.budget.givingBack(20 * PAGES_PER_MIB)) seen.push(host.budget.pagesLeft / PAGES_PER_MIB);
    assert.deepEqual(seen, [8, 16, 24]);
    assert.deepEqual([...host.budget.givingBack(24 * PAGES_PER_MIB)], [], 'there is room');
  });

  test('is all back when somebody is told so, and others work meanwhile', () => {
    const host = new Host();
    host.garbage.bytes = MIB;
    let isGiven = false;
    host.spare.giveBack(() => (isGiven = true));
    assert.equal(host.garbage.collections, 1);
    let turns = 0;
    for (; host.spare.hasWork; turns++) {
      assert.equal(isGiven, false);
      host.spare.work();
    }
    assert.deepEqual([turns, isGiven, host.budget.pagesLeft], [8, true, (LEFT_MIB + 1) * PAGES_PER_MIB]);
    host.spare.giveBack(() => (isGiven = false));
    assert.equal(isGiven, false, 'at once, if nothing waits');
  });

  test('is told to be back while memory of others comes all the time', () => {
    const host = new Host();
    const given: string[] = [];
    host.spare.giveBack(() => given.push('first'));
    host.leave(16);
    host.spare.giveBack(() => given.push('second'));
    for (let turn = 0; turn < 8; turn++) {
      assert.deepEqual(given, []);
      host.leave(16);
      host.spare.work();
    }
    assert.deepEqual(given, ['first']);
    host.spare.work();
    host.spare.work();
    assert.deepEqual(given, ['first', 'second']);
    assert.equal(host.spare.hasWork, true);
  });

  test('is told to be back also when somebody else has given the last piece back', () => {
    const host = new Host();
    let isGiven = false;
    host.spare.giveBack(() => (isGiven = true));
    assert.equal(host.budget.take(LEFT_MIB * PAGES_PER_MIB), true);
    assert.deepEqual([host.pieces, isGiven, host.spare.hasWork], [8, false, true]);
    host.spare.work();
    assert.deepEqual([isGiven, host.spare.hasWork], [true, false]);
  });
});
