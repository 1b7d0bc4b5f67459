/** Idle canisters give way when memory is wanted, and whoever wants it is not told in no time that nobody can. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Relief } from '../../../subsystems/scheduler/relief.ts';
import type { ScheduledCanister } from '../../../subsystems/scheduler/scheduled-canister.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const MIB = 2 ** 20;

/** Memory of 1,000 bytes, all of it in use, and idle canisters of 100 bytes each, the coldest first. */
class Host {
  readonly clock = new FakeClock();
  readonly memory = { bytesUsed: 1_000, bytesHigh: 1_000, bytesMax: 1_000, refusals: 0 };
  idleBytes: number[];
  trims = 0;
  /** Functions that end the sleep of large canisters. */
  readonly stored: (() => void)[] = [];
  readonly relief: Relief;
  /** Asks for memory as an executor does. */
  want: (bytes: number) => Promise<unknown> = () => Promise.resolve();

  constructor(...idleBytes: number[]) {
    this.idleBytes = idleBytes;
    const execution = {
      memory: this.memory as unknown as ConstructorParameters<typeof Relief>[1]['memory'],
      attendMemory: (answer: (bytes: number) => Promise<unknown>) => {
        this.want = answer;
      },
      trim: async () => void this.trims++,
    };
    this.relief = new Relief(this.clock, execution, {
      coldest: (mayGo) => this.idleBytes.map(canisterOf).find(mayGo),
      bytesOf,
      putToSleep: async (canister) => {
        const bytes = bytesOf(canister);
        this.idleBytes.splice(this.idleBytes.indexOf(bytes), 1);
        if (bytes >= 16 * MIB) await new Promise<void>((resolve) => this.stored.push(resolve));
        this.memory.bytesUsed -= bytes;
      },
    });
  }

  get idle(): number {
    return this.idleBytes.length;
  }

  /** Asks for memory; `given`: the answer, once it has come. */
  async answer(bytesWanted: number): Promise<{ given: unknown }> {
    const answer: { given: unknown } = { given: undefined };
    void this.want(bytesWanted).then((given) => (answer.given = given));
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    return answer;
  }
}

function canisterOf(bytes: number): ScheduledCanister {
  return { handle: bytes } as unknown as ScheduledCanister;
}

function bytesOf({ handle }: ScheduledCanister): number {
  return handle;
}

suite('relief', () => {
  test('is told at once when idle canisters have given way', async () => {
    const host = new Host(100, 100, 100);
    assert.deepEqual(await host.answer(150), { given: true });
    assert.deepEqual([host.idle, host.memory.bytesUsed], [1, 800]);
  });

  test('is told at once that it is in vain to ask again where all have given way, and it is not enough', async () => {
    const host = new Host(100, 100, 100);
    assert.deepEqual(await host.answer(500), { given: false });
    assert.deepEqual([host.idle, host.memory.bytesUsed], [0, 700]);
  });

  test('is told at once when nothing is lacking', async () => {
    const host = new Host();
    host.memory.bytesUsed = 500;
    assert.deepEqual(await host.answer(500), { given: true });
    assert.equal(host.trims, 0);
  });

  test('takes its time where nobody can give way, and tells at once whoever tries again by himself', async () => {
    const host = new Host();
    const answer = await host.answer(100);
    assert.equal(answer.given, undefined);
    host.clock.advance(49);
    await nextTurn();
    assert.equal(answer.given, undefined);
    host.clock.advance(1);
    await nextTurn();
    assert.equal(answer.given, false, 'nobody has given way');
    assert.equal(await host.relief.makeRoom(100), false);
  });

  test('is told to ask again where memory has become free meanwhile', async () => {
    const host = new Host();
    const answer = await host.answer(100);
    host.memory.bytesUsed -= 100;
    host.clock.advance(50);
    await nextTurn();
    assert.equal(answer.given, true);
  });

  test('small ones give way to little where the coldest is large, and takes long to be stored', async () => {
    const host = new Host(600 * MIB, 5 * MIB, 5 * MIB, 5 * MIB);
    host.memory.bytesMax = host.memory.bytesUsed = 1_000 * MIB;
    // The rest of what is to become free may take its time.
    host.memory.bytesHigh = 900 * MIB;
    const answer = await host.answer(6 * MIB);
    assert.deepEqual([answer.given, host.idle], [undefined, 3]);
    host.clock.advance(250);
    for (let turn = 0; turn < 9; turn++) await nextTurn();
    assert.deepEqual([answer.given, host.idle], [true, 1], 'no more than it takes');
  });

  test('small ones give way to little that is wanted behind much', async () => {
    const host = new Host(600 * MIB, 500 * MIB, 5 * MIB, 5 * MIB, 5 * MIB);
    host.memory.bytesMax = host.memory.bytesHigh = host.memory.bytesUsed = 2_000 * MIB;
    const much = await host.answer(400 * MIB);
    const little = await host.answer(6 * MIB);
    assert.deepEqual([much.given, little.given, host.idle], [undefined, undefined, 4]);
    host.clock.advance(250);
    for (let turn = 0; turn < 9; turn++) await nextTurn();
    assert.deepEqual([much.given, little.given, host.idle], [undefined, true, 2]);
    host.stored.shift()?.();
    for (let turn = 0; turn < 9; turn++) await nextTurn();
    assert.deepEqual([much.given, host.idle], [true, 2]);
  });

  test('little waits for a large one where there is no small one', async () => {
    const host = new Host(600 * MIB, 500 * MIB);
    host.memory.bytesMax = host.memory.bytesHigh = host.memory.bytesUsed = 2_000 * MIB;
    const answer = await host.answer(6 * MIB);
    host.clock.advance(250);
    for (let turn = 0; turn < 9; turn++) await nextTurn();
    assert.deepEqual([answer.given, host.idle], [undefined, 1], 'the other large one stays');
    host.stored.shift()?.();
    for (let turn = 0; turn < 9; turn++) await nextTurn();
    assert.deepEqual([answer.given, host.idle], [true, 1]);
  });
});
