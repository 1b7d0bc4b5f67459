import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import type { PluginDefinition } from '../../../plugins/api/definition.ts';
import {
  defineCapability,
  definePlugin,
  face,
  Logger,
  Outcalls,
  SchedulerSetup,
  Storage,
} from '../../../plugins/api/plugin.ts';
import { type CreateContext, definePlugin as defineOwn, type Kernel } from '../../../kernel/index.ts';
import { composePlugins, type LoadedPlugin } from '../../../plugins/loader/index.ts';
import { outcallsPlugin } from '../../../plugins/outcalls.ts';
import { storagePlugin } from '../../../plugins/storage.ts';
import type { BackupFile } from '../../../subsystems/storage/index.ts';
import { NoStorage } from '../../../subsystems/storage/no-storage.ts';
import { createTestKernel, type FakeAmbient, fakeAmbient } from '../../support/kernel.ts';

const never = (): Promise<never> => new Promise(() => undefined);
const outcalls = (): Outcalls => ({ send: never });

interface Hosted {
  readonly kernel: Kernel;
  readonly ambient: FakeAmbient;
}

/** Makes a kernel with this plugin in the place of the server's own. */
function host(
  t: TestContext,
  definition: PluginDefinition,
  backup?: BackupFile,
  inherits: LoadedPlugin['inherits'] = [],
): Hosted {
  const own = definition.provides.name === 'storage' ? storagePlugin : outcallsPlugin;
  const loaded: LoadedPlugin = {
    capability: definition.provides.name,
    module: './mine.js',
    file: '/srv/mine.js',
    definition,
    replaces: own.name,
    wraps: Object.values(definition.requires ?? {}).some(({ name }) => name === own.provides.name),
    inherits,
  };
  const { plugins } = composePlugins({ builtin: [own], loaded: [loaded], backup });
  const ambient = fakeAmbient();
  return { kernel: createTestKernel(t, plugins, { ambient, stopMayFail: true }), ambient };
}

/** Returns the reason why the kernel does not start; time goes on meanwhile. */
async function failure({ kernel, ambient }: Hosted, passMs = 0): Promise<string> {
  let outcome: unknown;
  void kernel.start().then(
    () => (outcome = new Error('it started')),
    (error: unknown) => (outcome = error),
  );
  for (let turn = 0; turn < 100 && outcome === undefined; turn++) {
    await nextTurn();
    ambient.clock.advance(passMs);
  }
  assert.ok(outcome instanceof Error, 'the start has not ended');
  return outcome.message;
}

const MINE = { apiVersion: 1, name: 'mine', provides: Outcalls, create: outcalls } as const;

test('a plugin from outside is called through its whole life, with what it requires', async (t) => {
  const calls: string[] = [];
  const call = (name: string) => (): void => void calls.push(name);
  const made = outcalls();
  const definition = definePlugin({
    ...MINE,
    requires: { log: Logger },
    create: ({ log }) => {
      log.info('created');
      return made;
    },
    open: call('open'),
    start: call('start'),
    ready: call('ready'),
    drain: call('drain'),
    stop: call('stop'),
  });
  const { kernel, ambient } = host(t, definition);
  await kernel.start();
  assert.equal(kernel.get(Outcalls), made);
  await kernel.stop();
  assert.deepEqual(calls, ['open', 'start', 'ready', 'drain', 'stop']);
  assert.deepEqual(ambient.logger.lines, ['info: created']);
});

test('narrow capabilities that come with a part are checked with it, and handed out', async (t) => {
  const lacking = host(t, definePlugin({ ...MINE }), undefined, [face(SchedulerSetup, (made: SchedulerSetup) => made)]);
  assert.match(
    await failure(lacking),
    /no 'outcalls': it lacks attachCanisters\(\), attach\(\), restore\(\), restoreAnswers\(\); the face/,
  );
  const Narrow = defineCapability<Outcalls>('narrow');
  const { kernel } = host(t, definePlugin({ ...MINE }), undefined, [face(Narrow, (made: Outcalls) => made)]);
  await kernel.start();
  assert.equal(kernel.get(Narrow), kernel.get(Outcalls));
});

