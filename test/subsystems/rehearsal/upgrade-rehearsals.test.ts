/** Ends of rehearsals that are not the code's: a minute is over, or an executor runs nothing any more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CodeChange, Execution, ModuleInfo } from '../../../subsystems/execution/index.ts';
import { type EndedStep, NOTHING_RAN, type Step, TAKEN_BACK, type ToldStep } from '../../../subsystems/ic/index.ts';
import type { RehearsedUpgrade } from '../../../subsystems/rehearsal/index.ts';
import { UpgradeRehearsals } from '../../../subsystems/rehearsal/upgrade-rehearsals.ts';
import type { PastState, Timeline, TimelinePage } from '../../../subsystems/timeline/index.ts';
import { FakeClock } from '../../support/fake-clock.ts';

const LATE_MS = 60_000;
const BYTES = new Uint8Array();
const PLACE = { seq: 7, unit: 9, timeMs: 0 };

const STOPPING = {
  ...NOTHING_RAN,
  fault: { kind: 'unavailable', code: 2, message: 'the server is stopping' },
} as const;

/** Hooks up to `endless` end at once; that one goes on until it is recalled, or ends with `lastStep`. */
function rehearsing(
  endless: number,
  lastStep?: Step,
): { clock: FakeClock; copies: Set<number>; rehearsals: UpgradeRehearsals } {
  const clock = new FakeClock();
  const copies = new Set<number>();
  const waiting = new Map<number, (ended: EndedStep) => void>();
  let hooks = 0;
  const create = (): number => {
    copies.add(copies.size);
    return copies.size - 1;
  };
  const execution = {
    keep: () => ({ [Symbol.dispose]: () => undefined }),
    create,
    restore: () => Promise.resolve(),
    configure: () => undefined,
    remove: (handle: number) => copies.delete(handle),
    recall: (handle: number) => waiting.get(handle)?.({ isReturned: true, step: TAKEN_BACK } as EndedStep),
    change: (handle: number, _module: ModuleInfo, _change: CodeChange, ended: (ended: EndedStep) => void) => {
      const isLast = hooks++ === endless;
      if (isLast && lastStep === undefined) {
        waiting.set(handle, ended);
        // The clock moves when the rehearsal waits.
        setImmediate(() => clock.advance(LATE_MS));
      } else {
        const step = (isLast ? lastStep : undefined) ?? NOTHING_RAN;
        ended({ isReturned: false, step, lines: [] } as unknown as ToldStep);
      }
    },
  } as unknown as Execution;
  const page: TimelinePage = { entries: [], next: undefined, reach: { from: PLACE, to: PLACE } };
  const note = { kind: 'update', outcome: 'reply', openCalls: 0 };
  const entries = [{ ...PLACE, note, bytes: 0 }] as unknown as TimelinePage['entries'];
  const past = { ...PLACE, image: {}, moduleHash: 'a', balance: 0n, version: 1 } as unknown as PastState;
  const timeline = {
    entries: (_id: Uint8Array, { from }: { from: unknown }) =>
      Promise.resolve(from === undefined ? page : { ...page, entries }),
    stateAt: () => Promise.resolve(past),
  } as unknown as Timeline;
  return { clock, copies, rehearsals: new UpgradeRehearsals({ execution, timeline, clock }, { policy: 'refuse' }) };
}

function upgradeWith(copies: Set<number>): RehearsedUpgrade {
  const module = { hash: 'a', methods: new Map(), entries: new Map() } as unknown as ModuleInfo;
  const code = { module, candid: undefined };
  const change = { mode: 'upgrade', keepsHeap: true, skipsPreUpgrade: false, argument: BYTES, caller: BYTES } as const;
  const copyOfNow = (): Promise<number> => {
    copies.add(1_000);
    return Promise.resolve(1_000);
  };
  const specOfCopy = (): never => ({}) as never;
  return { id: BYTES, name: 'shop', from: code, to: code, change, specOfCopy, copyOfNow };
}

test('hooks that take longer than a minute end a rehearsal with an error, those on the past with a reason', async () => {
  const now = rehearsing(0);
  const signal = new AbortController().signal;
  await assert.rejects(now.rehearsals.rehearse(upgradeWith(now.copies), 5, signal), { code: 'rehearsal-late' });
  const then = rehearsing(1);
  const { hooks, replayed } = await then.rehearsals.rehearse(upgradeWith(then.copies), 5, signal);
  assert.deepEqual([hooks.outcome, replayed?.count], ['done', 0]);
  assert.equal(replayed?.why, 'the rehearsal took longer than 60 s');
  for (const { copies, clock } of [now, then])
    assert.deepEqual([copies.size, clock.pending], [0, 0], 'nothing of it stays');
});

test('what an executor did not run is no fault of the code: the rehearsal is over', async () => {
  for (const endless of [0, 1]) {
    const { copies, clock, rehearsals } = rehearsing(endless, STOPPING);
    await assert.rejects(rehearsals.rehearse(upgradeWith(copies), 5, new AbortController().signal), {
      code: 'rehearsal-ended',
      message: 'the rehearsal was ended: the server is stopping',
    });
    assert.deepEqual([copies.size, clock.pending], [0, 0], 'nothing of it stays');
  }
});
