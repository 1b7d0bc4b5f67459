import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { idToText } from '../../../subsystems/ic/index.ts';
import {
  DELETED,
  ELSEWHERE,
  EVICTED,
  type CanisterState,
  LIVE,
  LOST,
  type StateKind,
  UNUSABLE,
} from '../../../subsystems/scheduler/canister-state.ts';
import { ScheduledCanister } from '../../../subsystems/scheduler/scheduled-canister.ts';
import { DurableHost } from './durable-host.ts';
import { idOf, MODULE } from './held-execution.ts';

const LOADING: CanisterState = { kind: 'loading', isStatusNew: false, lostWakes: 0 };

/** The table of ARCHITECTURE.md ("Where an actor is"), with a way to bring a canister into each state. */
const TABLE: Readonly<
  Record<
    StateKind,
    { readonly next: readonly StateKind[]; readonly make: () => ScheduledCanister; state: CanisterState }
  >
> = {
  live: { next: ['evicted', 'lost', 'deleted'], make: () => canisterIn(LIVE), state: LIVE },
  evicted: { next: ['loading', 'deleted'], make: () => canisterIn(EVICTED), state: EVICTED },
  loading: {
    next: ['live', 'evicted', 'unloadable', 'deleted'],
    make: () => entered('evicted', 'loading'),
    state: LOADING,
  },
  unloadable: { next: ['deleted'], make: () => entered('loading', 'unloadable'), state: UNUSABLE },
  lost: { next: ['deleted'], make: () => entered('live', 'lost'), state: LOST },
  deleted: { next: [], make: () => entered('live', 'deleted'), state: DELETED },
  elsewhere: { next: [], make: () => canisterIn(ELSEWHERE), state: ELSEWHERE },
};
const STATES = Object.keys(TABLE) as StateKind[];

function canisterIn(state: typeof LIVE | typeof EVICTED | typeof ELSEWHERE): ScheduledCanister {
  return new ScheduledCanister(7, idToText(idOf(7)), state);
}

function entered(from: StateKind, to: StateKind): ScheduledCanister {
  const canister = TABLE[from].make();
  canister.enter(TABLE[to].state);
  return canister;
}

test('a canister goes from state to state as the table says, and every other change is refused', () => {
  for (const from of STATES) {
    for (const to of STATES) {
      const canister = TABLE[from].make();
      assert.equal(canister.state.kind, from);
      if (TABLE[from].next.includes(to)) {
        canister.enter(TABLE[to].state);
        assert.equal(canister.state, TABLE[to].state);
      } else {
        assert.throws(() => canister.enter(TABLE[to].state), { message: `canister 7 cannot go from ${from} to ${to}` });
        assert.equal(canister.state.kind, from, 'a refused change leaves the state as it is');
      }
    }
  }
});

test('a deed that a state does not allow is refused, with the deed and the state', () => {
  for (const kind of STATES) {
    const canister = TABLE[kind].make();
    const refused = (deed: string) => ({ message: `canister 7 cannot ${deed}: it is ${kind}` });
    if (kind === 'live') assert.equal(canister.expect('start', 'live'), canister.state);
    else assert.throws(() => canister.expect('start', 'live'), refused('start'));
    if (kind === 'loading' || kind === 'deleted') canister.expect('fail', 'loading', 'deleted');
    else assert.throws(() => canister.expect('fail', 'loading', 'deleted'), refused('fail'));
    if (kind !== 'live') assert.throws(() => canister.requestEviction(), refused('give way'));
    if (kind !== 'evicted') assert.throws(() => canister.shrink(), refused('give anything back'));
  }
});

test('states without facts of their own are one object, and nobody can change it', () => {
  for (const state of [LIVE, EVICTED, UNUSABLE, LOST, DELETED, ELSEWHERE]) assert.ok(Object.isFrozen(state));
  const canister = canisterIn(LIVE);
  canister.requestEviction();
  assert.ok(canister.isGivingWay && !canisterIn(LIVE).isGivingWay);
  canister.keepPlace();
  assert.equal(canister.state, LIVE);
});

test('a canister that begins unloadable says so to whoever needs it, instead of keeping them waiting', async () => {
  const host = new DurableHost().admit([0], { isUnloadable: true });
  await assert.rejects(host.scheduler.pin(0), { kind: 'missing', code: 'actor-rejected' });
  const change = { mode: 'install', argument: new Uint8Array(0), caller: Uint8Array.of(4) } as const;
  const { step } = await host.scheduler.change(0, MODULE, change);
  assert.match(step.fault?.message ?? '', /cannot be used/);
  assert.deepEqual(host.woken, []);
});

test('one that is deleted while it is being woken is missing, for whoever waits for it', async () => {
  const host = new DurableHost().admit([0], { isAsleep: true });
  host.holdsWakes = true;
  const pinned = host.scheduler.pin(0);
  await host.endTurn();
  host.scheduler.withdraw(0);
  await assert.rejects(pinned, { kind: 'missing', code: 'actor-missing' });
});

test('one that cannot be loaded is not tried again: whoever needs it is told why', async () => {
  const host = new DurableHost().admit([0], { isAsleep: true });
  host.holdsWakes = true;
  host.wakeProblem = new ServerError('missing', 'actor-rejected', 'damaged');
  const first = host.scheduler.pin(0);
  await host.endTurn();
  host.held[0]?.settle.resolve();
  await assert.rejects(first, host.wakeProblem);
  await assert.rejects(host.scheduler.pin(0), host.wakeProblem);
  host.clock.advance(60_000);
  await assert.rejects(host.scheduler.pin(0), host.wakeProblem);
  assert.equal(host.held.length, 1, 'it was loaded once');
});
