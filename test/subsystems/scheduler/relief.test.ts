/** Idle canisters give way when memory is wanted, and whoever wants it is not told in no time that nobody can. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Relief } from '../../../subsystems/scheduler/relief.ts';
import type { ScheduledCanister } from '../../../subsystems/scheduler/scheduled-canister.ts';
import { FakeClock } from '../../support/fake-clock.ts';

/** Memory of 1,000 bytes, all of it in use, and idle canisters of 100 bytes each. */
class Host {
  readonly clock = new FakeClock();
  readonly memory = { bytesUsed: 1_000, bytesHigh: 1_000, bytesMax: 1_000, refusals: 0 };
  idle: number;
  trims = 0;
  readonly relief: Relief;
  /** Asks for memory as an executor does. */
  want: (bytes: number) => Promise<unknown> = () => Promise.resolve();

  constructor(idle: number) {
    this.idle = idle;
    const execution = {
      memory: this.memory as unknown as ConstructorParameters<typeof Relief>[1]['memory'],
      attendMemory: (answer: (bytes: number) => Promise<unknown>) => {
        this.want = answer;
      },
      trim: async () => void this.trims++,
    };
    this.relief = new Relief(this.clock, execution, {
      coldest: () => (this.idle === 0 ? undefined : ({} as unknown as ScheduledCanister)),
      bytesOf: () => 100,
      putToSleep: async () => {
        this.idle--;
        this.memory.bytesUsed -= 100;
      },
    });
  }

  /** Asks for memory; `given`: the answer, once it has come. */
  async answer(bytesWanted: number): Promise<{ given: unknown }> {
    const answer: { given: unknown } = { given: undefined };
    void this.want(bytesWanted).then((given) => (answer.given = given));
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    return answer;
  }
}

suite('relief', () => {
  test('is told at once when idle canisters have given way', async () => {
    const host = new Host(3);
    assert.deepEqual(await host.answer(150), { given: true });
    assert.deepEqual([host.idle, host.memory.bytesUsed], [1, 800]);
  });

  test('is told at once that it is in vain to ask again where all have given way, and it is not enough', async () => {
    const host = new Host(3);
    assert.deepEqual(await host.answer(500), { given: false });
    assert.deepEqual([host.idle, host.memory.bytesUsed], [0, 700]);
  });

  test('is told at once when nothing is lacking', async () => {
    const host = new Host(0);
    host.memory.bytesUsed = 500;
    assert.deepEqual(await host.answer(500), { given: true });
    assert.equal(host.trims, 0);
  });

  test('takes its time where nobody can give way, and tells at once whoever tries again by himself', async () => {
    const host = new Host(0);
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
    const host = new Host(0);
    const answer = await host.answer(100);
    host.memory.bytesUsed -= 100;
    host.clock.advance(50);
    await nextTurn();
    assert.equal(answer.given, true);
  });
});
