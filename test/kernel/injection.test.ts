import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Clock, defineCapability, definePlugin, PluginError } from '../../kernel/index.ts';
import { assemble, type Class, defineClassPlugin, grant, injectionToken, injects } from '../../kernel/injection.ts';
// The import follows injection.ts, which loads a module that tsyringe needs.
import { container } from 'tsyringe';
import { FakeClock } from '../support/fake-clock.ts';
import { fakeAmbient, startKernel } from '../support/kernel.ts';

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

interface Greeter {
  greet(): string;
}
const Greeter = defineCapability<Greeter>('greeter');
interface Words {
  readonly hello: string;
}
const Words = defineCapability<Words>('words');
const words = definePlugin({ name: 'words', provides: Words, requires: {}, create: () => ({ hello: 'good day' }) });

test('a plugin may be a class with others that it needs, built from what the plugin requires', async (t) => {
  class Grammar {
    readonly words: Words;
    constructor(given: Words) {
      this.words = given;
    }
  }
  class LoudGreeter implements Greeter {
    readonly #grammar: Grammar;
    readonly #clock: Clock;
    isOpen = false;
    constructor(grammar: Grammar, clock: Clock) {
      this.#grammar = grammar;
      this.#clock = clock;
    }
    greet(): string {
      return `${this.#grammar.words.hello.toUpperCase()} at ${this.#clock.nowMs()}, ${this.isOpen}`;
    }
  }
  injects(Grammar, Words);
  injects(LoudGreeter, Grammar, Clock);
  const greeter = defineClassPlugin({
    name: 'greeter',
    provides: Greeter,
    requires: { words: Words, clock: Clock },
    made: LoudGreeter,
    async start(made) {
      made.isOpen = true;
    },
  });
  const ambient = { ...fakeAmbient(), clock: new FakeClock(5) };
  const kernel = await startKernel(t, [greeter, words], { ambient });
  assert.equal(kernel.get(Greeter).greet(), 'GOOD DAY at 5, true');
  const hasty = defineClassPlugin({
    name: 'greeter',
    provides: Greeter,
    requires: { words: Words },
    made: LoudGreeter,
  });
  await assert.rejects(startKernel(t, [hasty, words]), (error) => {
    assert.ok(error instanceof PluginError);
    const reason = "LoudGreeter needs 'clock', which was not granted";
    assert.equal(error.message, `plugin 'greeter' could not be created: ${reason}`);
    return true;
  });
});

test('classes with a `dispose` are disposed of when their plugin has stopped, what they were granted is not', async (t) => {
  const ended: string[] = [];
  class Noted {
    readonly #name: string;
    constructor(name: string) {
      this.#name = name;
    }
    dispose(): void {
      ended.push(this.#name);
    }
  }
  class Grammar extends Noted {
    constructor() {
      super('grammar');
    }
  }
  class PlainGreeter extends Noted implements Greeter {
    readonly #words: Words;
    constructor(_grammar: Grammar, given: Words) {
      super('greeter');
      this.#words = given;
    }
    greet(): string {
      return this.#words.hello;
    }
  }
  injects(Grammar);
  injects(PlainGreeter, Grammar, Words);
  const granted = Object.assign(new Noted('words'), { hello: 'good day' });
  const lasting = definePlugin({ name: 'words', provides: Words, requires: {}, create: () => granted });
  const greeter = defineClassPlugin({
    name: 'greeter',
    provides: Greeter,
    requires: { words: Words },
    made: PlainGreeter,
    stop: async () => void ended.push('stop'),
  });
  const kernel = await startKernel(t, [greeter, lasting]);
  assert.equal(kernel.get(Greeter).greet(), 'good day');
  assert.equal(ended.length, 0);
  await kernel.stop();
  assert.equal(ended[0], 'stop');
  assert.deepEqual(ended.toSorted(), ['grammar', 'greeter', 'stop']);
});

test('a plugin class that was compiled elsewhere, with decorators, lives like every other plugin', async (t) => {
  interface DecoratedGreeter extends Greeter {
    readonly isOpen: boolean;
    open(): void;
  }
  const url = new URL('../fixtures/plugins/polite-greeter.js', import.meta.url).href;
  const { PoliteGreeter } = (await import(url)) as { readonly PoliteGreeter: Class<DecoratedGreeter> };
  const greeter = defineClassPlugin({
    name: 'greeter',
    provides: Greeter,
    requires: { words: Words, clock: Clock },
    made: PoliteGreeter,
    open: async (made) => made.open(),
  });
  const ambient = { ...fakeAmbient(), clock: new FakeClock(7) };
  const kernel = await startKernel(t, [greeter, words], { ambient });
  const made = kernel.get(Greeter);
  assert.equal(made.greet(), 'good day at 7');
  assert.ok(made instanceof PoliteGreeter && made.isOpen);
  const hasty = defineClassPlugin({
    name: 'greeter',
    provides: Greeter,
    requires: { words: Words },
    made: PoliteGreeter,
  });
  await assert.rejects(startKernel(t, [hasty, words]), /'greeter' could not be created: .*"clock".*PoliteGreeter/s);
});

test('the compiler checks the list against the constructor and the value against the capability', () => {
  // The function is never called: tsc fails on an expected error that is missing.
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
