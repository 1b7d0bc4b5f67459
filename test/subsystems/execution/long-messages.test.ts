import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CanisterState } from '../../../subsystems/execution/engine/canister-state.ts';
import {
  LONG_MESSAGES_MAX,
  LongMessages,
  type MessageHooks,
  TURN_MS,
} from '../../../subsystems/execution/thread/long-messages.ts';

type Canister = CanisterState;

/** An engine whose messages take time and yield, without any effect. */
interface SlowEngine extends MessageHooks {
  /** Canisters whose instances are on its journal. */
  readonly homeOf: Set<Canister>;
  journalBytes: number;
  isHomeOf(canister: Canister): boolean;
}

interface Running {
  readonly canister: Canister;
  readonly engine: SlowEngine;
  ranMs: number;
}

/** A thread as its long messages see it. */
class Thread {
  nowMs = 0;
  /** Milliseconds that the machine has given to others meanwhile. */
  lostMs = 0;
  /** True while short messages wait. */
  hasOthers = false;
  readonly engines: SlowEngine[] = [];
  readonly dropped: SlowEngine[] = [];
  /** Names in the order in which messages began, and in which they ended. */
  readonly begun: string[] = [];
  readonly ended: string[] = [];
  readonly running = new Map<string, Running>();
  yields = 0;
  readonly long = new LongMessages<SlowEngine>({
    nowMs: () => this.nowMs,
    cpuMs: () => this.nowMs - this.lostMs,
    createEngine: (hooks) => {
      const homeOf = new Set<Canister>();
      const engine = { ...hooks, homeOf, journalBytes: 0, isHomeOf: (canister: Canister) => homeOf.has(canister) };
      this.engines.push(engine);
      return engine;
    },
    dropEngine: (engine) => void this.dropped.push(engine),
    hasOthers: () => this.hasOthers,
    onYield: () => void this.yields++,
  });

  /** Simulates that the machine gives the processor to others. */
  lose(ms: number): void {
    this.nowMs += ms;
    this.lostMs += ms;
  }

  /** Adds a message of so many slices. */
  add(
    name: string,
    slices: number,
    sliceMs = 1,
    canister = canisterOf(name),
    journalBytes = 0,
    meanwhile = (): void => undefined,
  ): Canister {
    this.long.add(
      { canister, handle: 0 },
      this.#working(name, slices, () => sliceMs, canister, journalBytes, meanwhile),
    );
    return canister;
  }

  /** Adds work of the host's own. */
  addHostWork(name: string, slices: number, sliceMs = (_slice: number): number => 1): void {
    const canister = canisterOf(name);
    const run = this.#working(name, slices, sliceMs, canister, 0, () => undefined);
    this.long.addHostWork({ canister, handle: 0 }, run);
  }

  #working(
    name: string,
    slices: number,
    sliceMs: (slice: number) => number,
    canister: Canister,
    journalBytes: number,
    meanwhile: () => void,
  ): (engine: SlowEngine) => Promise<void> {
    return async (engine) => {
      for (const each of this.engines) each.homeOf.delete(canister);
      engine.homeOf.add(canister);
      engine.journalBytes = Math.max(engine.journalBytes, journalBytes);
      const running = { canister, engine, ranMs: 0 };
      this.running.set(name, running);
      this.begun.push(name);
      for (let n = 0; n < slices; n++) {
        this.nowMs += sliceMs(n);
        running.ranMs += sliceMs(n);
        meanwhile();
        const waiting = engine.onYield();
        if (waiting !== undefined) await waiting;
      }
      this.ended.push(name);
    };
  }

  ranMs(name: string): number {
    return this.running.get(name)?.ranMs ?? 0;
  }

  async turns(count: number): Promise<void> {
    for (let n = 0; n < count; n++) await this.long.turn();
  }

  async untilDone(): Promise<void> {
    while (this.long.count > 0) await this.long.turn();
  }
}

function canisterOf(name: string): Canister {
  return { name } as unknown as Canister;
}

