import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { describeMetrics } from '../../../plugins/api/contracts/metrics.ts';
import { systemRandom } from '../../../kernel/index.ts';
import { LinkedCluster } from '../../../subsystems/cluster/linked-cluster.ts';
import { MemoryService } from '../../support/memory-service.ts';
import { RecordingLogger } from '../../support/kernel.ts';
import { MessageReplays } from '../../../subsystems/replay/message-replays.ts';
import { KeptTimeline } from '../../../subsystems/timeline/kept-timeline.ts';
import { ArchiveWriter } from '../../../subsystems/archive/archive-writer.ts';
import type { MeasuredCanister } from '../../../subsystems/metrics/actor-lines.ts';
import { Histogram, type HistogramFigures } from '../../../subsystems/figures/index.ts';
import { Collections } from '../../../subsystems/metrics/collections.ts';
import { EventLoopLag } from '../../../subsystems/metrics/event-loop-lag.ts';
import type { ShownNumber } from '../../../subsystems/metrics/index.ts';
import { createMetering } from '../../../subsystems/metering/create-metering.ts';
import { NoMetrics } from '../../../subsystems/metrics/no-metrics.ts';
import { PrometheusMetrics } from '../../../subsystems/metrics/prometheus-metrics.ts';
import { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { NoUnits } from '../../../subsystems/storage/no-units.ts';
import { StateStore } from '../../../subsystems/storage/state-store.ts';
import { StepLog } from '../../../subsystems/storage/step-log.ts';
import { WriteBatch } from '../../../subsystems/storage/write-batch.ts';
import { collectGarbage } from '../../../subsystems/threads/index.ts';
import { type Family, parseExposition } from '../../support/exposition-parser.ts';
import { FakeClock } from '../../support/fake-clock.ts';
import { FaultyDisk } from '../../support/faulty-disk.ts';
import { startHttpHost } from '../http/counter-host.ts';

function canister(name: string, more: Partial<MeasuredCanister> = {}): MeasuredCanister {
  return {
    name,
    idHex: Buffer.from(name.padEnd(10, '.')).toString('hex'),
    balance: 5n,
    heapBytes: 65_536,
    queued: 0,
    messagesByName: 0,
    trapsByName: 0,
    messagesById: 0,
    trapsById: 0,
    ...more,
  };
}

/** Sources of the metrics; tests change them. */
class Sources {
  canisters: { wakeSeconds: HistogramFigures; replaySeconds: number; list(): readonly MeasuredCanister[] };
  readonly scheduler = {
    live: { liveCount: 0, evictions: 0, wakeUps: 0 },
    queuedMax: 10_000,
    idempotency: { keys: 5, bytes: 700, repeats: 2 },
  };
  readonly execution = {
    memory: { bytesMax: 1 << 30, bytesHigh: 1 << 29, bytesUsed: 4096, refusals: 3 },
    memoryByKind: () => ({ heaps: 1, stable: 2, journals: 3, queries: 4, spare: 5, garbage: 6, waking: 7 }),
    executorFigures: () => ({ executors: this.executors, replaced: 2, ringBytes: 4096 }),
  };
  readonly management = {
    outcalls: {
      ends: { answered: 4, refused: 1, busy: 0, failed: 2, timeout: 3, too_large: 0, transform: 0 },
      active: 2,
      waiting: 6,
      requestBytes: 70,
      responseBytes: 800,
      seconds: new Histogram([1]).figures,
    },
  };
  executors = [{ busySeconds: 1.5, steps: 20, instructions: 3000, underWay: 4 }];
  readonly clock = new FakeClock(1000);
  actors: MeasuredCanister[] = [];
  readonly wakes = new Histogram([1]);
  readonly store: StateStore | undefined;
  asked = 0;

  constructor(store?: StateStore) {
    this.store = store;
    this.canisters = { wakeSeconds: this.wakes.figures, replaySeconds: 0.25, list: () => this.actors };
  }

  get storage() {
    return {
      isKept: this.store !== undefined,
      newest: 12,
      durable: 9,
      figures: () => {
        this.asked++;
        return this.store === undefined
          ? Promise.reject(new Error('nothing is kept'))
          : Promise.resolve(this.store.figures);
      },
    };
  }
}

function openStore(): StateStore {
  const disk = new FaultyDisk();
  return new StateStore(new MemoryTables(), (known) => StepLog.open(disk, { ...known, segmentBytes: 64 * 1024 }), {
    isSynced: true,
  });
}

async function read(metrics: PrometheusMetrics): Promise<ReadonlyMap<string, Family>> {
  return parseExposition(Buffer.concat(await metrics.page()).toString('utf8'));
}

function samplesOf(families: ReadonlyMap<string, Family>, name: string): Record<string, number> {
  return Object.fromEntries(families.get(name)?.samples ?? []);
}

describeMetrics('PrometheusMetrics', () => new PrometheusMetrics(new Sources()));

test('numbers are those of the moment the page is read', async () => {
  const sources = new Sources();
  const metrics = new PrometheusMetrics(sources);
  assert.deepEqual(samplesOf(await read(metrics), 'svc_uptime_seconds'), { svc_uptime_seconds: 0 });
  sources.clock.advance(2500);
  sources.scheduler.live = { liveCount: 1, evictions: 7, wakeUps: 6 };
  sources.actors = [canister('one'), canister('two'), canister('three')];
  sources.wakes.observe(0.5);
  sources.canisters.wakeSeconds = sources.wakes.figures;
  const families = await read(metrics);
  const valueOf = (name: string): unknown => families.get(name)?.samples.get(name);
  assert.equal(valueOf('svc_uptime_seconds'), 2.5);
  assert.equal(valueOf('svc_live_actors'), 1);
  assert.equal(valueOf('svc_sleeping_actors'), 2);
  assert.equal(valueOf('svc_evictions_total'), 7);
  assert.equal(valueOf('svc_wakeups_total'), 6);
  assert.equal(families.get('svc_wake_seconds')?.samples.get('svc_wake_seconds_count'), 1);
  // A counter that is read twice is not added up.
  assert.deepEqual(samplesOf(await read(metrics), 'svc_evictions_total'), { svc_evictions_total: 7 });
});

test('requests are counted by class of endpoint', async () => {
  const metrics = new PrometheusMetrics(new Sources());
  const calls = metrics.requestsOf('call');
  calls.value++;
  metrics.requestsOf('call').value++;
  metrics.requestsOf('health');
  assert.deepEqual(samplesOf(await read(metrics), 'svc_http_requests_total'), {
    'svc_http_requests_total{endpoint="call"}': 2,
    'svc_http_requests_total{endpoint="health"}': 0,
  });
});

test('messages are told by how the actor was addressed; cycles and heap by its id', async () => {
  const sources = new Sources();
  sources.actors = [
    canister('shop', { messagesByName: 3, trapsByName: 1, messagesById: 2, trapsById: 2 }),
    canister('idle', { balance: 2n ** 100n }),
  ];
  const [shop, idle] = sources.actors.map(({ idHex }) => idHex);
  const families = await read(new PrometheusMetrics(sources));
  assert.deepEqual(samplesOf(families, 'svc_actor_messages_total'), {
    'svc_actor_messages_total{actor="shop"}': 3,
    [`svc_actor_messages_total{actor="${shop}"}`]: 2,
    'svc_actor_messages_total{actor="idle"}': 0,
  });
  assert.deepEqual(samplesOf(families, 'svc_actor_traps_total'), {
    'svc_actor_traps_total{actor="shop"}': 1,
    [`svc_actor_traps_total{actor="${shop}"}`]: 2,
    'svc_actor_traps_total{actor="idle"}': 0,
  });
  assert.deepEqual(samplesOf(families, 'svc_actor_cycles'), {
    [`svc_actor_cycles{actor="${shop}"}`]: 5,
    [`svc_actor_cycles{actor="${idle}"}`]: 2 ** 100,
  });
  assert.deepEqual(samplesOf(families, 'svc_actor_heap_bytes'), {
    [`svc_actor_heap_bytes{actor="${shop}"}`]: 65_536,
    [`svc_actor_heap_bytes{actor="${idle}"}`]: 65_536,
  });
});

test('an actor without a name has one line, however it was addressed', async () => {
  const sources = new Sources();
  const nameless = canister('80000000001000010101', {
    messagesByName: 3,
    trapsByName: 1,
    messagesById: 2,
    trapsById: 2,
  });
  sources.actors = [{ ...nameless, idHex: nameless.name }];
  const families = await read(new PrometheusMetrics(sources));
  const actor = `{actor="${nameless.name}"}`;
  assert.deepEqual(samplesOf(families, 'svc_actor_messages_total'), { [`svc_actor_messages_total${actor}`]: 5 });
  assert.deepEqual(samplesOf(families, 'svc_actor_traps_total'), { [`svc_actor_traps_total${actor}`]: 3 });
});

const OF_STATE = [
  'svc_state_bytes',
  'svc_log_bytes',
  'svc_replay_seconds',
  'svc_units_total',
  'svc_commit_bytes_total',
  'svc_commit_seconds',
  'svc_commit_units',
];

test('what the state says is there only if one is kept, and is asked once a page', async () => {
  const without = await read(new PrometheusMetrics(new Sources()));
  for (const name of OF_STATE) assert.ok(!without.has(name), name);

  const store = openStore();
  const sources = new Sources(store);
  const metrics = new PrometheusMetrics(sources);
  const units = ['a', 'b', 'c'].map((key) => {
    const unit = new WriteBatch();
    unit.put('meta', Buffer.from(key), Buffer.alloc(100));
    return unit.take();
  });
  store.commit(units.slice(0, 2));
  store.commitTook(0.3);
  store.commit(units.slice(2));
  store.commitTook(700);
  const families = await read(metrics);
  assert.equal(sources.asked, 1);
  const valueOf = (family: string, sample = family): unknown => families.get(family)?.samples.get(sample);
  assert.equal(valueOf('svc_units_total'), 3);
  assert.equal(
    valueOf('svc_commit_bytes_total'),
    units.reduce((bytes, unit) => bytes + unit.length, 0),
  );
  assert.equal(valueOf('svc_commit_units', 'svc_commit_units_bucket{le="1"}'), 1);
  assert.equal(valueOf('svc_commit_units', 'svc_commit_units_bucket{le="2"}'), 2);
  assert.equal(valueOf('svc_commit_units', 'svc_commit_units_sum'), 3);
  assert.equal(valueOf('svc_commit_seconds', 'svc_commit_seconds_bucket{le="0.00025"}'), 0);
  assert.equal(valueOf('svc_commit_seconds', 'svc_commit_seconds_bucket{le="0.0005"}'), 1);
  assert.equal(valueOf('svc_commit_seconds', 'svc_commit_seconds_count'), 2);
  assert.equal(valueOf('svc_replay_seconds'), 0.25);
  assert.equal(valueOf('svc_state_bytes'), store.figures.stateBytes);
  const logBytes = valueOf('svc_log_bytes');
  assert.ok(typeof logBytes === 'number' && logBytes > 300, `${String(logBytes)} bytes wait`);

  // When the tables have everything, no part of the log waits.
  store.fold();
  assert.ok(store.figures.logBytes < logBytes);
  assert.equal((await read(metrics)).get('svc_log_bytes')?.samples.get('svc_log_bytes'), store.figures.logBytes);
});

test('pages that are read at once have each its own numbers', async () => {
  const sources = new Sources(openStore());
  const metrics = new PrometheusMetrics(sources);
  sources.actors = [canister('one')];
  const pages = await Promise.all([read(metrics), read(metrics), read(metrics)]);
  for (const page of pages) {
    assert.deepEqual(samplesOf(page, 'svc_sleeping_actors'), { svc_sleeping_actors: 1 });
    assert.ok(page.has('svc_state_bytes'));
  }
});

test('a state that cannot be asked is told', async () => {
  const { canisters, scheduler, execution, management, clock } = new Sources();
  const storage = {
    isKept: true,
    newest: 0,
    durable: 0,
    figures: () => Promise.reject(new Error('the state directory is closed')),
  };
  const metrics = new PrometheusMetrics({ canisters, scheduler, execution, management, clock, storage });
  await assert.rejects(metrics.page(), /the state directory is closed/);
});

/** Returns 10,000 actors, some of which are addressed by id. */
function manyActors(): MeasuredCanister[] {
  return Array.from({ length: 10_000 }, (_, number) =>
    canister(`actor-${number}`, {
      balance: 10n ** 14n - BigInt(number),
      messagesByName: number,
      messagesById: number % 2,
      queued: number === 5000 ? 17 : number % 2,
    }),
  );
}

/**
 * Returns the longest slice of processor time, in ms, that this thread spends while `work` goes on, and the number of
 * slices.
 */
async function slicesOf(work: () => Promise<unknown>): Promise<{ readonly longestMs: number; readonly count: number }> {
  const cpuMs = (): number => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  let [longestMs, count, lookedMs] = [0, 0, cpuMs()];
  const look = (): void => {
    const nowMs = cpuMs();
    longestMs = Math.max(longestMs, nowMs - lookedMs);
    lookedMs = nowMs;
    count++;
  };
  const goOn = (): void => {
    look();
    waiting = setImmediate(goOn);
  };
  let waiting = setImmediate(goOn);
  await work();
  clearImmediate(waiting);
  look();
  return { longestMs, count };
}

test('a page of 10,000 actors takes no slice of the main thread longer than 10 ms of processor time', async () => {
  const sources = new Sources();
  sources.actors = manyActors();
  const metrics = new PrometheusMetrics(sources);
  const runs: { readonly longestMs: number; readonly count: number }[] = [];
  const best = (): number => Math.min(...runs.map(({ longestMs }) => longestMs));
  // The first ones compile; a garbage collection, or other users of the processor's other half, may disturb any of
  // them.
  while (runs.length < 7 || (runs.length < 50 && best() >= 10)) runs.push(await slicesOf(() => metrics.page()));
  const bestMs = best();
  assert.ok(bestMs < 10, `${bestMs.toFixed(1)} ms`);
  assert.ok(Math.min(...runs.map(({ count }) => count)) >= 3, 'something else has its turn in between');
});

test('however slow it is to tell of an actor, everything else has its turn after 2 ms', async (t) => {
  const sources = new Sources();
  // Each actor takes a twentieth of a millisecond, by a clock that otherwise stands still.
  let nowMs = 0;
  sources.actors = manyActors().map((actor) => ({
    ...actor,
    get name(): string {
      nowMs += 0.05;
      return actor.name;
    },
  }));
  const metrics = new PrometheusMetrics(sources);
  t.mock.method(performance, 'now', () => nowMs);
  const slices: number[] = [];
  let lookedMs = 0;
  const look = (): void => {
    slices.push(nowMs - lookedMs);
    lookedMs = nowMs;
    waiting = setImmediate(look);
  };
  let waiting = setImmediate(look);
  await metrics.page();
  clearImmediate(waiting);
  // 500 ms in all; the time is looked at after each 16 actors.
  assert.ok(Math.max(...slices) < 2 + 16 * 0.05 + 0.01, `${Math.max(...slices)} ms`);
  assert.ok(slices.length > 150, `${slices.length} slices`);
});

test('the lines of 10,000 actors are all there, however they were cut into pieces', async () => {
  const sources = new Sources();
  sources.actors = manyActors();
  const page = await read(new PrometheusMetrics(sources));
  assert.equal(page.get('svc_actor_cycles')?.samples.size, 10_000);
  assert.equal(page.get('svc_actor_heap_bytes')?.samples.size, 10_000);
  assert.equal(page.get('svc_actor_messages_total')?.samples.size, 15_000);
  assert.equal(page.get('svc_actor_traps_total')?.samples.size, 15_000);
  assert.equal(page.get('svc_actor_messages_total')?.samples.get('svc_actor_messages_total{actor="actor-9999"}'), 9999);
  assert.deepEqual(samplesOf(page, 'svc_queued_messages'), { svc_queued_messages: 5017 });
  assert.deepEqual(samplesOf(page, 'svc_queued_messages_deepest'), { svc_queued_messages_deepest: 17 });
  assert.deepEqual(samplesOf(page, 'svc_queued_messages_max'), { svc_queued_messages_max: 10_000 });
});

test('readers who come while a page is made share the next one, and none gets numbers older than its question', async () => {
  const sources = new Sources();
  sources.actors = [canister('one')];
  const metrics = new PrometheusMetrics(sources);
  const calls = metrics.requestsOf('call');
  const first = metrics.page();
  calls.value++;
  const others = Array.from({ length: 100 }, () => metrics.page());
  const pages = await Promise.all(others);
  assert.equal(new Set([await first, ...pages]).size, 2);
  const shown = parseExposition(Buffer.concat([...(pages[0] ?? [])]).toString('utf8'));
  assert.deepEqual(samplesOf(shown, 'svc_http_requests_total'), { 'svc_http_requests_total{endpoint="call"}': 1 });
  // When all of them are through, the next page begins at once.
  assert.notEqual(await metrics.page(), pages[0]);
});

test('a page that fails takes nobody along but those who asked for it', async () => {
  const sources = new Sources(openStore());
  let failures = 2;
  const figures = sources.storage.figures;
  const storage = {
    ...sources.storage,
    figures: () => (failures-- > 0 ? Promise.reject(new Error('not now')) : figures()),
  };
  const { canisters, scheduler, execution, management, clock } = sources;
  const metrics = new PrometheusMetrics({ canisters, scheduler, execution, management, clock, storage });
  const asked = [metrics.page(), metrics.page(), metrics.page()];
  assert.deepEqual(
    (await Promise.allSettled(asked)).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  );
  await metrics.page();
});

test('answers are counted by class of status and by what they took; a stream has no duration', async () => {
  const metrics = new PrometheusMetrics(new Sources());
  const calls = metrics.requestsOf('call');
  metrics.requestsOf('query');
  calls.answered(200, 0.2);
  calls.answered(204, 30);
  calls.answered(404, 700);
  calls.answered(503, 20_000);
  calls.streamed(200);
  const page = await read(metrics);
  assert.deepEqual(samplesOf(page, 'svc_http_responses_total'), {
    'svc_http_responses_total{endpoint="call",code="2xx"}': 3,
    'svc_http_responses_total{endpoint="call",code="3xx"}': 0,
    'svc_http_responses_total{endpoint="call",code="4xx"}': 1,
    'svc_http_responses_total{endpoint="call",code="5xx"}': 1,
  });
  const duration = samplesOf(page, 'svc_http_request_duration_seconds');
  const bucket = (le: string): unknown =>
    duration[`svc_http_request_duration_seconds_bucket{endpoint="call",le="${le}"}`];
  assert.equal(bucket('0.0001'), 0);
  assert.equal(bucket('0.00025'), 1);
  assert.equal(bucket('0.05'), 2);
  assert.equal(bucket('1'), 3);
  assert.equal(bucket('10'), 3);
  assert.equal(bucket('+Inf'), 4);
  assert.equal(duration['svc_http_request_duration_seconds_sum{endpoint="call"}'], 20.7302);
  assert.ok(Object.keys(duration).every((sample) => sample.includes('endpoint="call"')));
});

test('statuses that no class has count with the nearest one', async () => {
  const metrics = new PrometheusMetrics(new Sources());
  const site = metrics.requestsOf('site');
  for (const status of [0, 101, 600, 999, 5_000_000_000, -7]) site.answered(status, 1);
  const answers = samplesOf(await read(metrics), 'svc_http_responses_total');
  assert.deepEqual(Object.values(answers), [3, 0, 0, 3]);
});

test('executors and memory are told by executor and by kind', async () => {
  const sources = new Sources();
  const metrics = new PrometheusMetrics(sources);
  await read(metrics);
  sources.executors = [
    { busySeconds: 2, steps: 30, instructions: 4000, underWay: 0 },
    { busySeconds: 0, steps: 0, instructions: 0, underWay: 3 },
  ];
  const page = await read(metrics);
  const byExecutor = (name: string): number[] => Object.values(samplesOf(page, name));
  assert.deepEqual(samplesOf(page, 'svc_executor_busy_seconds_total'), {
    'svc_executor_busy_seconds_total{executor="0"}': 2,
    'svc_executor_busy_seconds_total{executor="1"}': 0,
  });
  assert.deepEqual(byExecutor('svc_executor_steps_total'), [30, 0]);
  assert.deepEqual(byExecutor('svc_executor_instructions_total'), [4000, 0]);
  assert.deepEqual(byExecutor('svc_executor_tasks'), [0, 3]);
  assert.deepEqual(byExecutor('svc_executor_replacements_total'), [2]);
  assert.deepEqual(samplesOf(page, 'svc_memory_kind_bytes'), {
    'svc_memory_kind_bytes{kind="heaps"}': 1,
    'svc_memory_kind_bytes{kind="stable"}': 2,
    'svc_memory_kind_bytes{kind="journals"}': 3,
    'svc_memory_kind_bytes{kind="queries"}': 4,
    'svc_memory_kind_bytes{kind="spare"}': 5,
    'svc_memory_kind_bytes{kind="garbage"}': 6,
    'svc_memory_kind_bytes{kind="waking"}': 7,
  });
});

test('the lag of the event loop is how late a timer is', async () => {
  const clock = new FakeClock();
  const lag = new EventLoopLag(clock);
  lag.start();
  for (let look = 0; look < 4; look++) clock.advance(250);
  // The event loop stands still for 60 ms.
  clock.advance(310);
  lag.stop();
  clock.advance(10_000);
  const { counts, bounds, sum } = lag.seconds;
  assert.equal(counts[0], 4);
  assert.equal(counts[bounds.indexOf(0.1)], 1);
  assert.equal(sum, 0.06);
  assert.equal(clock.pending, 0);
});

test('collections of garbage are timed by their kind, until it is stopped', async () => {
  const collections = new Collections();
  const countOf = (wanted: string): number =>
    collections.seconds
      .filter(([kind]) => kind === wanted)
      .flatMap(([, { counts }]) => counts)
      .reduce((sum, count) => sum + count, 0);
  collections.start();
  collectGarbage('full');
  for (let look = 0; look < 4_000 && countOf('major') === 0; look++)
    await new Promise((resolve) => setTimeout(resolve, 5));
  collections.stop();
  assert.ok(countOf('major') >= 1);
  const before = countOf('major');
  collectGarbage('full');
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(countOf('major'), before);
});

function archiveNumbers(): readonly ShownNumber[] {
  const nothing = (): void => undefined;
  const needs = {
    source: new NoUnits(),
    clock: new FakeClock(),
    random: systemRandom,
    log: { info: nothing, warn: nothing, debug: nothing },
  };
  return new ArchiveWriter(needs, { directory: 'archive', secs: 10, days: 30, bytes: 0 }).numbers;
}

function timelineNumbers(): readonly ShownNumber[] {
  const storage = { unit: new WriteBatch(), markDirty: assert.fail, onSeal: () => undefined };
  const units = Object.assign(new NoUnits(), { image: () => assert.fail(), module: () => assert.fail() });
  const needs = { storage: { ...storage, settled: assert.fail }, units, clock: new FakeClock() };
  const log = { info: assert.fail, warn: assert.fail };
  return new KeptTimeline({ ...needs, log }, { seconds: 60, bytes: 1, isSynced: true }, {}).numbers;
}

function replayNumbers(): readonly ShownNumber[] {
  const needs = { clock: new FakeClock() } as unknown as ConstructorParameters<typeof MessageReplays>[0];
  const { policy } = createMetering({ isEnabled: true, startingCycles: 0n, instructionLimit: 1 });
  return new MessageReplays(needs, { version: '', policy }).numbers;
}

function clusterNumbers(): readonly ShownNumber[] {
  const needs = { store: new MemoryService(2).join(0), clock: new FakeClock(), log: new RecordingLogger() };
  const link = { host: '127.0.0.1', port: 0, key: Buffer.from('key'), stop: assert.fail };
  const command = { script: '', args: [], environmentOf: () => ({}) };
  return new LinkedCluster(needs, { ...link, processes: { processesMax: 8, sparesMax: 2, command } }).numbers;
}

test('the document lists what the page has, no more and no less', async (t) => {
  const document = readFileSync(new URL('../../../docs/metrics.md', import.meta.url), 'utf8');
  const listed = [...document.matchAll(/^\| `(\w+)` \| (gauge|counter|histogram) \|/gm)].map(
    ([, name, type]) => `${name} ${type}`,
  );
  const metrics = new PrometheusMetrics(new Sources(openStore()));
  // The archive, timelines, replays, the cluster and the page show numbers of their own.
  const others = [archiveNumbers(), timelineNumbers(), replayNumbers(), clusterNumbers()];
  for (const number of others.flat()) metrics.show(number);
  await startHttpHost(t, { metrics });
  const shown = [...(await read(metrics))].map(([name, { type }]) => `${name} ${type}`);
  assert.deepEqual(listed.toSorted(), shown.toSorted());
});

test('turned off, it counts nothing and says why', async () => {
  const metrics = new NoMetrics();
  metrics.requestsOf().value++;
  metrics.requestsOf().answered(200, 1);
  metrics.requestsOf().streamed(200);
  metrics.show();
  await assert.rejects(metrics.page(), {
    kind: 'missing',
    code: 'metrics-off',
    message: 'GET /metrics is turned off (--no-metrics)',
  });
});
