/** A client that takes nothing of a capsule does not keep others from having theirs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { suite, test, type TestContext } from 'node:test';
import { NoReplay } from '../../../subsystems/replay/no-replay.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { type HttpHost, startHttpHost } from './counter-host.ts';

const MEBIBYTE = 2 ** 20;

/** Makes a capsule without end. */
class EndlessReplay extends NoReplay {
  handedOut = 0;
  isOver = false;

  override async *capsule(): AsyncGenerator<never> {
    try {
      for (;;) {
        this.handedOut++;
        yield (await Promise.resolve(new Uint8Array(MEBIBYTE))) as never;
      }
    } finally {
      this.isOver = true;
    }
  }
}

suite('a capsule whose client takes nothing', () => {
  async function stalled(t: TestContext): Promise<{ host: HttpHost; replay: EndlessReplay; clock: FakeClock }> {
    const replay = new EndlessReplay();
    const clock = new FakeClock();
    const host = await startHttpHost(t, { replay, clock });
    const request = get(`${host.origin}/x/time/capsule/counter?seq=1`, { agent: false });
    request.on('error', () => undefined);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => undefined).pause();
    t.after(() => request.destroy());
    // Pieces are sent until the buffers between the two are full; then time passes.
    for (let before = -1; before !== replay.handedOut;) {
      before = replay.handedOut;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.equal(replay.isOver, false);
    return { host, replay, clock };
  }
  const until = async (isTrue: () => boolean): Promise<void> => {
    while (!isTrue()) await new Promise((resolve) => setImmediate(resolve));
  };

  test('is cut off after 15 s', async (t) => {
    const { replay, clock, host } = await stalled(t);
    clock.advance(14_750);
    assert.equal(replay.isOver, false);
    clock.advance(250);
    await until(() => replay.isOver);
    await until(() => host.log.warnings.length === 1);
    assert.match(host.log.warnings[0] ?? '', /the client has taken nothing for 15000 ms$/);
  });

  test('ends when its actor is deleted', async (t) => {
    const { replay, clock, host } = await stalled(t);
    for (const watcher of host.canisters.watchers.keys()) watcher.removed();
    clock.advance(250);
    await until(() => replay.isOver);
  });
});