function checkShares(thread: Thread, names: readonly string[]): void {
  const times = names.map((name) => thread.ranMs(name));
  const fair = times.reduce((sum, each) => sum + each, 0) / names.length;
  for (const [at, each] of times.entries())
    assert.ok(Math.abs(each / fair - 1) <= 0.2, `${names[at]} had ${each} of ${fair} ms: ${times.join(', ')}`);
}

test('a message that nobody waits for runs to its end in one turn', async () => {
  const thread = new Thread();
  thread.add('a', 1000);
  await thread.long.turn();
  assert.deepEqual(thread.ended, ['a']);
  assert.equal(thread.long.count, 0);
  assert.equal(thread.yields, 1000, 'what has been done before is published meanwhile');
});

test('without a message a turn ends at once', async () => {
  await new Thread().long.turn();
});

test('messages begin in the order in which they came, and each has its turn', async () => {
  const thread = new Thread();
  for (const name of ['a', 'b', 'c']) thread.add(name, 100);
  assert.deepEqual(thread.begun, [], 'none before its turn');
  assert.equal(thread.long.count, 3);
  await thread.turns(3);
  assert.deepEqual(thread.begun, ['a', 'b', 'c']);
  assert.deepEqual(
    ['a', 'b', 'c'].map((name) => thread.ranMs(name)),
    [TURN_MS, TURN_MS, TURN_MS],
  );
  await thread.untilDone();
  assert.deepEqual(thread.ended, ['a', 'b', 'c']);
});

test('64 messages get equal shares, whatever their slices take', async () => {
  const thread = new Thread();
  const sliceMs = [0.1, 0.3, 1, 1.5, 3, 7];
  const names = Array.from({ length: 64 }, (_, n) => `m${n}`);
  for (const [n, name] of names.entries()) thread.add(name, Infinity, sliceMs[n % sliceMs.length]);
  await thread.turns(64 * 60);
  checkShares(thread, names);
});

test('shares are equal beside a flood of short messages, too, which gets half', async () => {
  const thread = new Thread();
  const sliceMs = [0.3, 1, 1.5, 3];
  const names = sliceMs.map((each) => `slices of ${each} ms`);
  for (const [n, name] of names.entries()) thread.add(name, Infinity, sliceMs[n]);
  thread.hasOthers = true;
  let shortMs = 0;
  for (let n = 0; n < 2000; n++) {
    // The time passes for as long as the thread allows.
    thread.nowMs += 4;
    shortMs += 4;
    await thread.long.turn();
  }
  checkShares(thread, names);
  const longMs = thread.nowMs - shortMs;
  assert.ok(Math.abs(longMs / shortMs - 1) <= 0.2, `${longMs} ms long, ${shortMs} ms short`);
});

test('shares are of processor time: who is running when the machine is busy with others loses nothing by it', async () => {
  const thread = new Thread();
  const names = Array.from({ length: 8 }, (_, n) => `m${n}`);
  for (const name of names)
    thread.add(name, Infinity, 0.5, canisterOf(name), 0, () => {
      // Others also want the processor whenever this message has it.
      if (name === 'm3') thread.lose(3);
    });
  await thread.turns(8 * 100);
  checkShares(thread, names);
});

test('what a slice of many turns was too long is taken from the turns that follow', async () => {
  const thread = new Thread();
  const sliceMs = [0.5, 30, 0.5, 0.5];
  const names = sliceMs.map((each, n) => `m${n}, slices of ${each} ms`);
  for (const [n, name] of names.entries()) thread.add(name, Infinity, sliceMs[n]);
  await thread.turns(4 * 500);
  checkShares(thread, names);
});

test('short messages that need little get the thread soon, and a turn that they cut off goes on before the next', async () => {
  const thread = new Thread();
  for (const name of ['a', 'b']) thread.add(name, 100, 0.5);
  thread.hasOthers = true;
  const order: string[] = [];
  for (let n = 0; n < 16; n++) {
    thread.nowMs += 0.5;
    const before = thread.ranMs('a');
    await thread.long.turn();
    order.push(thread.ranMs('a') > before ? 'a' : 'b');
  }
  assert.deepEqual(order.join(''), 'aaaaaaaabbbbbbbb');
});

