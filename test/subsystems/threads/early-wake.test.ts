import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { EarlyWake, SpinGate } from '../../../subsystems/threads/index.ts';
import { listeningRing } from '../../support/listening-ring.ts';

const WITHIN_MS = 30;

/** Makes a consumer that sleeps, and counts its wakes; `expect` resolves to true if it was woken. */
function sleeper(t: TestContext) {
  const { producer, seen, send: publish } = listeningRing(t);
  const early = new EarlyWake(producer, WITHIN_MS, new SpinGate(true));
  const asleep = async (): Promise<void> => {
    for (let k = 0; k < 1_000 && producer.isHeard; k++) await sleep(1);
    assert.ok(!producer.isHeard);
  };
  const expect = async (): Promise<boolean> => {
    await asleep();
    const { wakes } = seen;
    early.expect();
    early.expect();
    assert.ok(!producer.isHeard, 'behind what else this turn sends');
    for (let k = 0; k < 5; k++) await new Promise(setImmediate);
    assert.ok(seen.wakes <= wakes + 1, 'once');
    return seen.wakes > wakes;
  };
  const send = (): void => {
    early.comes();
    publish();
  };
  return { seen, expect, send, early, asleep, producer };
}

test('who sleeps is woken for what is to come, each time as long as it comes soon', async (t) => {
  const { seen, expect, send, asleep } = sleeper(t);
  for (let round = 1; round <= 20; round++) {
    assert.ok(await expect(), `round ${round}`);
    assert.equal(seen.records, round - 1, 'before anything is there');
    send();
    await asleep();
    assert.equal(seen.records, round);
  }
});

test('what comes late, or not at all, is woken for less and less often, and is taken all the same', async (t) => {
  for (const comes of [true, false]) {
    const { seen, expect, send, asleep } = sleeper(t);
    let early = 0;
    let sent = 0;
    for (let round = 0; round < 30; round++) {
      if (!(await expect())) continue;
      early++;
      await sleep(comes ? WITHIN_MS + 5 : 0);
      if (!comes) continue;
      send();
      sent++;
      await asleep();
    }
    assert.ok(early >= 3 && early <= 6, `${early} of 30 times`);
    assert.equal(seen.records, sent);
  }
});

test('who is awake is left alone, and nothing that was not expected is taken for late', async (t) => {
  const { seen, expect, send, early, producer, asleep } = sleeper(t);
  for (let round = 0; round < 10; round++) {
    await asleep();
    send();
    assert.ok(producer.isHeard);
    early.expect();
    await asleep();
    assert.equal(seen.wakes, round + 1);
  }
  assert.ok(await expect(), 'it was never in vain');
});
