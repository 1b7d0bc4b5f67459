/** A machine whose clock was ahead, and is right after a restart: no actor's time stands still. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileMotoko } from '../../support/motoko.ts';
import type { Actor, Host } from '../semantics/host.ts';
import { Deployment } from './deployment.ts';

const HOUR_MS = 3_600_000;
const AHEAD_MS = 100 * HOUR_MS;

/**
 * Returns a command that runs the server with a clock that is ahead: `systemClock` is changed before anything reads it.
 */
const ahead = (ms: number): readonly string[] => [
  'env',
  `NODE_OPTIONS=--import=data:text/javascript,Object.defineProperty(performance,'timeOrigin',{value:performance.timeOrigin+${ms}})`,
];

const CLOCK = `
  import Time "mo:core/Time";
  import Timer "mo:core/Timer";
  persistent actor {
    var fired = 0;
    var repeated = 0;
    var early = 0;
    public func fireAfter(milliseconds : Nat) : async () {
      let due = Time.now() + milliseconds * 1_000_000;
      ignore Timer.setTimer<system>(#milliseconds milliseconds, func() : async () {
        fired += 1;
        if (Time.now() < due) early += 1;
      });
    };
    public func repeatEvery(milliseconds : Nat) : async () {
      ignore Timer.recurringTimer<system>(#milliseconds milliseconds, func() : async () { repeated += 1 });
    };
    public func now() : async Int { Time.now() };
    public query func counts() : async { fired : Nat; repeated : Nat; early : Nat } { { fired; repeated; early } };
  };`;

interface Counts {
  readonly fired: number;
  readonly repeated: number;
  readonly early: number;
}
const counts = async (host: Host, actor: Actor): Promise<Counts> => (await host.query(actor, 'counts')) as Counts;
const nowOf = async (host: Host, actor: Actor): Promise<number> => Number(await host.call(actor, 'now')) / 1e6;

for (const [mode, args] of Object.entries({ snapshots: [], 'a log': ['--snapshot-below', '0'] })) {
  test(`after a start with a clock 100 hours behind, kept by ${mode}, time goes on and timers fire, old ones and new ones`, async (t) => {
    const { wasm } = await compileMotoko(CLOCK);
    const deployment = await Deployment.create(t, { args: ['--timer-ms', '10', ...args], modules: { watch: wasm } });
    const early = await deployment.start([], 'ready', ahead(AHEAD_MS));
    const watch = await early.find('watch');
    assert.ok((await nowOf(early, watch)) > Date.now() + AHEAD_MS - HOUR_MS);
    assert.doesNotMatch(early.server.output.stderr, /the clock is behind/);
    await early.call(watch, 'repeatEvery', [50]);
    await early.call(watch, 'fireAfter', [1_000]);
    await early.until(async () => assert.ok((await counts(early, watch)).repeated >= 3));
    const seenMs = await nowOf(early, watch);
    await deployment.kill();

    let host = await deployment.start();
    assert.match(
      host.server.output.stderr,
      /the clock is behind what 1 actor\(s\) have seen as time, watch by 3\d{5} s/,
    );
    const fresh = await host.install('fresh', wasm);
    assert.ok(Math.abs((await nowOf(host, fresh)) - Date.now()) < HOUR_MS, 'others see the clock');
    // On a busy machine an answer takes some time: the time between two looks is between these bounds.
    const beforeMs = performance.now();
    const firstMs = await nowOf(host, watch);
    const firstSeenMs = performance.now();
    assert.ok(firstMs >= seenMs && firstMs < seenMs + HOUR_MS, 'it never goes back');
    const { repeated } = await counts(host, watch);
    await host.call(watch, 'fireAfter', [100]);
    await host.until(async () => {
      const now = await counts(host, watch);
      assert.equal(now.fired, 2, 'the one that was armed before, and the new one');
      assert.ok(now.repeated >= repeated + 5);
    });
    const againMs = performance.now();
    const passedMs = (await nowOf(host, watch)) - firstMs;
    const [leastMs, mostMs] = [againMs - firstSeenMs, performance.now() - beforeMs];
    assert.ok(passedMs > 0.5 * leastMs && passedMs <= mostMs, `${passedMs} ms of ${leastMs} to ${mostMs} have passed`);

    // After a graceful stop, too, the next start finds the clock behind.
    await deployment.stop();
    host = await deployment.start();
    assert.match(host.server.output.stderr, /the clock is behind/);
    await host.call(watch, 'fireAfter', [100]);
    await host.until(async () => assert.equal((await counts(host, watch)).fired, 3));
    assert.equal((await counts(host, watch)).early, 0, 'no job saw a time before the one it was due at');
    await deployment.stop();

    const right = await deployment.start([], 'ready', ahead(2 * AHEAD_MS));
    assert.doesNotMatch(right.server.output.stderr, /the clock is behind/);
    assert.ok(Math.abs((await nowOf(right, watch)) - (Date.now() + 2 * AHEAD_MS)) < HOUR_MS, 'the clock has caught up');
    await deployment.stop();
  });
}