test('what create returns is checked: the members that it lacks are named, and so is its file', async (t) => {
  const made = (value: unknown) => definePlugin({ ...MINE, provides: Storage, create: () => value as Storage });
  const start = "plugin 'mine' (/srv/mine.js) could not be created: ";
  assert.equal(
    await failure(host(t, made({ isKept: true, unit: 0, current: 0, durable: 0, newest: 0, markDirty: never }))),
    `${start}what its create returned is no 'storage': it lacks supports, range(), keys(), get(), values(), ` +
      `canister(), figures(), readAhead(), backup(), expectUnit(), holdUnit(), onSeal(), whenDurable(), ` +
      `settled(); the face in svc/plugin says what each has to do`,
  );
  assert.equal(
    await failure(host(t, made(undefined))),
    `${start}its create returned undefined, not an object for 'storage'`,
  );
  assert.equal(
    await failure(host(t, made(Promise.resolve()))),
    `${start}its create returned a promise: build the object at once, and wait in start`,
  );
});

test('one that throws in create, open or start fails the start, and what was started is stopped', async (t) => {
  const fail = (): never => {
    throw new TypeError('no luck');
  };
  const stopped: string[] = [];
  const stop = (name: string) => (): void => void stopped.push(name);
  assert.equal(
    await failure(host(t, definePlugin({ ...MINE, create: fail, stop: stop('create') }))),
    "plugin 'mine' (/srv/mine.js) could not be created: no luck",
  );
  assert.equal(
    await failure(host(t, definePlugin({ ...MINE, open: fail, stop: stop('open') }))),
    "plugin 'mine' (/srv/mine.js) could not open: no luck",
  );
  assert.equal(
    await failure(host(t, definePlugin({ ...MINE, start: fail, stop: stop('start') }))),
    "plugin 'mine' (/srv/mine.js) could not start: no luck",
  );
  assert.deepEqual(stopped, ['open', 'start'], 'what was created is stopped, once');
});

test('one that hangs in start is given up when nothing was heard of it for a time, and not before', async (t) => {
  const silent = host(t, definePlugin({ ...MINE, start: never }));
  assert.match(
    await failure(silent, 10_000),
    /^plugin 'mine' \(\/srv\/mine\.js\) could not start: nothing was heard of it for 60000 ms: call readiness\.waiting\('…'\)/,
  );
  assert.ok(silent.ambient.clock.nowMs() >= 60_000);

  const standby = definePlugin({
    ...MINE,
    startSilenceMs: 1_000,
    async start(_made, { readiness }) {
      for (let turn = 0; turn < 20; turn++) {
        readiness.waiting(`standby ${turn}`);
        await nextTurn();
      }
    },
  });
  const hosted = host(t, standby);
  assert.equal(await failure(hosted, 900), 'it started', 'it may take as long as it says what it waits for');
  assert.ok(hosted.ambient.clock.nowMs() > 10_000);
});

test('one that hangs in drain or stop is left behind, named, and the stop fails', async (t) => {
  for (const phase of ['drain', 'stop'] as const) {
    const { kernel, ambient } = host(t, definePlugin({ ...MINE, [phase]: never, stopDeadlineMs: 500 }));
    await kernel.start();
    let outcome: unknown;
    kernel.stop().catch((error: unknown) => (outcome = error));
    for (let turn = 0; turn < 50 && outcome === undefined; turn++) {
      await nextTurn();
      ambient.clock.advance(200);
    }
    assert.ok(outcome instanceof AggregateError);
    assert.equal(outcome.message, `plugin 'mine' (/srv/mine.js) did not ${phase} in time: it took longer than 500 ms`);
  }
});

test('a backup goes into a durable storage before it starts; one that cannot restore says so', async (t) => {
  const backup: BackupFile = { path: 'a.backup', entries: 0, bytes: 0, changes: () => assert.fail('not read') };
  const calls: string[] = [];
  const storage = definePlugin({
    apiVersion: 1,
    name: 'mine',
    provides: Storage,
    isDurable: true,
    create: () => new NoStorage(),
    restore: async (_made, { path }) => {
      calls.push(`restore ${path}`);
      return { entries: 3, bytes: 70 };
    },
    start: () => void calls.push('start'),
  });
  const { kernel, ambient } = host(t, storage, backup);
  await kernel.start();
  assert.deepEqual(calls, ['restore a.backup', 'start']);
  assert.deepEqual(ambient.logger.announced, ['restored 3 entries (70 bytes) from a.backup']);
  const without = { ...storage, restore: undefined } as unknown as typeof storage;
  assert.match(
    await failure(host(t, without, backup)),
    /could not start: it cannot restore backups: start without --restore$/,
  );
});

interface Thing {
  readonly says: string;
}
const Thing = defineCapability<Thing>('thing');
const ThingSetup = defineCapability<Thing>('thing-setup');
const ThingUser = defineCapability<Thing>('thing-user');

/**
 * Makes a part of the server with a narrow face, a user of it, and the plugin in its place; notes the calls in order.
 */
