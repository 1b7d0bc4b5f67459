/** A timeline over a storage whose units never end: a question is answered with what was durable when it came. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TakenUnits } from '../../../subsystems/archive/index.ts';
import { KeptTimeline } from '../../../subsystems/timeline/kept-timeline.ts';
import { type ActorUnits, WriteBatch } from '../../../subsystems/storage/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { TimedHost } from './timed-host.ts';

/** Takes before the storage says that there is no more, so that a wrong timeline fails instead of never ending. */
const ENDLESS = 200;

/** A storage in which each unit that is taken is followed by another. */
class Endless {
  readonly host = new TimedHost(seeded(5), 1);
  readonly timeline: KeptTimeline;
  /** Units that were handed out. */
  taken = 0;
  close = (): Promise<void> => Promise.resolve();

  /** `commitsAmidBase`: units that are committed while a base is read. */
  constructor(directory: string, commitsAmidBase: number) {
    const { host } = this;
    const units: ActorUnits = {
      stateFormat: 3,
      directory,
      get durable() {
        return host.unit + 8;
      },
      take: () => Promise.resolve({ units: this.#next(), isBehindGap: false }),
      onWaiting: () => undefined,
      onClosing: (close) => void (this.close = close),
      image: (id) => {
        for (let unit = 0; unit < commitsAmidBase; unit++) host.next();
        return Promise.resolve({ ...host.imageOf(id), from: host.unit - commitsAmidBase });
      },
      module: () => Promise.resolve(undefined),
    };
    const nothing = (): void => undefined;
    const storage = { unit: new WriteBatch(), markDirty: nothing, onSeal: nothing, settled: () => Promise.resolve() };
    this.timeline = new KeptTimeline(
      { storage, units, clock: new FakeClock(host.timeMs), log: { warn: assert.fail, info: nothing } },
      { seconds: 1e9, bytes: 2 ** 30, isSynced: false },
      { version: '', policy: '' },
    );
    this.timeline.start();
  }

  #next(): TakenUnits | undefined {
    if (this.taken === ENDLESS) return undefined;
    if (this.taken === this.host.frames.length) this.host.next();
    const frame = new Uint8Array(this.host.frames[this.taken++] ?? assert.fail());
    const [unit, ms] = [this.taken, this.host.timeMs];
    return { frames: [frame], bytes: frame.length, first: unit, last: unit, firstMs: ms, lastMs: ms };
  }

  get id(): Uint8Array {
    return this.host.actors[0]?.id ?? assert.fail();
  }
}

test('a question waits for the units that are durable, and for none that come meanwhile', async () => {
  const endless = new Endless(await temporaryDirectory(), 0);
  const { entries } = await endless.timeline.entries(endless.id, { from: undefined, to: undefined, limit: 10 });
  assert.ok(entries.length > 0);
  assert.ok(endless.taken < 20, `${endless.taken} takes for one question`);
  await endless.close();
});

test('a question waits for the units that a base has besides: the state is that of its message', async () => {
  const endless = new Endless(await temporaryDirectory(), 20);
  const { seq, sha256 } = await endless.timeline.stateAt(endless.id, { kind: 'now' });
  assert.equal(sha256.heap, endless.host.noted[seq - 1]?.heap);
  assert.ok(endless.taken < ENDLESS);
  await endless.close();
});
