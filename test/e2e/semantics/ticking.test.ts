/** Heartbeats and timers of Motoko actors, at the intervals of the flags. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Actor, compileActor, type Host, PERSISTENCE, sharedHost } from './host.ts';

interface Counts {
  readonly beats: number;
  readonly echoes: number;
  readonly fired: number;
  readonly repeated: number;
  readonly trapped: number;
}
const counts = async (host: Host, actor: Actor): Promise<Counts> => (await host.query(actor, 'counts')) as Counts;

for (const persistence of PERSISTENCE) {
  suite(`ticking with ${persistence} persistence`, () => {
    test('setTimer fires once, recurringTimer again and again until it is cancelled', async () => {
      const host = await sharedHost({ args: ['--timer-ms', '10', '--heartbeat-ms', '0'] });
      const clock = await host.install('clock', await compileActor('Clock', persistence));
      await host.call(clock, 'fireAfter', [30]);
      await host.call(clock, 'fireAfter', [60]);
      await host.call(clock, 'repeatEvery', [20]);
      await host.until(async () => {
        const { fired, repeated } = await counts(host, clock);
        assert.equal(fired, 2);
        assert.ok(repeated >= 5);
      });
      await host.call(clock, 'cancel');
      const { repeated } = await counts(host, clock);
      await sleep(150);
      assert.equal((await counts(host, clock)).repeated, repeated);
      assert.equal((await counts(host, clock)).fired, 2);
    });

    test('a job that traps is undone, and jobs after it still fire', async () => {
      const host = await sharedHost({ args: ['--timer-ms', '10'] });
      const clock = await host.install('clock', await compileActor('Clock', persistence));
      await host.call(clock, 'trapAfter', [10]);
      await host.call(clock, 'fireAfter', [50]);
      await host.until(async () => assert.equal((await counts(host, clock)).fired, 1));
      assert.equal((await counts(host, clock)).trapped, 0);
    });

    test('an upgrade ends the timers, a stop only holds them back', async () => {
      const host = await sharedHost({ args: ['--timer-ms', '10'] });
      const module = await compileActor('Clock', persistence);
      const clock = await host.install('clock', module);
      await host.call(clock, 'fireAfter', [300]);
      await host.change(clock, 'stop');
      await sleep(400);
      await host.change(clock, 'start');
      await host.until(async () => assert.equal((await counts(host, clock)).fired, 1));
      // The timer must not fire before the upgrade has come, however busy the machine is.
      for (let delayMs = 200; ; delayMs *= 4) {
        const { fired } = await counts(host, clock);
        const beganMs = performance.now();
        await host.call(clock, 'fireAfter', [delayMs]);
        assert.equal((await host.change(clock, 'upgrade', module)).body, 'upgraded');
        if (performance.now() - beganMs >= delayMs) continue;
        await sleep(2 * delayMs);
        assert.equal((await counts(host, clock)).fired, fired);
        break;
      }
    });

    test('a heartbeat comes on its cadence and may await; a stopped actor has none', async () => {
      const host = await sharedHost({ args: ['--heartbeat-ms', '50'] });
      const heart = await host.install('heart', await compileActor('Heart', persistence));
      const beganMs = performance.now();
      const { beats: first } = await counts(host, heart);
      await host.until(async () => assert.ok((await counts(host, heart)).beats >= first + 10));
      const passedMs = performance.now() - beganMs;
      assert.ok(passedMs > 300, `ten beats within ${passedMs} ms`);
      let runningMs = -performance.now();
      const { beats, echoes } = await counts(host, heart);
      assert.ok(beats - echoes <= 1, `${beats} beats, ${echoes} of them ended`);
      await host.change(heart, 'stop');
      runningMs += performance.now();
      await sleep(400);
      runningMs -= performance.now();
      await host.change(heart, 'start');
      const { beats: last } = await counts(host, heart);
      runningMs += performance.now();
      assert.ok(last <= beats + 2 + runningMs / 50, `${last - beats} beats within ${runningMs.toFixed(0)} ms`);
      const { body } = await host.server.get(`/cycles/${heart.name}`);
      assert.ok(BigInt(body) < 100_000_000_000_000n, 'a beat is a message and is charged');
    });
  });
}

suite('turned off', () => {
  test('--heartbeat-ms 0 leaves timers on, --timer-ms 0 leaves heartbeats on', async () => {
    const module = await compileActor('Heart');
    const silent = await sharedHost({ args: ['--heartbeat-ms', '0', '--timer-ms', '10'] });
    const one = await silent.install('heart', module);
    await silent.call(one, 'fireSoon');
    await silent.until(async () => assert.equal((await counts(silent, one)).fired, 1));
    assert.equal((await counts(silent, one)).beats, 0);

    const timeless = await sharedHost({ args: ['--timer-ms', '0', '--heartbeat-ms', '20'] });
    const other = await timeless.install('heart', module);
    await timeless.call(other, 'fireSoon');
    await timeless.until(async () => assert.ok((await counts(timeless, other)).beats > 5));
    assert.equal((await counts(timeless, other)).fired, 0);
  });
});
