/** A timeline over a storage whose units never end: a question is answered with what was durable when it came. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ActorUnits } from '../../../subsystems/storage/index.ts';
import { KeptTimeline } from '../../../subsystems/timeline/kept-timeline.ts';
import { WriteBatch } from '../../../subsystems/storage/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { TimedHost } from './timed-host.ts';

/** Takes before the storage says that there is no more, so that a wrong timeline fails instead of never ending. */
const ENDLESS = 200;

test('a question waits for the units that are durable, and for none that come meanwhile', async () => {
  const host = new TimedHost(seeded(5), 1);
  const directory = await temporaryDirectory();
  let closing = (): Promise<void> => Promise.resolve();
  let taken = 0;
  const units: ActorUnits = {
    stateFormat: 3,
    directory,
    get durable() {
      return host.unit + 8;
    },
    take: () => {
      if (++taken > ENDLESS) return Promise.resolve({ units: undefined, isBehindGap: false });
      const frame = new Uint8Array(host.next());
      const [unit, ms] = [host.unit, host.timeMs];
      const handedOut = { frames: [frame], bytes: frame.length, first: unit, last: unit, firstMs: ms, lastMs: ms };
      return Promise.resolve({ units: handedOut, isBehindGap: false });
    },
    onWaiting: () => undefined,
    onClosing: (close) => void (closing = close),
    image: (id) => Promise.resolve(host.imageOf(id)),
    module: () => Promise.resolve(undefined),
  };
  const storage = {
    unit: new WriteBatch(),
    markDirty: () => undefined,
    onSeal: () => undefined,
    settled: () => Promise.resolve(),
  };
  const timeline = new KeptTimeline(
    { storage, units, clock: new FakeClock(host.timeMs), log: { warn: assert.fail, info: () => undefined } },
    { seconds: 1e9, bytes: 2 ** 30, isSynced: false },
    { version: '', policy: '' },
  );
  timeline.start();
  const [actor] = host.actors;
  const { entries } = await timeline.entries(actor?.id ?? assert.fail(), { from: undefined, to: undefined, limit: 10 });
  assert.ok(entries.length > 0);
  assert.ok(taken < 20, `${taken} takes for one question`);
  await closing();
});
