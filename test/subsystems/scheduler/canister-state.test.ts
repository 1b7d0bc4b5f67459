import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { idToText } from '../../../subsystems/ic/index.ts';
import type { CanisterState } from '../../../subsystems/scheduler/canister-state.ts';
import { ScheduledCanister } from '../../../subsystems/scheduler/scheduled-canister.ts';
import { DurableHost } from './durable-host.ts';
import { idOf } from './held-execution.ts';

/** The table of ARCHITECTURE.md ("Where an actor is"), with a way to bring a canister into each state. */
const TABLE: Readonly<
  Record<CanisterState, { readonly next: readonly CanisterState[]; readonly make: () => ScheduledCanister }>
> = {
  live: { next: ['evicted', 'lost', 'deleted'], make: () => new ScheduledCanister(7, idToText(idOf(7))) },
  evicted: { next: ['loading', 'deleted'], make: () => new ScheduledCanister(7, idToText(idOf(7)), 'evicted') },
  loading: { next: ['live', 'evicted', 'unloadable', 'deleted'], make: () => entered('evicted', 'loading') },
  unloadable: { next: ['deleted'], make: () => entered('loading', 'unloadable') },
  lost: { next: ['deleted'], make: () => entered('live', 'lost') },
  deleted: { next: [], make: () => entered('live', 'deleted') },
};
const STATES = Object.keys(TABLE) as CanisterState[];

function entered(from: CanisterState, state: CanisterState): ScheduledCanister {
  const canister = TABLE[from].make();
  canister.enter(state);
  return canister;
}

test('a canister goes from state to state as the table says, and every other change is refused', () => {
  for (const from of STATES) {
    for (const to of STATES) {
      const canister = TABLE[from].make();
      assert.equal(canister.state, from);
      if (TABLE[from].next.includes(to)) {
        canister.enter(to);
        assert.equal(canister.state, to);
      } else {
        assert.throws(() => canister.enter(to), { message: `canister 7 cannot go from ${from} to ${to}` });
        assert.equal(canister.state, from, 'a refused change leaves the state as it is');
      }
    }
  }
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