test('who has run alone for long does not pay for it when others come', async () => {
  const thread = new Thread();
  thread.add('a', Infinity);
  let looksLeft = 10_000;
  const comesLate = (): boolean => {
    if (--looksLeft === 0) thread.add('b', Infinity);
    return false;
  };
  Object.defineProperty(thread, 'hasOthers', { get: comesLate });
  await thread.long.turn();
  const aloneMs = thread.ranMs('a');
  assert.equal(aloneMs, 10_000, 'it gives way as soon as another one comes');
  await thread.turns(100);
  const afterMs = thread.ranMs('a') - aloneMs;
  assert.ok(Math.abs(afterMs / thread.ranMs('b') - 1) <= 0.2, `${afterMs} and ${thread.ranMs('b')} ms`);
});

test('beyond as many as may be under way, messages wait to begin, and each end lets one in', async () => {
  const thread = new Thread();
  const more = 50;
  for (let n = 0; n < LONG_MESSAGES_MAX + more; n++) thread.add(`m${n}`, n === 3 ? 3 : 30);
  assert.equal(thread.long.count, LONG_MESSAGES_MAX);
  await thread.turns(LONG_MESSAGES_MAX);
  assert.equal(thread.begun.length, LONG_MESSAGES_MAX);
  assert.deepEqual(thread.ended, ['m3']);
  await thread.long.turn();
  assert.equal(thread.begun.length, LONG_MESSAGES_MAX, 'it stands behind those that were there before');
  await thread.turns(LONG_MESSAGES_MAX);
  assert.equal(thread.begun.at(-1), `m${LONG_MESSAGES_MAX}`);
  await thread.untilDone();
  assert.equal(thread.ended.length, LONG_MESSAGES_MAX + more);
  assert.ok(thread.engines.length <= LONG_MESSAGES_MAX, `${thread.engines.length} engines`);
});

test('engines are made when messages begin, not when they come: others would wait for all of them', async () => {
  const thread = new Thread();
  for (let n = 0; n < 30; n++) thread.add(`m${n}`, 100);
  assert.equal(thread.engines.length, 0);
  await thread.turns(3);
  assert.equal(thread.engines.length, 3);
});

test('an engine is used again: by the canister that is on its journal already, if that comes', async () => {
  const thread = new Thread();
  // The work is longer than a turn, so that both messages are under way at once.
  const canister = thread.add('a', 6);
  thread.add('b', 6);
  await thread.untilDone();
  const [engineOfA, engineOfB] = thread.engines;
  thread.add('c', 1, 1);
  thread.add('a again', 1, 1, canister);
  await thread.untilDone();
  assert.equal(thread.engines.length, 2);
  assert.equal(thread.running.get('c')?.engine, engineOfB);
  assert.equal(thread.running.get('a again')?.engine, engineOfA);
  assert.deepEqual(thread.dropped, []);
});

test('an engine whose journal a message has made large is dropped, and so is what is more than is kept', async () => {
  const thread = new Thread();
  thread.add('large', 1, 1, canisterOf('large'), 64 * 2 ** 20 + 1);
  await thread.untilDone();
  assert.deepEqual(thread.dropped, thread.engines);
  thread.add('next', 1);
  await thread.untilDone();
  assert.equal(thread.engines.length, 2, 'the next message has a new one');
  for (let n = 0; n < 40; n++) thread.add(`m${n}`, 10);
  await thread.untilDone();
  assert.equal(thread.dropped.length, thread.engines.length - 16, '16 are kept');
});

