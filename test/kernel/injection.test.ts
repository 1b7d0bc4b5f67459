import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Clock, defineCapability } from '../../kernel/index.ts';
import { assemble, grant, injectionToken, injects } from '../../kernel/injection.ts';
// After injection.ts, which loads what tsyringe stands on.
import { container } from 'tsyringe';
import { FakeClock } from '../support/fake-clock.ts';

interface Store {
  read(): string;
}
const Store = defineCapability<Store>('store');

let queuesBuilt = 0;
class Queues {
  readonly store: Store;
  constructor(store: Store) {
    this.store = store;
    queuesBuilt++;
  }
}
class Timers {
  readonly queues: Queues;
  readonly clock: Clock;
  constructor(queues: Queues, clock: Clock) {
    this.queues = queues;
    this.clock = clock;
  }
}
class RoundScheduler {
  readonly timers: Timers;
  readonly queues: Queues;
  constructor(timers: Timers, queues: Queues) {
    this.timers = timers;
    this.queues = queues;
  }
}
injects(Queues, Store);
injects(Timers, Queues, Clock);
injects(RoundScheduler, Timers, Queues);

const store: Store = { read: () => 'stored' };

test('a graph of classes is built from its grants, each class once', () => {
  queuesBuilt = 0;
  const clock = new FakeClock();
  const scheduler = assemble(RoundScheduler, grant(Clock, clock), grant(Store, store));
  assert.equal(scheduler.timers.clock, clock);
  assert.equal(scheduler.queues.store.read(), 'stored');
  assert.equal(scheduler.timers.queues, scheduler.queues);
  assert.equal(queuesBuilt, 1);
  assert.notEqual(assemble(Queues, grant(Store, store)), scheduler.queues);
});

test('a missing grant is named with the class that needs it, before anything is built', () => {
  queuesBuilt = 0;
  assert.throws(
    () => assemble(RoundScheduler, grant(Store, store)),
    /^Error: Timers needs 'clock', which was not granted$/,
  );
  assert.equal(queuesBuilt, 0);
});

test('a class that does not say what it needs is named', () => {
  class Silent {
    readonly needs = 'nothing it tells of';
  }
  assert.throws(() => assemble(Silent), /Silent does not say what it needs: call injects\(Silent, …\)/);
});

test('classes that need each other are refused', () => {
  interface Egg {
    readonly layer: unknown;
  }
  class Chicken {
    readonly egg: Egg;
    constructor(egg: Egg) {
      this.egg = egg;
    }
  }
  class LaidEgg implements Egg {
    readonly layer: Chicken;
    constructor(layer: Chicken) {
      this.layer = layer;
    }
  }
  injects(Chicken, LaidEgg);
  injects(LaidEgg, Chicken);
  assert.throws(() => assemble(Chicken), /Chicken → LaidEgg → Chicken/);
});

test('the global container stays empty', () => {
  assemble(Queues, grant(Store, store));
  assert.equal(container.isRegistered(injectionToken(Store)), false);
  assert.equal(container.isRegistered(Queues), false);
});

test('the compiler checks the list against the constructor and the value against the capability', () => {
  // Never called: tsc fails on an expected error that is not there.
  const rejected = (): void => {
    // @ts-expect-error a clock is no store
    injects(Queues, Clock);
    // @ts-expect-error the second parameter is missing
    injects(Timers, Queues);
    // @ts-expect-error a store is no clock
    grant(Clock, store);
  };
  assert.equal(typeof rejected, 'function');
});