function withThing(t: TestContext, definition: PluginDefinition, calls: string[]): Kernel {
  const told = (name: string) => ({
    open: async () => void calls.push(`${name} opens`),
    start: async () => void calls.push(`${name} starts`),
    ready: () => void calls.push(`${name} is ready`),
    drain: async () => void calls.push(`${name} drains`),
    stop: async () => void calls.push(`${name} stops`),
  });
  const own = defineOwn({
    name: 'thing',
    provides: Thing,
    alsoProvides: [face(ThingSetup, () => ({ says: 'set up by the server' }))],
    requires: {},
    create: (_granted, { config, owns }: { readonly config: Thing; readonly owns: CreateContext<Thing>['owns'] }) =>
      owns({ says: config.says }, () => void calls.push('the own is let go')),
    ...told('the own'),
  });
  const user = defineOwn({
    name: 'user',
    provides: ThingUser,
    requires: { thing: Thing, setup: ThingSetup },
    create: ({ thing, setup }) => ({ says: `${thing.says}, ${setup.says}` }),
    ...told('the user'),
  });
  const wraps = Object.values(definition.requires ?? {}).some(({ name }) => name === 'thing');
  const mine = {
    capability: 'thing',
    module: './mine.js',
    file: '/srv/mine.js',
    replaces: 'thing',
    wraps,
    inherits: [],
  };
  const { plugins } = composePlugins({
    builtin: [user, own],
    loaded: [{ ...mine, definition: { ...definition, ...told('mine') } }],
  });
  const config = { thing: { says: 'as configured' } };
  return createTestKernel(t, plugins, { ambient: fakeAmbient(), config });
}

const WRAPPER = definePlugin({
  apiVersion: 1,
  name: 'mine',
  provides: Thing,
  requires: { own: Thing },
  create: ({ own }) => ({ says: `mine around ${own.says}` }),
});

test('one that requires what it replaces is granted the server’s own, which lives its whole life below it', async (t) => {
  const calls: string[] = [];
  const kernel = withThing(t, WRAPPER, calls);
  await kernel.start();
  assert.equal(kernel.get(ThingUser).says, 'mine around as configured, set up by the server');
  await kernel.stop();
  const up = ['the own', 'mine', 'the user'];
  const down = up.toReversed();
  assert.deepEqual(calls, [
    ...up.map((name) => `${name} opens`),
    ...up.map((name) => `${name} starts`),
    ...up.map((name) => `${name} is ready`),
    ...down.map((name) => `${name} drains`),
    'the user stops',
    'mine stops',
    'the own stops',
    'the own is let go',
  ]);
});

test('narrow capabilities of what is wrapped stay, or are the plugin’s, which is granted those that it takes', async (t) => {
  const both = definePlugin({
    apiVersion: 1,
    name: 'mine',
    provides: Thing,
    requires: { own: Thing, setup: ThingSetup },
    create: ({ own: { says }, setup }) => ({ says, setup }),
    alsoProvides: [
      face(ThingSetup, ({ setup }: Thing & { readonly setup: Thing }) => ({ says: `mine around ${setup.says}` })),
    ],
  });
  const kernel = withThing(t, both, []);
  await kernel.start();
  assert.equal(kernel.get(ThingUser).says, 'as configured, mine around set up by the server');
});

test('a start of what is wrapped that fails is told as its own, and both are stopped', async (t) => {
  const calls: string[] = [];
  const fail = (): never => {
    throw new Error('no luck');
  };
  await assert.rejects(
    withThing(t, definePlugin({ ...WRAPPER, create: fail }), calls).start(),
    /^PluginError: plugin 'mine' \(\/srv\/mine\.js\) could not be created: no luck$/,
  );
  assert.deepEqual(calls, ['the own drains', 'the own stops', 'the own is let go']);
});

test('a circle is one all the same: through another part, or of what is nobody else’s', (t) => {
  const around = definePlugin({ ...WRAPPER, requires: { own: Thing, user: ThingUser }, create: () => ({ says: '' }) });
  assert.throws(() => withThing(t, around, []), /plugins require each other in a circle: user → mine → user; take one/);
  const own = defineCapability<object>('own');
  const selfish = definePlugin({
    apiVersion: 1,
    name: 'selfish',
    provides: own,
    requires: { own },
    create: () => ({}),
  });
  const loaded = {
    capability: 'own',
    module: './x.js',
    file: '/srv/x.js',
    replaces: undefined,
    wraps: false,
    inherits: [],
  };
  const { plugins } = composePlugins({ builtin: [outcallsPlugin], loaded: [{ ...loaded, definition: selfish }] });
  assert.throws(() => createTestKernel(t, plugins), /in a circle: selfish → selfish; take one/);
});