/** Adds a message that waits between two slices; `wake` lets it go on. */
function addWaiting(thread: Thread, isRecalled?: () => boolean): { wake: () => void; outcome: boolean | undefined } {
  const waiting: ReturnType<typeof addWaiting> = { wake: () => undefined, outcome: undefined };
  const run = async (engine: SlowEngine): Promise<void> => {
    await engine.onYield();
    waiting.outcome = await engine.park((handle, wake) => {
      assert.equal(handle, 7);
      waiting.wake = wake;
    });
    await engine.onYield();
    thread.ended.push('waiting');
  };
  thread.long.add({ canister: canisterOf('waiting'), handle: 7 }, run, isRecalled);
  return waiting;
}

test('a message that waits for something else has no turn until that has happened, and others have theirs', async () => {
  const thread = new Thread();
  const waiting = addWaiting(thread);
  thread.add('a', 20);
  await thread.turns(20);
  assert.deepEqual(thread.ended, ['a']);
  assert.equal(thread.long.count, 1);
  assert.equal(thread.long.hasReady, false, 'the thread may sleep');
  await thread.long.turn();
  assert.equal(waiting.outcome, undefined);
  waiting.wake();
  assert.equal(thread.long.hasReady, true);
  await thread.untilDone();
  assert.equal(waiting.outcome, true);
  // The event may be reported twice.
  waiting.wake();
  assert.equal(thread.long.hasReady, false);
});

test('a message that is recalled while it waits goes on at once, and is told so', async () => {
  const thread = new Thread();
  let isRecalled = false;
  const waiting = addWaiting(thread, () => isRecalled);
  await thread.turns(2);
  thread.long.hurryRecalled();
  assert.equal(thread.long.hasReady, false);
  isRecalled = true;
  thread.long.hurryRecalled();
  assert.equal(thread.long.hasReady, true);
  await assert.rejects(thread.untilDone(), 'it ends at its next yield');
  assert.equal(waiting.outcome, false);
});

test('what goes wrong in the host inside of a message ends the turn with it', async () => {
  const thread = new Thread();
  thread.long.add({ canister: canisterOf('a'), handle: 0 }, () => Promise.reject(new Error('broken')));
  await assert.rejects(thread.long.turn(), /broken/);
});

test('work of the host has every other turn among endless loops, and owes none, however long its slices are', async () => {
  const kinds: readonly { readonly sliceMs: (slice: number) => number; readonly turns: number }[] = [
    { sliceMs: () => 1, turns: 12 / TURN_MS },
    { sliceMs: () => 3 * TURN_MS, turns: 12 },
    { sliceMs: (slice) => (slice === 0 ? 5 * TURN_MS : TURN_MS / 2), turns: 6 },
  ];
  for (const { sliceMs, turns } of kinds) {
    const thread = new Thread();
    for (let n = 0; n < 32; n++) thread.add(`loop ${n}`, 10_000);
    await thread.turns(40);
    thread.addHostWork('waking', 12, sliceMs);
    await thread.turns(2 * turns - 1);
    assert.deepEqual(thread.ended, [], 'between two of its turns a loop has one');
    await thread.turns(2);
    assert.deepEqual(thread.ended, ['waking']);
    await thread.turns(320);
    const names = Array.from({ length: 32 }, (_, n) => `loop ${n}`);
    checkShares(thread, names);
  }
});

test('two pieces of work of the host take turns, and have all of them without other messages', async () => {
  const thread = new Thread();
  thread.addHostWork('one', 3 * TURN_MS);
  thread.addHostWork('other', TURN_MS);
  await thread.turns(2);
  assert.deepEqual(thread.begun, ['one', 'other']);
  await thread.untilDone();
  assert.deepEqual(thread.ended, ['other', 'one']);
});

test('work of the host begins beside all messages that there may be, and lets no further one begin', async () => {
  const thread = new Thread();
  for (let n = 0; n < LONG_MESSAGES_MAX + 3; n++) thread.add(`loop ${n}`, 100_000);
  for (let round = 0; round < 3; round++) {
    thread.addHostWork(`waking ${round}`, 1);
    await thread.turns(2);
    assert.equal(thread.ended.at(-1), `waking ${round}`);
    assert.equal(thread.long.count, LONG_MESSAGES_MAX);
  }
});
